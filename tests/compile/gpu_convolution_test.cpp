// Convolutions for GPUs: which templates they become, and that NVRTC takes them; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"
#include "toroid/grad.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using test::graph_of;

size_t count(const std::vector<codegen::KernelText>& kernels, const std::string& start) {
  return static_cast<size_t>(std::count_if(kernels.begin(), kernels.end(), [&](auto& k) { return k.name.starts_with(start); }));
}

// One kernel a convolution, with the normalisation, the activation and the sum with the shortcut; besides two poolings and the classifier.
TEST(GpuConvolutions, OfResNet50) {
  nn::ResNet model(nn::ResNetConfig::preset("resnet50"), nn::Init(1, DType::F16));
  const auto kernels = front::kernels_for_gpu(
      graph_of([&](auto& in) { return model.forward(in[0]); }, {Tensor::full(std::vector<int64_t>{1, 3, 224, 224}, 0, DType::F16)}), {});
  EXPECT_EQ(count(kernels, "conv_mma"), 1u) << "the first layer, of 3 channels";
  EXPECT_EQ(count(kernels, "conv_wgmma"), 16u + 3) << "layers of 3x3, and the shortcuts that halve the image";
  EXPECT_EQ(count(kernels, "gemm_wgmma"), 53u - 20);
  EXPECT_EQ(kernels.size(), 53u + 3);
}

// Depthwise and grouped layers, windows that do not overlap, weights that are inputs: no convolution is a loop, and none runs on the host.
TEST(GpuConvolutions, OfOtherKinds) {
  const nn::Init init(1, DType::F16);
  nn::Conv2d patches(3, 96, 16, {.stride = {16, 16}}, init), expand(96, 384, 1, {}, init),
      each(384, 384, 5, {.padding = {2, 2}, .groups = 384}, init),
      grouped(384, 96, 3, {.padding = {2, 2}, .dilation = {2, 2}, .groups = 4}, init);
  const auto kernels = front::kernels_for_gpu(
      graph_of([&](auto& in) { return conv2d(silu(grouped(hardswish(each(relu6(expand(patches(in[0]))))))), in[1]); },
               {Tensor::full(std::vector<int64_t>{2, 3, 224, 224}, 0, DType::F16),
                Tensor::full(std::vector<int64_t>{8, 96, 3, 3}, 0, DType::F16)}),
      {});
  EXPECT_EQ(count(kernels, "conv_mma"), 3u) << "patches, groups, and the weight that is an input";
  EXPECT_EQ(count(kernels, "gemm_wgmma"), 1u);
  EXPECT_EQ(count(kernels, "conv_depthwise"), 1u);
  EXPECT_LE(kernels.size(), 5u + 2) << "the weight is brought into channels-last order, the result out of it";
}

Tensor convolve(const char* op, const Tensor& x, const std::vector<int64_t>& weight, std::vector<Arg<Tensor>> rest) {
  const bool transposed = std::string(op).find("transpose") != std::string::npos;
  std::vector<Arg<Tensor>> args = {x, Tensor::full(weight, 0, DType::F16),
                                   Tensor::full(std::vector<int64_t>{weight[transposed ? 1 : 0]}, 0, DType::F16)};
  args.insert(args.end(), rest.begin(), rest.end());
  return ops::call1(op, args);
}

