#include "device/cuda/arguments.h"

#include <algorithm>

namespace toroid::device::cuda {

Arguments::Arguments(const std::vector<TensorMap>& maps, std::vector<int64_t> sizes, size_t pointers,
                     const std::function<int64_t(const Expr&)>& value, bool together)
    : pointers_(pointers, nullptr), sizes_(std::move(sizes)) {
  for (auto& m : maps) maps_.push_back({evaluate(m, value), m.buffer, {}});
  const size_t each = together ? std::min<size_t>(pointers, 1) : pointers;
  for (size_t i = 0; i < each; ++i) list_.push_back(&pointers_[i]);
  for (auto& m : maps_) list_.push_back(&m.encoded);
  for (auto& s : sizes_) list_.push_back(&s);
}

bool Arguments::set_pointers(std::span<void* const> pointers) {
  bool changed = false;
  for (size_t i = 0; i < pointers_.size(); ++i) {
    if (pointers_[i] == pointers[i]) continue;
    changed = true;
    pointers_[i] = pointers[i];
    for (auto& m : maps_)
      if (static_cast<size_t>(m.buffer) == i) m.encoded = encode(m.sizes, pointers[i]);
  }
  return changed;
}

}  // namespace toroid::device::cuda
