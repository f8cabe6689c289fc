// Sums of columns that products and convolutions leave on Hopper (sched/sum_columns.h): compared with those of loops on a GPU; NVRTC
// compiles them anywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compile/model.h"
#include "compile/traced.h"
#include "front/compile_model.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"
#include "toroid/grad.h"
#include "toroid/ops.h"

namespace toroid::sums {
namespace {

using test::Function;
using test::graph_of;
using test::Tensors;

// Elements that `draw` gives, one after the other.
Tensor drawn(const std::vector<int64_t>& sizes, DType dtype, const std::function<double()>& draw) {
  Tensor t = Tensor::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) store_number(t.raw_data() + i * static_cast<int64_t>(size_of(dtype)), dtype, Number::of(draw()));
  return t;
}

Tensor sample(const std::vector<int64_t>& sizes, DType dtype, unsigned seed, double mean = 0, double deviation = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(mean - deviation, mean + deviation);
  return drawn(sizes, dtype, [&] { return value(random); });
}

// Integers of a few sizes. What a first layer makes of them takes few values, so that a relu behind its norm masks the same ones where
// statistics differ in their last bits.
Tensor integers(const std::vector<int64_t>& sizes, DType dtype, unsigned seed, int least, int largest) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> value(least, largest);
  return drawn(sizes, dtype, [&] { return static_cast<double>(value(random)); });
}

struct Case {
  std::string name;
  size_t loops;  // whose columns are summed by what computes them
  Function function;
  Tensors inputs;
};

Tensor normed(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  return ops::call1("batch_norm", {x, scale, shift, std::monostate{}, std::monostate{}, true, 0.1, 1e-5, false});
}

// Two convolutions, each with a batch norm, relu and silu, and all gradients. kernel: of both. Elements before the silu take any value: a
// relu there would mask others wherever one of them is rounded otherwise, which changes its gradients by more than the sums do. What weighs
// the results has a mean, so that their sum does not cancel.
Case block(DType dtype, int64_t n, int64_t h, int64_t w, int64_t in, int64_t mid, int64_t out, int64_t kernel) {
  Case c;
  c.name = fmt::format("{} block {} x {} x {} x {} -> {} -> {}, {}x{}", name_of(dtype), n, h, w, in, mid, out, kernel, kernel);
  c.loops = 3;  // statistics of both norms; the sums of the first one's gradients
  const double second = 1.7 / std::sqrt(static_cast<double>(mid * kernel * kernel));
  c.inputs = {integers({n, in, h, w}, dtype, 1, -1, 2),
              integers({mid, in, kernel, kernel}, dtype, 2, -2, 3),
              sample({mid}, DType::F32, 3, 1, 0.5),
              sample({mid}, DType::F32, 4),
              sample({out, mid, kernel, kernel}, dtype, 5, 0, second),
              sample({out}, DType::F32, 6, 1, 0.5),
              sample({out}, DType::F32, 7),
              sample({n, out, h, w}, dtype, 8, 0.5)};
  c.function = [kernel](const Tensors& x) {
    const std::vector<Expr> pad{kernel / 2, kernel / 2}, one{1, 1};
    auto [value, gradients] = value_and_gradients(
        [&] {
          const auto convolve = [&](const Tensor& a, const Tensor& b) { return ops::call1("conv2d", {a, b, std::monostate{}, one, pad}); };
          const Tensor y = silu(normed(convolve(relu(normed(convolve(x[0], x[1]), x[2], x[3])), x[4]), x[5], x[6]));
          return sum(to(y, DType::F32) * to(x[7], DType::F32));
        },
        {x[0], x[1], x[2], x[3], x[4], x[5], x[6]});
    gradients.insert(gradients.begin(), value);
    return gradients;
  };
  return c;
}

