#include "toroid/nn/losses.h"

#include <algorithm>
#include <array>

#include "nn/errors.h"
#include "nn/layer_scope.h"
#include "nn/size_text.h"
#include "toroid/ops.h"

namespace toroid::nn {
namespace {

// ATen's number of a reduction.
int64_t number_of(const char* loss, const std::string& reduction) {
  constexpr std::array<const char*, 3> kNames{"none", "mean", "sum"};
  const auto at = std::find(kNames.begin(), kNames.end(), reduction);
  require(at != kNames.end(), "{}: {} is not a valid value for reduction; expected none, mean or sum", loss, reduction);
  return at - kNames.begin();
}

}  // namespace

Tensor Loss::operator()(const Tensor& input, const Tensor& target, Tensor::Where where) {
  const CallerScope called(where);
  return forward(input, target);
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyLossOptions options)
    : weight(options.weight), options_(std::move(options)), reduction_(number_of("CrossEntropyLoss", options_.reduction)) {
  require(options_.label_smoothing >= 0 && options_.label_smoothing <= 1,
          "CrossEntropyLoss: label_smoothing must be between 0.0 and 1.0. Got: {}", options_.label_smoothing);
  options_.weight = {};
  add_buffer("weight", weight);
}
Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) {
  const LayerScope here(*this);
  return cross_entropy_loss(input, target, weight, reduction_, options_.ignore_index, options_.label_smoothing);
}

MSELoss::MSELoss(MSELossOptions options) : options_(std::move(options)) { number_of("MSELoss", options_.reduction); }
Tensor MSELoss::forward(const Tensor& input, const Tensor& target) {
  const LayerScope here(*this);
  return mse_loss(input, target, options_.reduction);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(BCEWithLogitsLossOptions options)
    : weight(options.weight), pos_weight(options.pos_weight), reduction_(number_of("BCEWithLogitsLoss", options.reduction)) {
  add_buffer("weight", weight);
  add_buffer("pos_weight", pos_weight);
}
Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) {
  const LayerScope here(*this);
  here.require(may_be_equal(input.sym_sizes(), target.sym_sizes()),
               "BCEWithLogitsLoss: Target size ({}) must be the same as input size ({})", size_text(target.sym_sizes()),
               size_text(input.sym_sizes()));
  return binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction_);
}

}  // namespace toroid::nn
