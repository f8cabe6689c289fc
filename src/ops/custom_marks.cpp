#include "ops/custom_marks.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>

namespace toroid::ops {
namespace {

struct Marks {
  std::shared_mutex mutex;
  std::unordered_set<const Op*> own_gradient;
  std::atomic<bool> any{false};
};
Marks& marks() {
  static Marks& m = *new Marks;  // never destroyed: threads may outlive main
  return m;
}

}  // namespace

bool has_own_gradient(const Op& op) {
  Marks& m = marks();
  if (!m.any.load(std::memory_order_acquire)) return false;
  std::shared_lock lock(m.mutex);
  return m.own_gradient.count(&op) > 0;
}

bool mark_own_gradient(const Op& op) {
  Marks& m = marks();
  std::unique_lock lock(m.mutex);
  m.any.store(true, std::memory_order_release);
  return m.own_gradient.insert(&op).second;
}

}  // namespace toroid::ops
