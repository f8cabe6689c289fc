#include "codegen/rearrange.h"

#include <algorithm>

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

// Numbers that were written one after the other.
class Numbers {
 public:
  explicit Numbers(const Packing& how) : how_(how) {}
  int64_t next() {
    TOROID_USER_CHECK(at_ < how_.numbers.size(), "the packing \"{}\" lacks numbers after {}", how_.name, at_);
    return how_.numbers[at_++];
  }
  std::vector<int64_t> next(size_t count) {
    std::vector<int64_t> out;
    for (size_t i = 0; i < count; ++i) out.push_back(next());
    return out;
  }
  bool more() const { return at_ < how_.numbers.size(); }

 private:
  const Packing& how_;
  size_t at_ = 0;
};

template <class Element>
void copy_part(const Tensor& from, const Tensor& to, Numbers& part) {
  const int64_t offset_from = part.next(), offset_to = part.next();
  const auto rank = static_cast<size_t>(part.next());
  Walk w{part.next(rank), part.next(rank), part.next(rank)};
  for (auto* list : {&w.sizes, &w.from, &w.to})
    while (list->size() < 2) list->insert(list->begin(), 1);
  copy(reinterpret_cast<const Element*>(from.raw_data()) + offset_from, reinterpret_cast<Element*>(to.raw_data()) + offset_to, w);
}

}  // namespace

std::pair<Packing, std::vector<Tensor>> packing_of(const program::Rearranged& r, DType dtype, int64_t numel,
                                                   const std::map<int, Tensor>& constants) {
  Packing how{"rearranged", {static_cast<int64_t>(dtype), numel}};
  std::vector<Tensor> from;
  const auto add = [&](const std::vector<int64_t>& list) { how.numbers.insert(how.numbers.end(), list.begin(), list.end()); };
  for (auto& part : r.parts) {
    std::vector<int64_t> strides;
    for (auto& s : part.from.strides) strides.push_back(s.constant());
    add({static_cast<int64_t>(from.size()), part.from.offset.constant(), part.offset, static_cast<int64_t>(part.sizes.size())});
    add(part.sizes), add(strides), add(part.strides);
    from.push_back(constants.at(part.from.buffer));
  }
  return {std::move(how), std::move(from)};
}

Packed rearrange(const Packing& how, const std::vector<Tensor>& from) {
  Numbers numbers(how);
  const auto dtype = static_cast<DType>(numbers.next());
  Tensor out = Tensor::full(numbers.next(1), 0, dtype);
  while (numbers.more()) {
    const Tensor& part = from.at(static_cast<size_t>(numbers.next()));
    TOROID_CHECK(part.dtype() == dtype, "a constant of {} cannot be made of one of {}", name_of(dtype), name_of(part.dtype()));
    if (size_of(dtype) == 2)
      copy_part<uint16_t>(part, out, numbers);
    else if (size_of(dtype) == 4)
      copy_part<uint32_t>(part, out, numbers);
    else
      fail<InternalError>("constants of {} are not rearranged", name_of(dtype));
  }
  return {out, {}};
}

}  // namespace toroid::codegen
