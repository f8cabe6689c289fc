// Gradients of the convolutions of ResNet-50 on a GPU, 128 images, bf16, channels last: what the kernels of a compiled vjp take, for the
// images, for the weights, and for both. gpu_convolution_gradients.py in bench/peers runs this beside PyTorch. One JSON line a layer.
//   bench_gpu_convolution_gradients [tuned]      tuned: in Mode::MaxAutotune
#include <fmt/core.h>

#include <cstring>
#include <vector>

#include "kernel_times.h"
#include "resnet50_layers.h"
#include "toroid/compile.h"
#include "toroid/device_memory.h"
#include "toroid/grad.h"
#include "toroid/nn.h"

using namespace toroid;

namespace {

constexpr int64_t kBatch = 128;

// Microseconds of the gradients with respect to `by`. Tensors are [n, height, width, channels] in memory.
double gradients_us(const ResNetLayer& l, Mode mode, const Tensor& x, const Tensor& weight, const Tensor& slope,
                    const std::vector<Tensor>& by) {
  const auto forward = [&] {
    const Tensor y =
        conv2d(permute(x, {0, 3, 1, 2}), permute(weight, {0, 3, 1, 2}), {}, {l.stride, l.stride}, {l.kernel / 2, l.kernel / 2});
    return std::vector{permute(y, {0, 2, 3, 1})};
  };
  auto step = compile([&] { return vjp(forward, by, std::vector{slope}).second; },
                      {.mode = mode, .fullgraph = true, .name = "gradients of a convolution"});
  return kernel_ns([&] { step(); }, 3, 9) / 1e3;
}

}  // namespace

int main(int argc, char** argv) try {
  const Mode mode = argc > 1 && std::strcmp(argv[1], "tuned") == 0 ? Mode::MaxAutotune : Mode::ReduceOverhead;
  const nn::Init init(1, DType::BF16, Device::cuda());
  for (const ResNetLayer& l : kResNet50Layers) {
    const int64_t out = (l.size - 1) / l.stride + 1;
    const Tensor x = init.normal({kBatch, l.size, l.size, l.in}, 0, 1), weight = init.normal({l.out, l.kernel, l.kernel, l.in}, 0, 1),
                 slope = init.normal({kBatch, out, out, l.out}, 0, 1);
    const auto us = [&](const std::vector<Tensor>& by) { return gradients_us(l, mode, x, weight, slope, by); };
    const double images = us({x}), weights = us({weight}), both = us({x, weight});
    fmt::print(R"({{"in": {}, "out": {}, "size": {}, "kernel": {}, "stride": {}, "count": {}, "images_us": {:.1f}, "weights_us": {:.1f}, )"
               R"("both_us": {:.1f}}})"
               "\n",
               l.in, l.out, l.size, l.kernel, l.stride, l.count, images, weights, both);
    std::fflush(stdout);
    empty_cache(Device::cuda());
  }
  return 0;
} catch (const Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
