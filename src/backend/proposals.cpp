#include "backend/proposals.h"

namespace toroid::backend {

std::vector<program::Config> without_default(const program::Node& n, std::vector<program::Config> all) {
  if (!all.empty() && n.config.empty() && !n.is_library()) all.erase(all.begin());
  return all;
}

program::Config first_of(const std::vector<program::Config>& all) { return all.empty() ? program::Config{} : all.front(); }

void add_library(std::vector<program::Config>& ways, const program::Node& n, program::Config way, const std::string& refusal) {
  if (refusal.empty() && !n.is_library()) ways.push_back(std::move(way));
}

}  // namespace toroid::backend
