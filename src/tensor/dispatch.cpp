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

Dispatcher* innermost_dispatcher() { return innermost; }
Dispatcher* eager_dispatcher() { return eager.load(std::memory_order_acquire); }

void Dispatcher::require(const sym::Relation& r, const std::string& error) {
  if (!decide(r)) fail<UserError>("{}", error);
}

Tensor Dispatcher::move(const Tensor& t, const Device& device, const std::source_location& where) {
  if (is_proxy(t)) read(t, "to()", where);
  return moved(t, device, where);
}

bool Dispatcher::copy(const Tensor& /*from*/, const Tensor& /*to*/) { return false; }

void install_eager_dispatcher(Dispatcher* d) { eager.store(d, std::memory_order_release); }

DispatchScope::DispatchScope(Dispatcher& d) : before_(innermost) { innermost = &d; }
DispatchScope::~DispatchScope() { innermost = before_; }

}  // namespace toroid
