// Losses of classifiers.
#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

// Of log-probabilities [n, classes, ...] and the right classes [n, ...], which may be one that does not count.
Tensor likelihood_loss(OpCall& c, const Tensor& log_probabilities, const Tensor& labels, const Tensor& weights) {
  DType dtype = log_probabilities.dtype();
  Tensor target = cast(labels, DType::I64), counts;
  if (c.has_attribute("ignore_index")) {
    counts = op("ne.Scalar", target, c.integer("ignore_index"));
    target = op("where.self", counts, target, op("zeros_like", target));
  }
  Tensor picked = op("squeeze.dims", op("gather", log_probabilities, 1, op("unsqueeze", target, 1)), std::vector<int64_t>{1});
  Tensor weight;
  if (weights.defined()) weight = op("index.Tensor", weights, std::vector<Tensor>{target});
  if (counts.defined()) weight = weight.defined() ? op("mul.Tensor", weight, cast(counts, dtype)) : cast(counts, dtype);
  Tensor loss = op("neg", weight.defined() ? op("mul.Tensor", picked, weight) : picked);
  std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return op("sum", loss);
  TOROID_USER_CHECK(reduction == "mean", "the attribute \"reduction\" is \"{}\", which is unknown", reduction);
  return weight.defined() ? op("div.Tensor", op("sum", loss), op("sum", weight)) : op("mean", loss);
}

void negative_log_likelihood(OpCall& c) { c.set(0, likelihood_loss(c, c.in(0), c.in(1), c.opt(2))); }

void softmax_cross_entropy(OpCall& c) {
  Tensor log_probabilities = op("log_softmax.int", c.in(0), 1);
  c.set(0, likelihood_loss(c, log_probabilities, c.in(1), c.opt(2)));
  c.set(1, log_probabilities);
}

}  // namespace

void add_loss_operators(Operators& t) {
  t.add("NegativeLogLikelihoodLoss", 12, negative_log_likelihood);
  t.add("SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy);
}

}  // namespace toroid::import::onnx
