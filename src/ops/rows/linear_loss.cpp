#include "ops/rows/linear_loss.h"

#include "base/check.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

struct RowLosses {
  Tensor loss;     // one a row
  Tensor divisor;  // what the mean divides by: one a row, or undefined for the number of rows
};

// The target is one class a row; rows of class ignore_index count nothing.
RowLosses class_losses(const Tensor& log_p, const Tensor& target, const Tensor& weight, int64_t ignore, double smoothing) {
  Tensor zero = full({}, 0, log_p.dtype());
  Tensor counted = call1("ne.Scalar", {target, Expr(ignore)});
  Tensor safe = where(counted, target, full({}, 0, target.dtype()));
  safe = call1("_check_index", {safe, Expr(fixed_extent(log_p, -1)), "linear_cross_entropy", Expr(log_p.dim() - 1), false});
  Tensor row_weight = weight.defined() ? index(weight, {safe}) : full(sizes_of(target), 1, log_p.dtype());
  row_weight = where(counted, row_weight, zero);
  Tensor picked = squeeze(call1("gather", {log_p, Expr(-1), unsqueeze(safe, -1)}), -1);
  Tensor loss = call1("neg", {mul(picked, row_weight)});
  if (smoothing > 0) {
    Tensor spread = sum(weight.defined() ? mul(log_p, weight) : log_p, {Expr(-1)});
    double share = smoothing / static_cast<double>(fixed_extent(log_p, -1));
    const Tensor smoothed = mul(where(counted, spread, zero), share);
    loss = sub(mul(loss, 1 - smoothing), smoothed);
  }
  return {loss, row_weight};
}

// The target is a probability for each class.
RowLosses probability_losses(const Tensor& log_p, Tensor target, const Tensor& weight, double smoothing) {
  if (smoothing > 0) target = add(mul(target, 1 - smoothing), smoothing / static_cast<double>(fixed_extent(log_p, -1)));
  Tensor terms = mul(log_p, target);
  return {call1("neg", {sum(weight.defined() ? mul(terms, weight) : terms, {Expr(-1)})}), {}};
}

// One loss a row, of classes; how many rows are computed at a time is no matter of the result.
std::vector<Tensor> row_losses(const CallReader& c) {
  const Tensor x = c.tensor("input");
  const DType compute = c.dtype("acc_dtype").value_or(x.dtype());
  Tensor weight = c.opt_tensor("weight");
  if (weight.defined()) weight = cast(weight, compute);
  const Tensor logits = cast(linear(x, c.tensor("linear_weight"), c.opt_tensor("linear_bias")), compute);
  const RowLosses r =
      class_losses(call1("_log_softmax", {logits, Expr(-1), false}), c.tensor("target"), weight, c.integer("ignore_index"), 0);
  return {cast(r.loss, x.dtype())};
}

std::vector<Tensor> chunked_loss(const CallReader& c) {
  Tensor x = c.tensor("input"), w = c.tensor("linear_weight"), target = c.tensor("target"), weight = c.opt_tensor("weight");
  bool gradients = c.flag("compute_input_grad") || c.flag("compute_linear_weight_grad") || c.flag("compute_linear_bias_grad");
  TOROID_USER_CHECK(!gradients, "{}: gradients inside of the forward pass are not supported; export with the compute_*_grad flags off",
                    c.op().name);
  std::string reduction = c.text("reduction");
  TOROID_USER_CHECK(reduction == "mean" || reduction == "sum" || reduction == "none",
                    "{}: reduction must be \"mean\", \"sum\" or \"none\", got \"{}\"", c.op().name, reduction);
  DType compute = c.dtype("acc_dtype").value_or(x.dtype());
  Tensor log_p = call1("_log_softmax", {cast(linear(x, w, c.opt_tensor("linear_bias")), compute), Expr(-1), false});
  if (weight.defined()) weight = cast(weight, compute);
  double smoothing = c.real("label_smoothing");
  RowLosses r = is_float(target.dtype()) ? probability_losses(log_p, cast(target, compute), weight, smoothing)
                                         : class_losses(log_p, target, weight, c.integer("ignore_index"), smoothing);
  Tensor loss = r.loss;
  if (reduction != "none") {
    Sizes all = dims_from(0, loss.dim());
    Tensor total = sum(loss, all);
    if (reduction == "sum")
      loss = total;
    else
      loss = r.divisor.defined() ? div(total, sum(r.divisor, all)) : mean(loss, all);
  }
  return {cast(loss, x.dtype()), full({Expr(0), Expr(0)}, 0, x.dtype()), full({Expr(0), Expr(0)}, 0, w.dtype()),
          full({Expr(0)}, 0, w.dtype())};
}

}  // namespace

void add_linear_loss_rows(Table& t) {
  t.composite(
      "torch_nn._linear_cross_entropy_batch_chunked(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias=None, Tensor? "
      "weight=None, "
      "str reduction=\"mean\", int ignore_index=-100, float label_smoothing=0.0, int batch_chunk_size=0, str acc_policy=\"compact\", "
      "ScalarType? acc_dtype=None, bool allow_retain_graph=True, bool compute_input_grad=False, bool compute_linear_weight_grad=False, "
      "bool compute_linear_bias_grad=False) -> (Tensor, Tensor, Tensor, Tensor)",
      chunked_loss);
  t.composite(
      "torch_nn._linear_cross_entropy_batch_chunked_no_reduction(Tensor input, Tensor linear_weight, Tensor target, Tensor? "
      "linear_bias=None, Tensor? weight=None, int ignore_index=-100, int batch_chunk_size=0, str acc_policy=\"compact\", ScalarType? "
      "acc_dtype=None) -> Tensor",
      row_losses);
}

}  // namespace toroid::ops
