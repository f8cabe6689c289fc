#include "program/problems/sort.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace toroid::program {

void compute(const Sort& s, const Tensors& operands) {
  const Tensor& keys = operands[0];
  const size_t last = keys.sizes().size() - 1;
  const auto length = static_cast<size_t>(keys.sizes()[last]);
  const bool floats = is_float(keys.dtype());
  const auto less = [&](const Number& a, const Number& b) {
    if (floats) return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
    return keys.dtype() == DType::U64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i) : a.i < b.i;
  };
  each_row(keys.sizes(), [&](std::vector<int64_t>& at) {
    std::vector<Number> row(length);
    for (size_t i = 0; i < length; ++i) {
      at[last] = static_cast<int64_t>(i);
      row[i] = element(keys, at);
    }
    std::vector<size_t> order(length);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return s.descending ? less(row[b], row[a]) : less(row[a], row[b]); });
    for (size_t out : {1, 2})
      for (int64_t i = 0; operands[out].defined() && i < operands[out].sizes()[last]; ++i) {
        at[last] = i;
        const size_t from = order[static_cast<size_t>(i)];
        set_element(operands[out], at, out == 1 ? row[from] : Number::of(static_cast<int64_t>(from)));
      }
  });
}

}  // namespace toroid::program
