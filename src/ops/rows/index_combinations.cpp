// Combinations of the elements of a vector.
#include <numeric>

#include "base/check.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

// How many r of n elements there are: products of r neighbours by r!. Of fewer than r elements a factor is 0.
Expr combination_count(const MetaCall& c, const Expr& n, int64_t r, bool repeated) {
  constexpr double kMost = 4e18;
  if (const auto known = n.maybe_constant()) {
    int64_t count = 1;
    for (int64_t i = 0; i < r && count > 0; ++i) {
      const int64_t factor = std::max<int64_t>(0, repeated ? *known + i : *known - i);
      TOROID_USER_CHECK(static_cast<double>(count) * static_cast<double>(factor) < kMost, "{}: {} of {} elements are too many combinations",
                        c.op().name, r, *known);
      count = count * factor / (i + 1);
    }
    return count;
  }
  constexpr int64_t kMostOpen = 20;  // 20! is the last that fits
  TOROID_USER_CHECK(r <= kMostOpen, "{}: r is {}; of a vector of open size it must be at most {}", c.op().name, r, kMostOpen);
  Expr product = 1;
  int64_t orders = 1;
  for (int64_t i = 0; i < r; ++i) {
    product = product * (repeated ? n + Expr(i) : n - Expr(i));
    orders *= i + 1;
  }
  return sym::floor_div(product, orders);
}

void combinations_meta(MetaCall& c) {
  const TensorType& self = *c.tensor("self");
  const int64_t r = c.integer("r");
  c.require_rank(self, 1, "{}: self must be a vector, it has {} dimensions", c.op().name, self.dim());
  TOROID_USER_CHECK(r >= 0, "{}: r is {}; it must be 0 or more", c.op().name, r);
  if (r == 0) return c.result(self.dtype, {0});
  c.result(self.dtype, {combination_count(c, self.sizes[0], r, c.flag("with_replacement")), Expr(r)});
}

// In the order of their places; each row ascends.
void combinations_kernel(KernelCall& c) {
  const Tensor self = c.tensor("self").contiguous(), out = c.outputs[0];
  if (out.numel() == 0) return;
  const int64_t n = self.numel(), r = c.integer("r"), step = c.flag("with_replacement") ? 0 : 1;
  std::vector<int64_t> at(static_cast<size_t>(r), 0);
  if (step) std::iota(at.begin(), at.end(), 0);
  for (int64_t k = 0; k < out.sizes()[0]; ++k) {
    for (int64_t i = 0; i < r; ++i) host::copy_element(self, at[static_cast<size_t>(i)], out, k * r + i);
    int64_t last = r - 1;
    while (last >= 0 && at[static_cast<size_t>(last)] == n - 1 - step * (r - 1 - last)) --last;
    if (last < 0) break;
    ++at[static_cast<size_t>(last)];
    for (size_t i = static_cast<size_t>(last) + 1; i < at.size(); ++i) at[i] = at[i - 1] + step;
  }
}

}  // namespace

void add_index_combinations_rows(Table& t) {
  t.primitive("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", combinations_meta, combinations_kernel);
}

}  // namespace toroid::ops
