#include "toroid/nn/convolutions.h"

#include <algorithm>

#include "nn/errors.h"
#include "nn/layer_scope.h"
#include "toroid/ops.h"

namespace toroid::nn {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

void require_groups(const char* layer, int64_t in, int64_t out, int64_t groups) {
  require(groups > 0 && in % groups == 0 && out % groups == 0, "{}: {} and {} channels cannot be split into {} groups", layer, in, out,
          groups);
}

// PyTorch counts as inputs of a weight its second size and the kernel, for transposed convolutions too.
void first_values(Tensor& weight, Tensor& bias, const std::vector<int64_t>& sizes, int64_t out_channels, bool with_bias, const Init& init) {
  const int64_t fan_in = product(sizes) / std::max<int64_t>(sizes[0], 1);
  weight = init.kaiming_uniform(sizes, fan_in);
  if (with_bias) bias = init.kaiming_uniform({out_channels}, fan_in);
}

Pair stride_of(const Pair& stride, const Pair& kernel) { return stride == Pair(0) ? kernel : stride; }

}  // namespace

Pair::Pair(const std::vector<int64_t>& v) : height(v.empty() ? 0 : v[0]), width(v.size() < 2 ? 0 : v[1]) {
  require(v.size() == 2, "a layer of images needs 2 numbers, of height and width, or one for both, got {}", v.size());
}

Conv1d::Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv1dOptions options, const Init& init)
    : options_(options) {
  require_groups("Conv1d", in_channels, out_channels, options_.groups);
  first_values(weight, bias, {out_channels, in_channels / options_.groups, kernel_size}, out_channels, options_.bias, init);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor Conv1d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return conv1d(x, weight, bias, options_.stride, options_.padding, options_.dilation, options_.groups);
}

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size, Conv2dOptions options, const Init& init) : options_(options) {
  require_groups("Conv2d", in_channels, out_channels, options_.groups);
  first_values(weight, bias, {out_channels, in_channels / options_.groups, kernel_size.height, kernel_size.width}, out_channels,
               options_.bias, init);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor Conv2d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return conv2d(x, weight, bias, options_.stride.values(), options_.padding.values(), options_.dilation.values(), options_.groups);
}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Pair kernel_size, ConvTranspose2dOptions options,
                                 const Init& init)
    : options_(options) {
  require_groups("ConvTranspose2d", in_channels, out_channels, options_.groups);
  first_values(weight, bias, {in_channels, out_channels / options_.groups, kernel_size.height, kernel_size.width}, out_channels,
               options_.bias, init);
  add_parameter("weight", weight);
  add_parameter("bias", bias);
}
Tensor ConvTranspose2d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return conv_transpose2d(x, weight, bias, options_.stride.values(), options_.padding.values(), options_.output_padding.values(),
                          options_.groups, options_.dilation.values());
}

MaxPool2d::MaxPool2d(Pair kernel_size, Pair stride, Pair padding, Pair dilation, bool ceil_mode)
    : kernel_(kernel_size), stride_(stride_of(stride, kernel_size)), padding_(padding), dilation_(dilation), ceil_mode_(ceil_mode) {}
Tensor MaxPool2d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return max_pool2d(x, kernel_.values(), stride_.values(), padding_.values(), dilation_.values(), ceil_mode_);
}

AvgPool2d::AvgPool2d(Pair kernel_size, Pair stride, Pair padding, bool ceil_mode, bool count_include_pad)
    : kernel_(kernel_size),
      stride_(stride_of(stride, kernel_size)),
      padding_(padding),
      ceil_mode_(ceil_mode),
      count_include_pad_(count_include_pad) {}
Tensor AvgPool2d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return avg_pool2d(x, kernel_.values(), stride_.values(), padding_.values(), ceil_mode_, count_include_pad_);
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& x) {
  const LayerScope here(*this);
  return adaptive_avg_pool2d(x, size_.values());
}

Upsample::Upsample(UpsampleOptions options) : options_(std::move(options)) {
  const bool has_size = options_.size != Pair(0);
  require(has_size != (options_.scale_factor != 0), "Upsample: only one of size or scale_factor should be defined, got {}",
          has_size ? "both" : "neither");
  require(options_.scale_factor >= 0 && (!has_size || (options_.size.height > 0 && options_.size.width > 0)),
          "Upsample: size and scale_factor must be positive");
  const std::string& mode = options_.mode;
  require(mode == "nearest" || mode == "bilinear" || mode == "bicubic",
          "Upsample: the mode is \"{}\"; expected \"nearest\", \"bilinear\" or \"bicubic\"", mode);
  require(!options_.align_corners || mode != "nearest",
          "Upsample: align_corners option can only be set with the interpolating modes: bilinear | bicubic");
}
Tensor Upsample::forward(const Tensor& x) {
  const LayerScope here(*this);
  here.require(x.dim() == 4, "Upsample: the input needs 4 dimensions, got {}", x.dim());
  std::optional<SizeList> size;
  std::optional<std::vector<double>> scales;
  if (options_.scale_factor != 0)
    scales = {options_.scale_factor, options_.scale_factor};
  else
    size = options_.size.values();
  if (options_.mode == "nearest") return upsample_nearest2d_vec(x, size, scales);
  if (options_.mode == "bilinear") return upsample_bilinear2d_vec(x, size, options_.align_corners, scales);
  return upsample_bicubic2d_vec(x, size, options_.align_corners, scales);
}

}  // namespace toroid::nn
