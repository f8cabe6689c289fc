#include "codegen/rearrange.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/layout.h"

namespace toroid::codegen {
namespace {

struct Walk {
  std::vector<int64_t> sizes, from, to;  // strides
  int64_t offset_from = 0, offset_to = 0;
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

// The elements that it touches lie in memory of so many. All numbers may be anybody's.
void check_reach(const Walk& w, const std::vector<int64_t>& strides, int64_t offset, int64_t numel, const char* what) {
  int64_t last = offset;
  bool fits = offset >= 0;
  for (size_t d = 0; d < w.sizes.size() && fits; ++d) {
    int64_t step = 0;
    fits = w.sizes[d] > 0 && strides[d] >= 0 && !__builtin_mul_overflow(w.sizes[d] - 1, strides[d], &step) &&
           !__builtin_add_overflow(last, step, &last);
  }
  TOROID_USER_CHECK(fits && last < numel, "the packing \"rearranged\" reaches outside of {}, which has {} elements", what, numel);
}

Walk next_walk(Numbers& numbers, const Tensor& from, const Tensor& to) {
  constexpr int64_t kMostDimensions = 64;
  Walk w;
  w.offset_from = numbers.next(), w.offset_to = numbers.next();
  const int64_t rank = numbers.next();
  TOROID_USER_CHECK(rank >= 0 && rank <= kMostDimensions, "the packing \"rearranged\" has a part of {} dimensions", rank);
  for (auto* list : {&w.sizes, &w.from, &w.to}) *list = numbers.next(static_cast<size_t>(rank));
  check_reach(w, w.from, w.offset_from, extent_of(from), "what it is made of");
  check_reach(w, w.to, w.offset_to, to.numel(), "its result");
  for (auto* list : {&w.sizes, &w.from, &w.to})
    while (list->size() < 2) list->insert(list->begin(), 1);
  return w;
}

// Parts of about so many elements are copied by a thread at a time.
constexpr int64_t kElementsPerJob = 1 << 18;

template <class Element>
void add_jobs(const Tensor& from, const Tensor& to, Walk w, std::vector<std::function<void()>>& jobs) {
  int64_t of_one = 1;  // elements for each index of the first dimension
  for (size_t d = 1; d < w.sizes.size(); ++d) of_one *= w.sizes[d];
  const int64_t rows = std::max<int64_t>(1, kElementsPerJob / of_one), all = w.sizes[0];
  for (int64_t first = 0; first < all; first += rows) {
    Walk part = w;
    part.sizes[0] = std::min(rows, all - first);
    part.offset_from += first * w.from[0], part.offset_to += first * w.to[0];
    jobs.push_back([from, to, part = std::move(part)] {
      copy(reinterpret_cast<const Element*>(from.raw_data()) + part.offset_from, reinterpret_cast<Element*>(to.raw_data()) + part.offset_to,
           part);
    });
  }
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
  const int64_t type = numbers.next();
  TOROID_USER_CHECK(type >= 0 && type < kDTypeCount, "the packing \"rearranged\" has a dtype number {}, which is none", type);
  const auto dtype = static_cast<DType>(type);
  const int64_t numel = numbers.next();
  TOROID_USER_CHECK(numel >= 0, "the packing \"rearranged\" has a result of {} elements", numel);
  Packed out{Tensor::full(std::vector<int64_t>{numel}, 0, dtype), {}};
  while (numbers.more()) {
    const int64_t number = numbers.next();
    TOROID_USER_CHECK(number >= 0 && number < static_cast<int64_t>(from.size()),
                      "the packing \"rearranged\" has a part of tensor {} among {}", number, from.size());
    const Tensor& part = from[static_cast<size_t>(number)];
    TOROID_USER_CHECK(part.dtype() == dtype, "the packing \"rearranged\" makes a constant of {}, but its part is of {}", name_of(dtype),
                      name_of(part.dtype()));
    const Walk walk = next_walk(numbers, part, out.tensor);
    if (size_of(dtype) == 2)
      add_jobs<uint16_t>(part, out.tensor, walk, out.jobs);
    else if (size_of(dtype) == 4)
      add_jobs<uint32_t>(part, out.tensor, walk, out.jobs);
    else
      fail<UserError>("the packing \"rearranged\" is not of {}", name_of(dtype));
  }
  return out;
}

}  // namespace toroid::codegen
