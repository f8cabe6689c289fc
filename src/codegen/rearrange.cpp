#include "codegen/rearrange.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace toroid::codegen {
namespace {

struct Walk {
  std::vector<int64_t> sizes, from, to;  // strides
};

// Blocks of the two innermost dimensions, so that whole lines are used along both.
template <class Element>
void copy_matrix(const Element* from, Element* to, const Walk& w) {
  constexpr int64_t kBlock = 32;
  const size_t row = w.sizes.size() - 2, column = w.sizes.size() - 1;
  for (int64_t i0 = 0; i0 < w.sizes[row]; i0 += kBlock)
    for (int64_t j0 = 0; j0 < w.sizes[column]; j0 += kBlock) {
      const int64_t i1 = std::min(i0 + kBlock, w.sizes[row]), j1 = std::min(j0 + kBlock, w.sizes[column]);
      for (int64_t i = i0; i < i1; ++i)
        for (int64_t j = j0; j < j1; ++j) to[i * w.to[row] + j * w.to[column]] = from[i * w.from[row] + j * w.from[column]];
    }
}

template <class Element>
void copy(const Element* from, Element* to, const Walk& w, size_t dim = 0) {
  if (dim + 2 == w.sizes.size()) return copy_matrix(from, to, w);
  for (int64_t i = 0; i < w.sizes[dim]; ++i) copy(from + i * w.from[dim], to + i * w.to[dim], w, dim + 1);
}

template <class Element>
void copy_part(const Tensor& from, Tensor& to, const program::Rearranged::Part& part) {
  Walk w{part.sizes, {}, part.strides};
  for (auto& s : part.from.strides) w.from.push_back(s.constant());
  for (auto* list : {&w.sizes, &w.from, &w.to})
    while (list->size() < 2) list->insert(list->begin(), 1);
  copy(reinterpret_cast<const Element*>(from.raw_data()) + part.from.offset.constant(),
       reinterpret_cast<Element*>(to.raw_data()) + part.offset, w);
}

}  // namespace

Tensor rearranged(const program::Rearranged& r, DType dtype, int64_t numel, const std::map<int, Tensor>& constants) {
  Tensor out = Tensor::empty({numel}, dtype);
  std::memset(out.raw_data(), 0, static_cast<size_t>(numel) * size_of(dtype));
  for (auto& part : r.parts) {
    const Tensor& from = constants.at(part.from.buffer);
    TOROID_CHECK(from.dtype() == dtype, "a constant of {} cannot be made of one of {}", name_of(dtype), name_of(from.dtype()));
    if (size_of(dtype) == 2)
      copy_part<uint16_t>(from, out, part);
    else if (size_of(dtype) == 4)
      copy_part<uint32_t>(from, out, part);
    else
      fail<InternalError>("constants of {} are not rearranged", name_of(dtype));
  }
  return out;
}

}  // namespace toroid::codegen
