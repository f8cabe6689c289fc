#include "device/cuda/arguments.h"

namespace toroid::device::cuda {

Arguments::Arguments(const std::vector<TensorMap>& maps, std::vector<int64_t> sizes, size_t pointers,
                     const std::function<int64_t(const Expr&)>& value)
    : pointers_(pointers, nullptr), sizes_(std::move(sizes)) {
  for (auto& m : maps) maps_.push_back({evaluate(m, value), m.buffer, {}});
  for (auto& p : pointers_) list_.push_back(&p);
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
