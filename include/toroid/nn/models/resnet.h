// ResNets of bottleneck blocks, with the parameter names of torchvision.
#pragma once

#include "toroid/nn/layers.h"

namespace toroid::nn {

struct ResNetConfig {
  std::vector<int64_t> blocks = {3, 4, 6, 3};  // of each stage
  int64_t num_classes = 1000, base_width = 64;
  // "resnet50", "resnet101" or "resnet152". UserError for other names.
  static ResNetConfig preset(const std::string& name);
};

class Bottleneck : public Layer {
 public:
  Bottleneck(int64_t in_channels, int64_t width, int64_t stride, const Init& init);
  Tensor forward(const Tensor& x) override;
  static constexpr int64_t kExpansion = 4;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  std::unique_ptr<Sequential> downsample_;
};

class ResNet : public Layer {
 public:
  explicit ResNet(const ResNetConfig& config, const Init& init = Init::standard());
  // x [n, 3, height, width] -> logits [n, classes]
  Tensor forward(const Tensor& x) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  MaxPool2d pool_;
  std::vector<std::unique_ptr<Sequential>> stages_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace toroid::nn
