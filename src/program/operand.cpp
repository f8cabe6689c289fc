#include "program/operand.h"

#include <algorithm>

namespace toroid::program {
namespace {

std::byte* address(const Tensor& t, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.strides()[d];
  return t.raw_data() + offset * static_cast<int64_t>(size_of(t.dtype()));
}

}  // namespace

Number element(const Tensor& t, std::span<const int64_t> at) { return load_number(address(t, at), t.dtype()); }
void set_element(const Tensor& t, std::span<const int64_t> at, const Number& value) { store_number(address(t, at), t.dtype(), value); }

void each_row(const std::vector<int64_t>& sizes, const std::function<void(std::vector<int64_t>& at)>& visit) {
  const size_t last = sizes.size() - 1;
  if (std::find(sizes.begin(), sizes.end() - 1, 0) != sizes.end() - 1) return;
  std::vector<int64_t> at(sizes.size(), 0);
  while (true) {
    visit(at);
    at[last] = 0;
    size_t d = last;
    while (d > 0 && ++at[d - 1] == sizes[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace toroid::program
