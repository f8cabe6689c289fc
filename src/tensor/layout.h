// Where the elements of tensors lie.
#pragma once

#include "tensor/tensor_impl.h"

namespace toroid {

// Elements of memory from the first to the last one, gaps included.
inline int64_t extent_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return last + 1;
}
inline int64_t extent_of(const Tensor& t) { return extent_of(t.sizes(), t.strides()); }

// What Tensor::contiguous() and as_strided() give where nothing is recorded and no gradient is remembered: of the memory, as it is now.
Tensor made_dense(const Tensor& t, const std::source_location& where = std::source_location::current());
Tensor seen_as(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset = 0,
               const std::source_location& where = std::source_location::current());

}  // namespace toroid
