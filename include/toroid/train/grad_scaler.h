// GradScaler: keeps the gradients of a loss in f16 in range, as torch.amp.GradScaler does.
//
//   auto [scaled, gradients] = value_and_gradients([&] { return scaler.scale(loss()); }, optimizer.parameters());
//   auto [unscaled, is_finite] = scaler.unscale(gradients);
//   optimizer.step_if(is_finite, unscaled);
//   scaler.update(is_finite);
//
// The scale lies where the gradients do and the host never waits for it, so that all of this can be a part of a compiled function.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::train {

struct GradScalerOptions {
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps in a row without infinities or NaNs, after which the scale grows
};

class GradScaler {
 public:
  // UserError for a scale that is not positive, a growth of at most 1, a backoff that is not between 0 and 1, and an interval below 1.
  explicit GradScaler(GradScalerOptions options = {}, const Device& device = Device::cpu());

  // The loss times the scale, in f32 at least.
  Tensor scale(const Tensor& loss) const;
  // The gradients divided by the scale, in their dtypes, and one bool: whether all of their elements are finite.
  std::pair<std::vector<Tensor>, Tensor> unscale(std::span<const Tensor> gradients) const;
  // Once a step: the scale shrinks where the gradients were not finite, and grows after growth_interval steps where they were, unless it
  // would overflow.
  void update(const Tensor& is_finite);

  // f32, without dimensions.
  Tensor get_scale() const { return scale_; }
  // For checkpoints: "scale" and "growth_tracker". The tensors are the scaler's own.
  std::vector<std::pair<std::string, Tensor>> state() const { return {{"scale", scale_}, {"growth_tracker", tracker_}}; }

 private:
  GradScalerOptions options_;
  Tensor scale_, tracker_;
};

// One bool: whether all elements of all tensors are finite.
Tensor all_finite(std::span<const Tensor> tensors);

}  // namespace toroid::train
