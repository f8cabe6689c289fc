// Convolutions, pools and resizing under PyTorch's names, with PyTorch's parameter names and first values.
#pragma once

#include "toroid/nn/module.h"

namespace toroid::nn {

// What height and width have: one number for both, or one each ({2, 3}).
class Pair {
 public:
  Pair(int64_t both) : height(both), width(both) {}  // NOLINT
  Pair(int64_t height, int64_t width) : height(height), width(width) {}
  // UserError for another number than two.
  Pair(const std::vector<int64_t>& values);  // NOLINT
  std::vector<int64_t> values() const { return {height, width}; }
  bool operator==(const Pair&) const = default;
  int64_t height, width;
};

struct Conv1dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};

// x [n, in, length].
class Conv1d : public Layer {
 public:
  Conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv1dOptions options = {}, const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  Conv1dOptions options_;
};

struct Conv2dOptions {
  Pair stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

// x [n, in, height, width].
class Conv2d : public Layer {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Pair kernel_size, Conv2dOptions options = {}, const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  Conv2dOptions options_;
};

struct ConvTranspose2dOptions {
  Pair stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
};

// x [n, in, height, width]; the weight is [in, out / groups, kernel height, kernel width].
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Pair kernel_size, ConvTranspose2dOptions options = {},
                  const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  ConvTranspose2dOptions options_;
};

// stride 0: the kernel size. A rectangle alone is MaxPool2d(Pair(2, 3)), as C++ takes {2, 3} for kernel and stride too.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(Pair kernel_size, Pair stride = 0, Pair padding = 0, Pair dilation = 1, bool ceil_mode = false);
  Tensor forward(const Tensor& x) override;

 private:
  Pair kernel_, stride_, padding_, dilation_;
  bool ceil_mode_;
};

// stride 0: the kernel size.
class AvgPool2d : public Layer {
 public:
  explicit AvgPool2d(Pair kernel_size, Pair stride = 0, Pair padding = 0, bool ceil_mode = false, bool count_include_pad = true);
  Tensor forward(const Tensor& x) override;

 private:
  Pair kernel_, stride_, padding_;
  bool ceil_mode_, count_include_pad_;
};

class AdaptiveAvgPool2d : public Layer {
 public:
  explicit AdaptiveAvgPool2d(int64_t both) : size_(both) {}
  AdaptiveAvgPool2d(int64_t height, int64_t width) : size_(height, width) {}
  Tensor forward(const Tensor& x) override;

 private:
  Pair size_;
};

struct UpsampleOptions {
  Pair size = 0;                 // of the result; 0: by scale_factor
  double scale_factor = 0;       // of height and width
  std::string mode = "nearest";  // or "bilinear", "bicubic"
  bool align_corners = false;    // not for "nearest"
};

// x [n, channels, height, width].
class Upsample : public Layer {
 public:
  // UserError unless one of size and scale_factor is given, and for another mode.
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& x) override;

 private:
  UpsampleOptions options_;
};

}  // namespace toroid::nn
