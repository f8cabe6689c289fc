#include "ops/fold_batch_norm.h"

#include <algorithm>
#include <cmath>

#include "base/scalar.h"
#include "tensor/tensor_impl.h"

namespace toroid::ops {
namespace {

// The weight with each output channel multiplied by its factor.
Tensor scaled(const Tensor& weight, const std::vector<double>& factors, size_t groups) {
  Tensor from = weight.contiguous(), out = Tensor::empty(weight.sizes(), weight.dtype());
  const size_t in = groups ? static_cast<size_t>(weight.sizes()[0]) : 1, own = factors.size() / std::max<size_t>(groups, 1);
  const size_t each = static_cast<size_t>(from.numel()) / (in * own), step = size_of(weight.dtype());
  for (size_t row = 0; row < in * own; ++row) {
    const double factor = factors[row / own * groups / in * own + row % own];
    if (weight.dtype() == DType::F32) {
      const float* source = from.data<float>() + row * each;
      std::transform(source, source + each, out.data<float>() + row * each, [factor](float x) { return static_cast<float>(x * factor); });
      continue;
    }
    for (size_t i = row * each; i < (row + 1) * each; ++i)
      store_number(out.raw_data() + i * step, weight.dtype(),
                   Number::of(load_number(from.raw_data() + i * step, weight.dtype()).as_double() * factor));
  }
  return out;
}

std::vector<double> numbers_or(const Tensor& t, size_t count, double filler) {
  return t.defined() ? t.to_vector() : std::vector<double>(count, filler);
}

}  // namespace

FoldedNorm fold_batch_norm(const std::vector<Tensor>& of, double eps, int64_t groups) {
  const Tensor w = moved(of.at(0), Device::cpu());
  const auto channels = static_cast<size_t>(groups ? w.sizes()[1] * groups : w.sizes()[0]);
  auto b = numbers_or(of.at(1), channels, 0);
  const auto gamma = numbers_or(of.at(2), channels, 1), beta = numbers_or(of.at(3), channels, 0);
  const auto mean = numbers_or(of.at(4), channels, 0), var = numbers_or(of.at(5), channels, 1);
  std::vector<double> factors(channels);
  for (size_t c = 0; c < channels; ++c) {
    factors[c] = gamma[c] / std::sqrt(var[c] + eps);
    b[c] = (b[c] - mean[c]) * factors[c] + beta[c];
  }
  return {scaled(w, factors, static_cast<size_t>(groups)), Tensor::of(b, std::vector<int64_t>{static_cast<int64_t>(channels)}, w.dtype())};
}

}  // namespace toroid::ops
