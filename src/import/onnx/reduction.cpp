// Operators that join the elements of axes, and running sums.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor& x, const std::vector<int64_t>& axes, bool keep);

Tensor sum(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return op("sum.dim_IntList", x, axes, keep, x.dtype()); }

Tensor mean(const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  if (is_float(x.dtype())) return op("mean.dim", x, axes, keep);
  Expr count = 1;
  for (int64_t a : axes) count *= sizes_of(x)[static_cast<size_t>(a)];
  return op("div.Tensor_mode", sum(x, axes, keep), count, "trunc");
}

// Of nothing: the number that no other one beats.
template <OpName name, bool kLargest>
Tensor extreme(const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  Sizes sizes = sizes_of(x);
  bool empty = std::any_of(axes.begin(), axes.end(), [&](int64_t a) { return sizes[static_cast<size_t>(a)] == Expr(0); });
  if (!empty) return op(name.text, x, axes, keep);
  TOROID_USER_CHECK(is_float(x.dtype()) || is_bool(x.dtype()), "an axis without elements is reduced, for which {} has no number",
                    name_of(x.dtype()));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end()) sizes[i] = 1;
  Arg<Tensor> none = is_bool(x.dtype()) ? Arg<Tensor>(!kLargest) : Arg<Tensor>(kLargest ? -HUGE_VAL : HUGE_VAL);
  Tensor out = op("full", sizes, none, x.dtype());
  return keep ? out : op("squeeze.dims", out, axes);
}

Tensor product(const Tensor& x, const std::vector<int64_t>& axes, bool keep) {
  Tensor out = x;
  for (int64_t a : axes) out = op("prod.dim_int", out, a, true, x.dtype());
  return keep ? out : op("squeeze.dims", out, axes);
}

Tensor l1(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return sum(op("abs", x), axes, keep); }
Tensor sum_square(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return sum(op("mul.Tensor", x, x), axes, keep); }
Tensor l2(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return cast(op("sqrt", sum_square(x, axes, keep)), x.dtype()); }
Tensor log_sum(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return op("log", sum(x, axes, keep)); }
Tensor log_sum_exp(const Tensor& x, const std::vector<int64_t>& axes, bool keep) { return op("logsumexp", x, axes, keep); }

// kSince: the version from which on the axes are an input.
template <Reduce reduce, int64_t kSince>
void reduction(OpCall& c) {
  Tensor x = c.in(0);
  bool as_input = c.version() >= kSince;
  auto axes = !as_input ? c.integers("axes") : c.has(1) ? c.numbers(1) : std::vector<int64_t>();
  bool keep = c.integer("keepdims", 1) != 0, nothing = c.integer("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && nothing) return c.set(0, x);
  axes = axes.empty() ? range(0, rank_of(x)) : normal_axes(axes, rank_of(x));
  c.set(0, reduce(x, axes, keep));
}

template <OpName name>
void arg_reduce(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", 0), rank_of(x));
  bool keep = c.integer("keepdims", 1) != 0;
  if (!c.integer("select_last_index", 0)) return c.set(0, op(name.text, x, axis, keep));
  // The last of equals is the first from behind.
  Tensor place = op(name.text, op("flip", x, std::vector<int64_t>{axis}), axis, keep);
  c.set(0, op("rsub.Scalar", place, sizes_of(x)[static_cast<size_t>(axis)] - 1));
}

template <OpName name, int64_t kNothing>
void cumulative(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.number(1), rank_of(x));
  bool reverse = c.integer("reverse", 0) != 0, exclusive = c.integer("exclusive", 0) != 0;
  if (reverse) x = op("flip", x, std::vector<int64_t>{axis});
  Tensor sums = op(name.text, x, axis, x.dtype());
  if (exclusive) {
    // Nothing at the start, and the last left out: exact, where a difference would not be.
    Sizes pads(2 * static_cast<size_t>(rank_of(x) - axis), 0);
    pads[pads.size() - 2] = 1;
    pads[pads.size() - 1] = -1;
    sums = op("constant_pad_nd", sums, pads, kNothing);
  }
  c.set(0, reverse ? op("flip", sums, std::vector<int64_t>{axis}) : sums);
}

}  // namespace

void add_reduction_operators(Operators& t) {
  t.add("ReduceSum", 1, reduction<sum, 13>);
  t.add("ReduceMean", 1, reduction<mean, 18>);
  t.add("ReduceMax", 1, reduction<extreme<"amax", true>, 18>);
  t.add("ReduceMin", 1, reduction<extreme<"amin", false>, 18>);
  t.add("ReduceProd", 1, reduction<product, 18>);
  t.add("ReduceL1", 1, reduction<l1, 18>);
  t.add("ReduceL2", 1, reduction<l2, 18>);
  t.add("ReduceSumSquare", 1, reduction<sum_square, 18>);
  t.add("ReduceLogSum", 1, reduction<log_sum, 18>);
  t.add("ReduceLogSumExp", 1, reduction<log_sum_exp, 18>);
  t.add("ArgMax", 1, arg_reduce<"argmax">);
  t.add("ArgMin", 1, arg_reduce<"argmin">);
  t.add("CumSum", 11, cumulative<"cumsum", 0>);
  t.add("CumProd", 26, cumulative<"cumprod", 1>);
}

}  // namespace toroid::import::onnx