// Products with biases, whose gradients are sums of columns.
Case layers(DType dtype, int64_t rows, int64_t in, int64_t mid, int64_t out) {
  Case c;
  c.name = fmt::format("{} layers {} x {} -> {} -> {}", name_of(dtype), rows, in, mid, out);
  c.loops = 1;  // of the gradient of the first bias
  c.inputs = {sample({rows, in}, dtype, 1), sample({mid, in}, dtype, 2, 0, 1 / std::sqrt(static_cast<double>(in))),
              sample({mid}, dtype, 3),      sample({out, mid}, dtype, 4, 0, 1 / std::sqrt(static_cast<double>(mid))),
              sample({out}, dtype, 5),      sample({rows, out}, dtype, 6)};
  c.function = [](const Tensors& x) {
    auto [value, gradients] = value_and_gradients(
        [&] {
          const Tensor y = ops::call1("linear", {relu(ops::call1("linear", {x[0], x[1], x[2]})), x[3], x[4]});
          return sum(to(y, DType::F32) * to(x[5], DType::F32));
        },
        {x[1], x[2], x[3], x[4]});
    return gradients;
  };
  return c;
}

// The variance of columns whose mean is 64, and their elements.
Case far_from_zero(double deviation) {
  Case c;
  c.name = fmt::format("elements {} from their mean", deviation);
  c.loops = 1;
  constexpr int64_t kRows = 8203, kColumns = 256, kDepth = 64;
  c.inputs = {sample({kRows, kDepth}, DType::BF16, 1, 1, deviation), Tensor::full(std::vector<int64_t>{kColumns, kDepth}, 1, DType::BF16)};
  c.function = [](const Tensors& x) {
    const Tensor y = ops::call1("linear", {x[0], x[1]}), wide = to(y, DType::F32);
    return Tensors{ops::call1("var.correction", {wide, std::vector<Expr>{0}, Expr(0)}), y};
  };
  return c;
}

std::vector<Case> cases(bool all) {
  std::vector<Case> out;
  std::mt19937 random(1);
  const auto from = [&](std::initializer_list<int64_t> of) { return of.begin()[random() % of.size()]; };
  for (DType dtype : {DType::BF16, DType::F16}) {
    out.push_back(block(dtype, 3, 53, 57, 64, 264, 248, 1));
    out.push_back(layers(dtype, 8203, 128, 264, 320));
    if (!all) {
      out.push_back(block(DType::F16, 3, 53, 57, 64, 256, 256, 3));
      out.push_back(far_from_zero(1));
      break;
    }
    out.push_back(block(dtype, 3, 53, 57, 64, 256, 256, 3));
    out.push_back(block(dtype, 8, 64, 64, 64, 64, 64, 3));
    out.push_back(block(dtype, 9, 61, 60, 64, 64, 64, 1));
    out.push_back(layers(dtype, 4160, 256, 1024, 128));
    for (int i = 0; i < 6; ++i) {
      const int64_t kernel = from({1, 3}), mid = kernel == 3 ? from({64, 128, 192, 256, 320}) : from({72, 136, 200, 328, 512});
      const int64_t channels = kernel == 3 ? from({64, 128}) : from({40, 64, 96}),
                    last = kernel == 3 ? from({64, 128, 256, 320}) : from({64, 104, 128, 256, 376});
      const int64_t h = from({17, 31, 40, 56}), w = from({19, 28, 41, 55});
      // As many images as both results are worth it.
      out.push_back(block(dtype, (1 << 21) / (std::min(mid, last) * h * w) + 1, h, w, channels, mid, last, kernel));
    }
  }
  return out;
}

struct Options {
  std::map<std::string, std::string> list;
};
// Loops and libraries apart: what the same templates compute, without sums.
const Options kSummed{{{"conv_backends", "template"}, {"gemm_backends", "template"}}};
const Options kByLoops{{{"conv_backends", "template"}, {"gemm_backends", "template"}, {"disable_passes", "sum_columns"}}};

size_t summed(const std::vector<std::string>& choices) {
  return static_cast<size_t>(std::count_if(choices.begin(), choices.end(), [](auto& line) {
    return line.find("columns are summed where they are computed") != std::string::npos;
  }));
}

