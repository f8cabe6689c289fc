#include "tensor/grad_state.h"

#include "base/check.h"

namespace toroid {
namespace {
std::atomic<TapedMembers*> installed{nullptr};
}

bool requires_grad(const TensorImpl& t) {
  if (!is_taped(t)) return t.requires_grad;
  if (!t.grad) return static_cast<bool>(t.storage->history->edge);
  const GradState& s = *t.grad;
  if (s.base && s.base->generation != s.generation) return static_cast<bool>(s.base->edge);
  return s.asks || s.edge;
}

bool gradients_are_in_use() { return installed.load(std::memory_order_relaxed) != nullptr; }

TapedMembers& taped_members() {
  TapedMembers* m = installed.load(std::memory_order_acquire);
  TOROID_CHECK(m, "a tensor has a state of gradients before there is a tape");
  return *m;
}
void install_taped_members(TapedMembers* members) { installed.store(members, std::memory_order_release); }

WriteCount::Counter WriteCount::watch() const {
  if (const Counter* c = counter_.load(std::memory_order_acquire)) return *c;
  auto fresh = std::make_unique<const Counter>(std::make_shared<std::atomic<uint64_t>>(0));
  const Counter* none = nullptr;
  if (!counter_.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel)) return *none;
  return *fresh.release();
}

}  // namespace toroid
