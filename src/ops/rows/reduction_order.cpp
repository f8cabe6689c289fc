// Order statistics: median, nanmedian, mode, kthvalue.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {
namespace {

using namespace host;

void pair_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto dims = reduced_dims(c, self->dim());
  if (!self->sizes.empty())
    c.require({sym::Rel::Ge, self->sizes[static_cast<size_t>(dims.at(0))], 1}, "{}: dimension {} has no elements to choose from",
              c.op().name, dims[0]);
  if (c.op().schema.find("k") >= 0 && !self->sizes.empty()) {
    Expr k = c.expr("k");
    const Expr& size = self->sizes[static_cast<size_t>(dims.at(0))];
    for (const auto& fits : {sym::Relation{sym::Rel::Ge, k, 1}, sym::Relation{sym::Rel::Le, k, size}})
      c.require(fits, "{}: k is {}, the dimension has {} elements", c.op().name, sym::to_string(k), sym::to_string(size));
  }
  auto sizes = reduced_sizes(self->sizes, dims, c.flag("keepdim"));
  c.result(self->dtype, sizes);
  c.result(DType::I64, sizes);
}
void scalar_meta(MetaCall& c) { c.result(c.tensor("self")->dtype, {}); }

// A line's elements with their positions in sorted order (NaN last, equal ones in order of position).
struct SortedLine {
  std::vector<Number> values;
  std::vector<int64_t> order;
  SortedLine(const Tensor& rows, int64_t first, int64_t n) : values(static_cast<size_t>(n)), order(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = get(rows, first + i);
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return less(at(a), at(b)); });
  }
  const Number& at(int64_t i) const { return values[static_cast<size_t>(i)]; }
  int64_t nans() const { return std::count_if(values.begin(), values.end(), is_nan); }
};

int64_t median_position(const SortedLine& s, bool skip_nan) {
  int64_t n = static_cast<int64_t>(s.values.size()), nans = s.nans();
  if (nans == n || (nans && !skip_nan)) return s.order[static_cast<size_t>(n - nans)];
  return s.order[static_cast<size_t>((n - nans - 1) / 2)];
}
// The most frequent value (the smallest of equals), at its last position.
int64_t mode_position(const SortedLine& s) {
  int64_t best = 0, most = 0, run = 0, n = static_cast<int64_t>(s.order.size());
  for (int64_t i = 0; i < n; ++i) {
    int64_t here = s.order[static_cast<size_t>(i)];
    ++run;
    bool last = i + 1 == n || less(s.at(here), s.at(s.order[static_cast<size_t>(i) + 1]));
    if (!last) continue;
    if (run > most) most = run, best = here;
    run = 0;
  }
  return best;
}

template <class Choose>
void choose_rows(KernelCall& c, const std::vector<int64_t>& dims, Choose&& choose) {
  Tensor rows = joined_last(c.tensor("self"), dims);
  int64_t n = rows.sizes()[1];
  for (int64_t r = 0; r < rows.sizes()[0]; ++r) {
    if (n == 0) {
      put(c.outputs[0], r, Number::of(std::nan("")));
      continue;
    }
    int64_t at = choose(SortedLine(rows, r * n, n));
    copy_element(rows, r * n + at, c.outputs[0], r);
    if (c.outputs.size() > 1) put(c.outputs[1], r, Number::of(at));
  }
}
template <bool skip_nan>
void median_kernel(KernelCall& c) {
  choose_rows(c, reduced_dims(c, c.tensor("self").dim()), [](const SortedLine& s) { return median_position(s, skip_nan); });
}
void mode_kernel(KernelCall& c) { choose_rows(c, reduced_dims(c, c.tensor("self").dim()), mode_position); }
void kth_kernel(KernelCall& c) {
  int64_t k = c.integer("k");
  choose_rows(c, reduced_dims(c, c.tensor("self").dim()), [&](const SortedLine& s) {
    TOROID_USER_CHECK(k >= 1 && k <= static_cast<int64_t>(s.order.size()), "{}: k is {}, the dimension has {} elements", c.op().name, k,
                      s.order.size());
    return s.order[static_cast<size_t>(k - 1)];
  });
}

}  // namespace

void add_reduction_order_rows(Table& t) {
  t.primitive("median(Tensor self) -> Tensor", scalar_meta, median_kernel<false>);
  t.primitive("nanmedian(Tensor self) -> Tensor", scalar_meta, median_kernel<true>);
  t.primitive("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", pair_meta, median_kernel<false>);
  t.primitive("nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", pair_meta, median_kernel<true>);
  t.primitive("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", pair_meta, mode_kernel);
  t.primitive("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", pair_meta, kth_kernel);
}

}  // namespace toroid::ops
