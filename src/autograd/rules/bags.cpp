// Gradients of reductions over runs of rows: embedding_bag and segment_reduce.
#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

constexpr int64_t kBagMean = 1, kBagMax = 2;

Tensor rows_of(const Tensor& t, const Tensor& index) { return ops::call1("index.Tensor", {t, std::vector<Tensor>{index}}); }
Tensor add_rows(const Tensor& like, const Tensor& index, const Tensor& values) {
  return ops::call1("index_put", {zeros(sizes_of(like), values.dtype()), std::vector<Tensor>{index}, values, true});
}
Tensor along_rows(const Tensor& t) { return unsqueeze(t, t.dim()); }
Tensor both(const Tensor& a, const Tensor& b) { return ops::call1("logical_and", {a, b}); }

// Which indices lie in a bag, and are not the padding row.
Tensor counted(const GradientCall& c, const Tensor& index, const Tensor& offsets) {
  const Tensor place = iota(numel_of(index));
  Tensor counts = compare("ge", place, slice(offsets, 0, 0, 1));
  if (c.flag("include_last_offset")) {
    const Expr bags = size_at(offsets, 0);
    counts = both(counts, compare("lt", place, slice(offsets, 0, bags - Expr(1), bags)));
  }
  const int64_t padding = c.integer("padding_idx");
  return padding < 0 || planted(GradientBug::BagPadding) ? counts : both(counts, compare_int("ne", index, padding));
}

void bag_rule(GradientCall& c) {
  const Tensor weight = c.tensor("weight"), g = c.cotangent(), bag_size = c.results[2];
  const Tensor index = cast_to(c.tensor("indices"), DType::I64), bag = cast_to(c.results[1], DType::I64);
  const int64_t mode = c.integer("mode");
  if (mode == kBagMax) {
    const Tensor taken = where(along_rows(compare_int("gt", bag_size, 0)), g, 0.0);
    return c.set("weight", scatter_add(zeros_like(weight), 0, cast_to(c.results[3], DType::I64), taken));
  }
  const Tensor counts = along_rows(counted(c, index, cast_to(c.tensor("offsets"), DType::I64)));
  Tensor each = where(counts, rows_of(g, bag), 0.0);  // what arrives at each index
  const Tensor scale = c.opt_tensor("per_sample_weights");
  if (c.wants("per_sample_weights")) c.set("per_sample_weights", sum(mul(each, rows_of(weight, index)), {1}, false));
  if (!c.wants("weight")) return;
  if (scale.defined() && !planted(GradientBug::BagWeights)) each = mul(each, along_rows(scale));
  if (mode == kBagMean && !planted(GradientBug::BagMean))
    each = div(each, along_rows(rows_of(cast_to(ops::call1("clamp_min", {bag_size, num(1)}), g.dtype()), bag)));
  if (c.flag("scale_grad_by_freq")) {
    const Tensor once = full({numel_of(index)}, 1, g.dtype());
    each = div(each, along_rows(rows_of(add_rows(zeros({size_at(weight, 0)}, g.dtype()), index, once), index)));
  }
  c.set("weight", add_rows(weight, index, each));
}

// The runs of a call of segment_reduce.
class Runs {
 public:
  explicit Runs(const GradientCall& c) : call_(c), data_(c.tensor("data")), axis_(dim_of(c, "axis", data_)) {
    const bool has_lengths = c.has("lengths");
    const Tensor runs = cast_to(c.tensor(has_lengths ? "lengths" : "offsets"), DType::I64);
    const Expr last = size_at(runs, axis_);
    const Tensor ends = has_lengths ? ops::call1("cumsum", {runs, num(axis_)}) : slice(runs, axis_, 1, last);
    Sizes sizes = sizes_of(runs);
    sizes[static_cast<size_t>(axis_)] = size_at(data_, axis_);
    const Tensor place = expand(iota_along(size_at(data_, axis_), axis_, axis_ + 1), sizes);
    const bool right = !planted(GradientBug::SegmentEdge);
    run_ = ops::call1("searchsorted.Tensor", {ends, ops::call1("contiguous", {place}), false, right});
    if (!has_lengths) {  // what lies before the first run belongs to none
      const Tensor none = expand(full_number({}, size_at(ends, axis_), DType::I64), sizes);
      run_ = where(compare("lt", place, slice(runs, axis_, 0, 1)), none, run_);
    }
    for (int64_t d = axis_ + 1; d < data_.dim(); ++d) run_ = unsqueeze(run_, d);
    run_ = expand(run_, sizes_of(data_));
  }

  // For each element of the data what t holds for its run; `outside` for elements of none.
  Tensor spread(const Tensor& t, double outside = 0) const {
    return ops::call1("gather", {pad_dim(t, axis_, 0, 1, outside), num(axis_), run_, false});
  }
  Tensor reduced(const Tensor& t, const char* how, bool from_initial = false) const {
    CallArgs args(call_.args().begin(), call_.args().end());
    args[0] = t, args[1] = std::string(how);
    if (!from_initial) args.back() = std::monostate{};
    return ops::call(call_.op(), std::move(args))[0];
  }

 private:
  const GradientCall& call_;
  Tensor data_, run_;
  int64_t axis_;
};

void segment_rule(GradientCall& c) {
  const Tensor data = c.tensor("data"), y = c.results[0], g = c.cotangent();
  const std::string how = c.text("reduce");
  const Runs runs(c);
  const Tensor each = runs.spread(g);
  if (how == "sum") return c.set("data", each);
  if (how == "mean") return c.set("data", div(each, runs.spread(runs.reduced(ones_like(data), "sum"), 1)));
  if (how == "prod") {  // of one zero, the product of the others; of several, nothing
    const Tensor zero = is_zero(data), zeros_of_run = runs.spread(runs.reduced(cast_to(zero, data.dtype()), "sum"));
    const Tensor others = runs.spread(runs.reduced(one_for_zero(data), "prod", true));
    const Tensor of_zero = where(both(zero, compare("eq", zeros_of_run, 1.0)), others, 0.0);
    return c.set("data", mul(each, where(compare("eq", zeros_of_run, 0.0), div(others, one_for_zero(data)), of_zero)));
  }
  // Equal extrema share the gradient evenly.
  const Tensor chosen = cast_to(ops::call1("logical_or", {compare("eq", data, runs.spread(y)), ops::call1("isnan", {data})}), data.dtype());
  if (planted(GradientBug::SegmentTies)) return c.set("data", mul(chosen, each));
  c.set("data", mul(chosen, div(each, ops::call1("clamp_min", {runs.spread(runs.reduced(chosen, "sum"), 1), 1.0}))));
}

constexpr RuleRow kBagRules[] = {
    {"_embedding_bag", bag_rule},
    {"_embedding_bag_forward_only", bag_rule},
    {"segment_reduce", segment_rule},
};

}  // namespace

std::span<const RuleRow> bag_rules() { return kBagRules; }

}  // namespace toroid::autograd