// A vocoder's, a decoder's and a video model's: what follows a convolution is in its kernel, also where it goes from phases to places.
TEST(GpuConvolutions, OfOtherRanksAndTransposed) {
  const auto numbers = [](std::vector<Expr> v) { return v; };
  struct Case {
    test::Forward forward;
    std::vector<int64_t> input;
    std::vector<std::string> kernels;
  };
  const std::vector<Case> cases = {
      {[&](auto& in) {
         Tensor y = leaky_relu(convolve("conv_transpose1d", in[0], {512, 256, 16}, {numbers({8}), numbers({4})}), 0.1);
         return convolve("conv1d", y, {64, 256, 3}, {numbers({1}), numbers({1})});
       },
       {1, 512, 200},
       {"kernel_cast", "conv_wgmma_add_ge_and_gt_mul_sel", "conv_wgmma_add"}},
      {[&](auto& in) {
         Tensor y = relu(convolve("conv_transpose2d.input", in[0], {256, 128, 2, 2}, {numbers({2, 2})}));
         y = relu(convolve("conv_transpose2d.input", y, {128, 64, 4, 4}, {numbers({2, 2}), numbers({1, 1})}));
         return convolve("conv2d", y, {64, 64, 3, 3}, {numbers({1, 1}), numbers({1, 1})});
       },
       {2, 256, 16, 16},
       {"kernel_cast", "gemm_wgmma_add_max", "conv_wgmma_add_ge_and_max", "conv_wgmma_add"}},
      {[&](auto& in) {
         Tensor y = relu(convolve("conv3d", in[0], {64, 3, 3, 3, 3}, {numbers({1, 2, 2}), numbers({1, 1, 1})}));
         return convolve("conv3d", y, {64, 64, 3, 3, 3}, {numbers({1, 1, 1}), numbers({1, 1, 1})});
       },
       {2, 3, 8, 56, 56},
       {"fused_ge_lt_and_sel", "conv_mma_add_max", "fused_ge_lt_and_sel", "conv_wgmma_add", "kernel_cast"}},
  };
  for (const Case& c : cases) {
    device::cuda::GpuInfo gpu;
    const auto kernels = front::kernels_for_gpu(graph_of(c.forward, {Tensor::full(c.input, 0, DType::F16)}), gpu);
    std::vector<std::string> names;
    for (auto& k : kernels) names.push_back(k.name);
    EXPECT_EQ(names, c.kernels);
    try {
      for (auto& k : kernels) jit::nvrtc_check(k.source, gpu.architecture, k.name);
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }
}

// What a whole network computes, replayed, against the interpreter, which rounds after each operation.
TEST(GpuConvolutions, ASmallNetworkOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  nn::ResNetConfig config;
  config.blocks = {2, 1, 1, 1}, config.num_classes = 10, config.base_width = 16;
  nn::ResNet model(config, nn::Init(1, DType::F16));
  for (int64_t batch : {1, 3}) {
    const std::vector<Tensor> in = {nn::Init(2, DType::F16).normal({batch, 3, 70, 66}, 0, 1)};
    const auto forward = [&](auto& x) { return model.forward(x[0]); };
    const Tensor want = graph::interpret(*graph_of(forward, in), in)[0];
    ModelOptions options;
    options.device = Device::cuda();
    options.mode = Mode::ReduceOverhead;
    auto compiled = front::compile_model(graph_of(forward, in), options);
    const std::vector<Tensor> there = {in[0].to(Device::cuda())};
    for (int call = 0; call < 3; ++call) {
      const Tensor got = compiled.run(there)[0].to(Device::cpu());
      const std::vector<double> x = got.to_vector(), y = want.to_vector();
      double difference = 0, size = 0;
      for (size_t i = 0; i < y.size(); ++i) difference += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
      EXPECT_LT(std::sqrt(difference / size), 1e-2) << "batch " << batch << ", call " << call;
      EXPECT_GT(size, 0);
    }
  }
}

struct Gradients {
  int64_t images, in, out, size, kernel, stride;
};

// Of a convolution's weights, all channels last: [out channel][tap][in channel].
std::vector<Tensor> gradient_of_weights(const Gradients& g, const std::vector<Tensor>& in) {
  const auto forward = [&] {
    const Tensor y =
        conv2d(permute(in[0], {0, 3, 1, 2}), permute(in[1], {0, 3, 1, 2}), {}, {g.stride, g.stride}, {g.kernel / 2, g.kernel / 2});
    return std::vector{permute(y, {0, 2, 3, 1})};
  };
  return vjp(forward, std::vector{in[1]}, std::vector{in[2]}).second;
}

// Images, weights, and the gradient of the results.
std::vector<Tensor> operands_of(const Gradients& g, DType dtype) {
  const nn::Init init(1, dtype);
  const int64_t out = (g.size - 1) / g.stride + 1;
  return {init.normal({g.images, g.size, g.size, g.in}, 0, 1), init.normal({g.out, g.kernel, g.kernel, g.in}, 0, 1),
          init.normal({g.images, out, out, g.out}, 0, 1)};
}

std::unique_ptr<graph::Graph> graph_of_gradient(const Gradients& g, const std::vector<Tensor>& in) {
  return graph_of([&](auto& x) { return gradient_of_weights(g, x)[0]; }, in);
}

TEST(GpuConvolutions, GradientsOfWeightsReadOperandsWhereTheyLie) {
  const auto names = [](const Gradients& g, DType dtype, const std::string& architecture) {
    device::cuda::GpuInfo gpu;
    gpu.architecture = architecture;
    std::vector<std::string> out;
    for (auto& k : front::kernels_for_gpu(graph_of_gradient(g, operands_of(g, dtype)), gpu)) out.push_back(k.name);
    return out;
  };
  using Names = std::vector<std::string>;
  const Gradients usual{2, 64, 128, 16, 3, 1}, strided{2, 64, 128, 16, 3, 2}, narrow{2, 24, 128, 16, 3, 1};
  const Names brought{"conv_wgrad", "kernel_cast"};  // the second kernel brings the result into the order of the weights
  EXPECT_EQ(names(usual, DType::BF16, "sm_90a"), brought);
  EXPECT_EQ(names(strided, DType::F16, "sm_90a"), brought);
  for (const Names& other : {names(narrow, DType::BF16, "sm_90a"), names(usual, DType::F32, "sm_90a"), names(usual, DType::BF16, "sm_80")})
    EXPECT_EQ(std::count(other.begin(), other.end(), "conv_wgrad"), 0) << testing::PrintToString(other);
}

TEST(GpuConvolutions, GradientsOfWeightsOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (const Gradients& g : {Gradients{3, 64, 64, 17, 3, 1}, Gradients{2, 128, 72, 16, 3, 2}, Gradients{9, 64, 256, 14, 1, 2},
                             Gradients{5, 192, 64, 11, 5, 1}, Gradients{2, 24, 40, 13, 3, 1}, Gradients{16, 64, 64, 56, 3, 1}}) {
    const std::vector<Tensor> in = operands_of(g, DType::BF16);
    std::vector<Tensor> wide, there;
    for (auto& t : in) wide.push_back(to(t, DType::F32)), there.push_back(t.to(Device::cuda()));
    const std::vector<double> want = graph::interpret(*graph_of_gradient(g, wide), wide)[0].to_vector();
    ModelOptions options;
    options.device = Device::cuda();
    const std::vector<double> got = front::compile_model(graph_of_gradient(g, in), options).run(there)[0].to(Device::cpu()).to_vector();
    double difference = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) difference += (got[i] - want[i]) * (got[i] - want[i]), size += want[i] * want[i];
    EXPECT_LT(std::sqrt(difference / size), 4e-3) << g.in << " to " << g.out << " channels at " << g.size << ", stride " << g.stride;
  }
}

