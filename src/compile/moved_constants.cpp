#include "compile/moved_constants.h"

#include "tensor/tensor_impl.h"

namespace toroid::compiler {

Tensor MovedConstants::get(const Tensor& t, const Device& device) {
  if (t.device() == device) return t;
  if (Tensor there = find(t); there.defined()) return there;
  Tensor there = moved(t, device);
  std::lock_guard lock(mutex_);
  moved_.emplace_back(t, there);
  return there;
}

Tensor MovedConstants::find(const Tensor& t) {
  std::lock_guard lock(mutex_);
  for (auto& [from, to] : moved_)
    if (from.impl() == t.impl()) return to;
  return {};
}

}  // namespace toroid::compiler
