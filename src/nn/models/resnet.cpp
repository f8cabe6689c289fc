#include "toroid/nn/models/resnet.h"

#include "nn/errors.h"
#include "nn/layer_scope.h"

namespace toroid::nn {
namespace {

Conv2dOptions without_bias(int64_t stride, int64_t padding) {
  return {.stride = {stride, stride}, .padding = {padding, padding}, .bias = false};
}

}  // namespace

ResNetConfig ResNetConfig::preset(const std::string& name) {
  ResNetConfig c;
  if (name == "resnet50") return c;
  require(name == "resnet101" || name == "resnet152", "there is no ResNet preset \"{}\"; there are resnet50, resnet101 and resnet152",
          name);
  c.blocks = name == "resnet101" ? std::vector<int64_t>{3, 4, 23, 3} : std::vector<int64_t>{3, 8, 36, 3};
  return c;
}

Bottleneck::Bottleneck(int64_t in_channels, int64_t width, int64_t stride, const Init& init)
    : conv1_(in_channels, width, 1, without_bias(1, 0), init),
      bn1_(width, 1e-5, 0.1, init),
      conv2_(width, width, 3, without_bias(stride, 1), init),
      bn2_(width, 1e-5, 0.1, init),
      conv3_(width, width * kExpansion, 1, without_bias(1, 0), init),
      bn3_(width * kExpansion, 1e-5, 0.1, init) {
  add_child("conv1", conv1_);
  add_child("bn1", bn1_);
  add_child("conv2", conv2_);
  add_child("bn2", bn2_);
  add_child("conv3", conv3_);
  add_child("bn3", bn3_);
  if (stride == 1 && in_channels == width * kExpansion) return;
  downsample_ = std::make_unique<Sequential>();
  downsample_->add<Conv2d>(in_channels, width * kExpansion, 1, without_bias(stride, 0), init);
  downsample_->add<BatchNorm2d>(width * kExpansion, 1e-5, 0.1, init);
  add_child("downsample", *downsample_);
}

Tensor Bottleneck::forward(const Tensor& x) {
  const LayerScope here(*this);
  Tensor y = relu(bn1_(conv1_(x)));
  y = relu(bn2_(conv2_(y)));
  const Tensor skipped = downsample_ ? downsample_->forward(x) : x;
  return relu(bn3_(conv3_(y)) + skipped);
}

ResNet::ResNet(const ResNetConfig& c, const Init& init)
    : conv1_(3, c.base_width, 7, without_bias(2, 3), init), bn1_(c.base_width, 1e-5, 0.1, init), pool_(3, 2, 1) {
  require(!c.blocks.empty(), "ResNet: there must be a stage");
  add_child("conv1", conv1_);
  add_child("bn1", bn1_);
  int64_t channels = c.base_width, width = c.base_width;
  for (size_t stage = 0; stage < c.blocks.size(); ++stage, width *= 2) {
    stages_.push_back(std::make_unique<Sequential>());
    for (int64_t block = 0; block < c.blocks[stage]; ++block) {
      stages_.back()->add<Bottleneck>(channels, width, stage > 0 && block == 0 ? 2 : 1, init);
      channels = width * Bottleneck::kExpansion;
    }
    add_child("layer" + std::to_string(stage + 1), *stages_.back());
  }
  fc_ = std::make_unique<Linear>(channels, c.num_classes, true, init);
  add_child("fc", *fc_);
}

Tensor ResNet::forward(const Tensor& x) {
  const LayerScope here(*this);
  require(x.dim() == 4, "ResNet: the input is [n, 3, height, width], got {} dimensions", x.dim());
  Tensor y = pool_(relu(bn1_(conv1_(x))));
  for (auto& stage : stages_) y = stage->forward(y);
  return (*fc_)(flatten(adaptive_avg_pool2d(y, {1, 1}), 1));
}

}  // namespace toroid::nn
