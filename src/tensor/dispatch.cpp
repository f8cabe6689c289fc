#include "tensor/dispatch.h"

#include <atomic>

#include "base/check.h"

namespace toroid {
namespace {
thread_local Dispatcher* innermost = nullptr;
std::atomic<Dispatcher*> eager{nullptr};
}  // namespace

Dispatcher& current_dispatcher() {
  Dispatcher* d = innermost ? innermost : eager.load(std::memory_order_acquire);
  TOROID_CHECK(d, "no dispatcher is installed");
  return *d;
}

void install_eager_dispatcher(Dispatcher* d) { eager.store(d, std::memory_order_release); }

DispatchScope::DispatchScope(Dispatcher& d) : before_(innermost) { innermost = &d; }
DispatchScope::~DispatchScope() { innermost = before_; }

}  // namespace toroid