double distance(const Tensor& got, const Tensor& want) {
  const std::vector<double> x = got.to_vector(), y = want.to_vector();
  double difference = x.size() == y.size() ? 0 : HUGE_VAL, size = 0;
  for (size_t i = 0; i < y.size() && difference < HUGE_VAL; ++i) {
    difference += std::isfinite(x[i]) ? (x[i] - y[i]) * (x[i] - y[i]) : HUGE_VAL;
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

// Few of the cases: what leaves sums, and what reads them.
TEST(GpuSums, CompileForHopper) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  for (auto& c : cases(false)) {
    SCOPED_TRACE(c.name);
    const auto count = [&](const Options& options) {
      size_t kernels = 0;
      for (auto& k : compiler::kernels_of(graph_of(c.function, c.inputs),
                                          front::setup_of({.device = Device::cuda(), .options = options.list}), &gpu)) {
        const bool leaves = k.name.find("_sums") != std::string::npos, reads = k.name.find("reducesum") != std::string::npos;
        kernels += leaves;
        if (!leaves && !reads) continue;
        try {
          jit::nvrtc_check(k.source, gpu.architecture, k.name);
        } catch (const EnvironmentError&) {
          continue;  // no NVRTC
        }
      }
      return kernels;
    };
    EXPECT_EQ(count(kSummed), c.loops);
    EXPECT_EQ(count(kByLoops), 0u);
  }
}

TEST(GpuSums, AreThoseOfLoops) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& c : cases(true)) {
    SCOPED_TRACE(c.name);
    Tensors there, first;
    for (auto& t : c.inputs) there.push_back(t.to(Device::cuda()));
    const auto run = [&](const Options& options, size_t loops) {
      auto model =
          front::compile_model(graph_of(c.function, c.inputs), {.device = Device::cuda(), .freeze = false, .options = options.list});
      EXPECT_EQ(summed(model.report().schedule.choices), loops);
      first = model.run(there);
      Tensors out;
      for (auto& t : model.run(there)) out.push_back(t.to(Device::cpu()));
      for (size_t i = 0; i < out.size(); ++i) {
        const Tensor before = first[i].to(Device::cpu());
        EXPECT_EQ(distance(out[i], before), 0) << "result " << i << " is another one in the second run";
      }
      return out;
    };
    const Tensors got = run(kSummed, c.loops), want = run(kByLoops, 0);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(distance(got[i], want[i]), c.inputs[0].dtype() == DType::BF16 ? 2e-3 : 5e-4) << "result " << i;
  }
}

// Columns whose mean is large beside their deviation, and those that are all one number: their variance is what halves leave of it, and no
// less than 0.
TEST(GpuSums, OfColumnsFarFromZero) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (double deviation : {0.0, 1.0 / 64, 1.0 / 4}) {
    const Case c = far_from_zero(deviation);
    SCOPED_TRACE(c.name);
    Tensors there;
    for (auto& t : c.inputs) there.push_back(t.to(Device::cuda()));
    auto model = front::compile_model(graph_of(c.function, c.inputs), {.device = Device::cuda(), .freeze = false, .options = kSummed.list});
    EXPECT_EQ(summed(model.report().schedule.choices), c.loops);
    const Tensors got = model.run(there);
    const std::vector<double> variance = got[0].to(Device::cpu()).to_vector(), y = got[1].to(Device::cpu()).to_vector();
    const size_t columns = variance.size(), rows = y.size() / columns;
    for (size_t column = 0; column < columns; ++column) {
      double sum = 0, squares = 0;
      for (size_t row = 0; row < rows; ++row) sum += y[row * columns + column];
      const double mean = sum / static_cast<double>(rows);
      for (size_t row = 0; row < rows; ++row) squares += (y[row * columns + column] - mean) * (y[row * columns + column] - mean);
      const double want = squares / static_cast<double>(rows);
      EXPECT_NEAR(variance[column], want, 1e-3 * want + 1e-12) << "column " << column;
    }
  }
}

}  // namespace
}  // namespace toroid::sums