// A convolution, and its gradients: of weights, and of images where there is a third.
std::unique_ptr<graph::Graph> graph_of_all(const Gradients& g, const std::vector<Tensor>& in, bool images) {
  return graph_of(
      [&](auto& x) {
        const auto forward = [&] {
          return std::vector{
              conv2d(permute(x[0], {0, 3, 1, 2}), permute(x[1], {0, 3, 1, 2}), {}, {g.stride, g.stride}, {g.kernel / 2, g.kernel / 2})};
        };
        const auto [results, gradients] =
            vjp(forward, images ? std::vector{x[1], x[0]} : std::vector{x[1]}, std::vector{permute(x[2], {0, 3, 1, 2})});
        std::vector<Tensor> flat{flatten(results[0])};
        for (auto& t : gradients) flat.push_back(flatten(t));
        return cat(flat, 0);
      },
      in);
}

// First layers pack pixels once, for the convolution and the gradient of its weights; each phase of an image's gradient is a product.
TEST(GpuConvolutions, OfFewChannelsAndOfPhases) {
  const Gradients first{16, 3, 64, 224, 7, 2}, strided{24, 128, 128, 56, 3, 2}, small{1, 3, 64, 224, 7, 2};
  std::string missing;
  const auto names = [&](const Gradients& g, bool images) {
    device::cuda::GpuInfo gpu;
    std::vector<std::string> out;
    for (auto& k : front::kernels_for_gpu(graph_of_all(g, operands_of(g, DType::BF16), images), gpu)) {
      out.push_back(k.name);
      try {
        jit::nvrtc_check(k.source, gpu.architecture, k.name);
      } catch (const EnvironmentError& e) {
        missing = e.what();
      }
    }
    return out;
  };
  const auto count_of = [](const std::vector<std::string>& list, const std::string& start) {
    return std::count_if(list.begin(), list.end(), [&](auto& n) { return n.starts_with(start); });
  };
  const auto packed = names(first, false), phases = names(strided, true), one = names(small, false);
  EXPECT_EQ(count_of(packed, "conv_wgmma"), 1) << testing::PrintToString(packed);
  EXPECT_EQ(count_of(packed, "conv_wgrad"), 1) << testing::PrintToString(packed);
  EXPECT_EQ(count_of(packed, "fused"), 2) << "pixels, once, and weights: " << testing::PrintToString(packed);
  EXPECT_EQ(count_of(one, "conv_wgrad"), 0) << testing::PrintToString(one);
  EXPECT_EQ(count_of(phases, "conv_wgmma") + count_of(phases, "gemm_wgmma"), 5) << testing::PrintToString(phases);
  if (!missing.empty()) GTEST_SKIP() << "names are right; their texts were not compiled: " << missing;
}

