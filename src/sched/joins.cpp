#include "sched/joins.h"

namespace toroid::sched {

void Joins::join(size_t first, size_t second, program::Node whole) {
  p_.nodes[second] = std::move(whole);
  uses_.set(second, p_.nodes[second]);
  uses_.remove(first);
  gone_[first] = true;
}

void Joins::miss(size_t first, size_t second, std::string reason) {
  if (report_) report_->misses.push_back({program::label(p_.nodes[first]), program::label(p_.nodes[second]), std::move(reason)});
}

void Joins::finish() {
  program::drop(p_, gone_);
  if (report_) report_->nodes_after = p_.nodes.size();
}

}  // namespace toroid::sched
