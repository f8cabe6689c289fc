#include "backend/proposals.h"

namespace toroid::backend {

std::vector<choice::Config> without_default(const choice::Node& n, std::vector<choice::Config> all) {
  if (!all.empty() && n.config.empty() && !n.is_library()) all.erase(all.begin());
  return all;
}

choice::Config first_of(const std::vector<choice::Config>& all) { return all.empty() ? choice::Config{} : all.front(); }

void add_library(std::vector<choice::Config>& ways, const choice::Node& n, choice::Config way, const std::string& refusal) {
  if (refusal.empty() && !n.is_library()) ways.push_back(std::move(way));
}

}  // namespace toroid::backend