// Weights that are known are packed when the program is compiled.
TEST(GpuConvolutions, AFirstLayerOfKnownWeights) {
  nn::Conv2d layer(3, 64, 7, {.stride = 2, .padding = 3}, nn::Init(1, DType::F16));
  const auto forward = [&](auto& x) { return relu(layer.forward(x[0])); };
  const std::vector<Tensor> in = {nn::Init(2, DType::F16).normal({3, 3, 224, 224}, 0, 1)};
  std::vector<std::string> names;
  for (auto& k : front::kernels_for_gpu(graph_of(forward, in), {})) names.push_back(k.name);
  EXPECT_EQ(names.size(), 2u) << testing::PrintToString(names);
  EXPECT_TRUE(names.back().starts_with("conv_wgmma")) << testing::PrintToString(names);
  if (cuda_device_count() == 0) GTEST_SKIP() << "names are right; no GPU to run them";
  ModelOptions options;
  options.device = Device::cuda();
  const std::vector<Tensor> there = {in[0].to(Device::cuda())};
  const std::vector<double> want = graph::interpret(*graph_of(forward, in), in)[0].to_vector(),
                            got = front::compile_model(graph_of(forward, in), options).run(there)[0].to(Device::cpu()).to_vector();
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) difference += (got[i] - want[i]) * (got[i] - want[i]), size += want[i] * want[i];
  EXPECT_LT(std::sqrt(difference / size), 1e-3);
}

TEST(GpuConvolutions, OfFewChannelsAndOfPhasesOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& [g, images] : {std::pair{Gradients{4, 3, 64, 224, 7, 2}, false},
                            {Gradients{12, 3, 40, 227, 11, 4}, false},
                            {Gradients{24, 128, 128, 56, 3, 2}, true},
                            {Gradients{24, 128, 128, 55, 3, 2}, true}}) {
    const std::vector<Tensor> in = operands_of(g, DType::BF16);
    std::vector<Tensor> wide, there;
    for (auto& t : in) wide.push_back(to(t, DType::F32)), there.push_back(t.to(Device::cuda()));
    const std::vector<double> want = graph::interpret(*graph_of_all(g, wide, images), wide)[0].to_vector();
    ModelOptions options;
    options.device = Device::cuda();
    const std::vector<double> got = front::compile_model(graph_of_all(g, in, images), options).run(there)[0].to(Device::cpu()).to_vector();
    double difference = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) difference += (got[i] - want[i]) * (got[i] - want[i]), size += want[i] * want[i];
    EXPECT_LT(std::sqrt(difference / size), 4e-3) << g.in << " to " << g.out << " channels at " << g.size << ", stride " << g.stride;
  }
}

}  // namespace
}  // namespace toroid
