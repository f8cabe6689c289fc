#include "toroid/train/grad_scaler.h"

#include "toroid/ops.h"
#include "train/errors.h"

namespace toroid::train {

GradScaler::GradScaler(GradScalerOptions options, const Device& device) : options_(options) {
  require(options.init_scale > 0, "GradScaler: init_scale must be positive, not {}", options.init_scale);
  require(options.growth_factor > 1, "GradScaler: growth_factor must be above 1, not {}", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "GradScaler: backoff_factor must be between 0 and 1, not {}",
          options.backoff_factor);
  require(options.growth_interval > 0, "GradScaler: growth_interval must be at least 1, not {}", options.growth_interval);
  scale_ = Tensor::full({}, options.init_scale, DType::F32, device);
  tracker_ = Tensor::full({}, 0, DType::I32, device);
}

Tensor GradScaler::scale(const Tensor& loss) const { return (loss.dtype() == DType::F64 ? loss : to(loss, DType::F32)) * scale_; }

std::pair<std::vector<Tensor>, Tensor> GradScaler::unscale(std::span<const Tensor> gradients) const {
  const Tensor share = to(1.0 / to(scale_, DType::F64), DType::F32);
  std::vector<Tensor> out;
  for (auto& g : gradients) out.push_back(to(to(g, g.dtype() == DType::F64 ? DType::F64 : DType::F32) * share, g.dtype()));
  return {out, all_finite(gradients)};
}

void GradScaler::update(const Tensor& is_finite) {
  const Tensor successes = tracker_ + 1;
  const Tensor exact = to(scale_, DType::F64);  // PyTorch's factors are f64
  const Tensor grown = to(exact * options_.growth_factor, DType::F32), shrunk = to(exact * options_.backoff_factor, DType::F32);
  const Tensor is_due = successes >= options_.growth_interval;
  const Tensor now = where(is_finite, where(is_due & isfinite(grown), grown, scale_), shrunk);
  const Tensor count = where(is_finite & logical_not(is_due), successes, zeros_like(successes));
  copy_(scale_, now);
  copy_(tracker_, count);
}

Tensor all_finite(std::span<const Tensor> tensors) {
  std::vector<Tensor> each;
  for (auto& t : tensors) each.push_back(all(isfinite(t)));
  return each.empty() ? Tensor::full({}, 1, DType::Bool) : all(stack(each));
}

}  // namespace toroid::train
