// f32 on tensor cores: what the option allow_tf32 changes and what it leaves alone; what the kernels compute needs a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/options.h"
#include "front/compile_model.h"
#include "front/harness.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "lower/lowering.h"
#include "program/region.h"
#include "toroid/custom_op.h"
#include "toroid/device.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::Forward;
using test::graph_of;

Tensor sample(const std::vector<int64_t>& sizes, unsigned seed, DType dtype = DType::F32) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1, 1);
  Tensor t = Tensor::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i)
    store_number(t.raw_data() + i * static_cast<int64_t>(size_of(dtype)), dtype, Number::of(value(random)));
  return t;
}

Tensor product(const std::vector<Tensor>& in) { return relu(matmul(in[0], in[1])); }
Tensor layer(const std::vector<Tensor>& in) { return linear(in[0], in[1]); }
Tensor window(const std::vector<Tensor>& in) { return conv2d(in[0], in[1], Tensor(), {1, 1}, {1, 1}); }

std::vector<codegen::KernelText> kernels_of(const Forward& forward, const std::vector<Tensor>& inputs, const char* architecture) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = architecture;
  return front::kernels_for_gpu(graph_of(forward, inputs), gpu);
}
std::string texts_of(const std::vector<codegen::KernelText>& kernels) {
  std::string all;
  for (auto& k : kernels) all += k.source;
  return all;
}

struct Expectation {
  Forward forward;
  std::vector<Tensor> inputs;
  const char *off, *ampere, *hopper;
};
std::vector<Expectation> expectations() {
  return {{product, {sample({300, 200}, 1), sample({200, 256}, 2)}, "gemm_simt", "gemm_mma", "gemm_mma"},
          {layer, {sample({300, 200}, 1), sample({256, 200}, 2)}, "gemm_simt", "gemm_mma", "gemm_wgmma"},
          {window, {sample({1, 64, 14, 14}, 1), sample({64, 64, 3, 3}, 2)}, "conv_simt", "conv_mma", "conv_wgmma"},
          {window, {sample({1, 20, 14, 14}, 1), sample({64, 20, 3, 3}, 2)}, "conv_simt", "conv_mma", "conv_mma"}};
}
bool has(const std::vector<codegen::KernelText>& kernels, const std::string& start) {
  return std::any_of(kernels.begin(), kernels.end(), [&](auto& k) { return k.name.starts_with(start); });
}

TEST(Tf32, TheOptionChoosesTensorCores) {
  for (auto& e : expectations())
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      const auto off = kernels_of(e.forward, e.inputs, architecture);
      EXPECT_TRUE(has(off, e.off)) << e.off;
      EXPECT_EQ(texts_of(off).find("tf32"), std::string::npos);
      {
        const ScopedOption allow("allow_tf32", "1");
        const auto on = kernels_of(e.forward, e.inputs, architecture);
        const char* name = std::string_view(architecture) == "sm_80" ? e.ampere : e.hopper;
        EXPECT_TRUE(has(on, name)) << name;
        EXPECT_NE(texts_of(on).find("tf32"), std::string::npos);
      }
      EXPECT_EQ(texts_of(kernels_of(e.forward, e.inputs, architecture)), texts_of(off)) << "off again, the texts are as they were";
    }
}

TEST(Tf32, OtherDtypesAndProductsOfOneRowAreAsTheyWere) {
  for (DType t : {DType::BF16, DType::F16, DType::F32}) {
    const int64_t rows = t == DType::F32 ? 1 : 128;
    const std::vector<Tensor> inputs = {sample({rows, 256}, 1, t), sample({512, 256}, 2, t)};
    const std::string off = texts_of(kernels_of(layer, inputs, "sm_90a"));
    const ScopedOption allow("allow_tf32", "1");
    EXPECT_EQ(texts_of(kernels_of(layer, inputs, "sm_90a")), off) << name_of(t);
  }
}

// Takes every product and convolution, and can round what they read.
struct TakesAll : target::Target {
  TakesAll() : Target({.tf32 = true}) {}
  std::string refusal(const program::Problem& problem, const target::Question& question) const override {
    return program::is_a<program::Gemm>(problem) || program::is_a<program::Convolution>(problem) ? "" : Target::refusal(problem, question);
  }
};

// What tuning remembers, and what a lock file prescribes, is for one of the two.
TEST(Tf32, IsPartOfARegionsKey) {
  const TakesAll target;
  auto key = [&](const Forward& forward, const std::vector<Tensor>& inputs, const char* tf32) {
    const CompileOptions options = CompileOptions().with(std::map<std::string, std::string>{{"allow_tf32", tf32}});
    const program::Program p = lower::lower(*graph::run_passes(graph_of(forward, inputs), graph::pipeline(graph::kInference)),
                                            {.options = options, .target = &target});
    std::vector<size_t> all;
    for (size_t i = 0; i < p.nodes.size(); ++i) all.push_back(i);
    return program::region_key(program::region(p, all));
  };
  for (auto& e : expectations()) {
    EXPECT_EQ(key(e.forward, e.inputs, "0"), key(e.forward, e.inputs, "0"));
    EXPECT_NE(key(e.forward, e.inputs, "0"), key(e.forward, e.inputs, "1"));
  }
}

// A variant of an operation may be allowed it when the program is not.
TEST(Tf32, IsAVariantsOwn) {
  auto op = custom_op("test::rounded(Tensor a, Tensor b) -> Tensor", [](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  register_custom_op_autotuning(
      op, {{.decomposition = [](const Tensor& a, const Tensor& b) { return matmul(a, b); }, .options = {{"allow_tf32", "1"}}}});
  const auto graph = graph_of([&](auto& in) { return op(in[0], in[1]); }, {sample({64, 64}, 1), sample({64, 64}, 2)});
  const TakesAll target;
  const program::Program p = lower::lower(*graph, {.target = &target});
  const auto& ways = std::get<program::Open>(p.nodes.at(0).problem).alternatives;
  ASSERT_EQ(ways.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(std::get<program::Gemm>(ways[i].program->nodes.at(0).problem).tf32, i == 1);
}

TEST(Tf32, IsGuarded) {
  auto f = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, test::by_reference());
  const Tensor a = sample({3, 4}, 1), b = sample({4, 5}, 2);
  f(a, b);
  const ScopedOption allow("allow_tf32", "1");
  f(a, b);
  f(a, b);
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_EQ(f.report().recompile_reasons, std::vector<std::string>{"the option allow_tf32 was false, is true"});
}

class Tf32OnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  static std::vector<double> run(const Forward& forward, const std::vector<Tensor>& inputs) {
    auto model = front::compile_model(graph_of(forward, inputs), {.device = Device::cuda(), .freeze = false});
    std::vector<Tensor> there;
    for (auto& t : inputs) there.push_back(t.to(Device::cuda()));
    return model.run(there)[0].to(Device::cpu()).to_vector();
  }
  // The largest error against sums in float64, relative to the largest result.
  static double error_of(const Forward& forward, const std::vector<Tensor>& inputs) {
    const std::vector<double> got = run(forward, inputs), want = graph::interpret(*graph_of(forward, inputs), inputs)[0].to_vector();
    double worst = 0, range = 0;
    for (size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::fabs(got[i] - want[i])), range = std::max(range, std::fabs(want[i]));
    return worst / range;
  }
};

// Operands have 11 bits: an error of 2^-12 on average, of all of them at random.
TEST_F(Tf32OnAGpu, ErrorsAreThoseOfTheMantissa) {
  for (const char* backend : {"template", "cublaslt"})
    for (auto& e : expectations()) {
      const ScopedOption gemm("gemm_backends", backend);
      SCOPED_TRACE(fmt::format("{} {}", backend, e.hopper));
      EXPECT_LT(error_of(e.forward, e.inputs), 1e-5);
      const ScopedOption allow("allow_tf32", "1");
      const double error = error_of(e.forward, e.inputs);
      EXPECT_LT(error, 0x1p-10);
      EXPECT_GT(error, 2e-5) << "f32 would be more exact";
    }
}

// Rounding must not make numbers of what is none, nor zeros of NaN with all bits set.
TEST_F(Tf32OnAGpu, NotANumberAndInfinityStay) {
  const ScopedOption allow("allow_tf32", "1");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float odd[] = {kInfinity, -kInfinity, std::bit_cast<float>(0x7fffffffu), std::bit_cast<float>(0xffffffffu),
                       std::bit_cast<float>(0x7fc00001u)};
  for (bool transposed : {false, true}) {
    std::vector<Tensor> in = {Tensor::full(std::vector<int64_t>{64, 64}, 1), Tensor::full(std::vector<int64_t>{64, 64}, 1)};
    for (int64_t i = 0; i < 5; ++i) in[0].data<float>()[i * 64 + 7 * i] = odd[i];
    const std::vector<double> got = run(
        transposed ? Forward(layer) : [](auto& x) { return matmul(x[0], x[1]); }, in);
    for (size_t i = 0; i < 6 * 64; ++i) {
      const double x = got[i];
      const size_t row = i / 64;
      EXPECT_TRUE(row == 0 ? x == kInfinity : row == 1 ? x == -kInfinity : row < 5 ? std::isnan(x) : x == 64) << row << ": " << x;
    }
  }
}

// Eager calls follow the option from one call to the next.
TEST_F(Tf32OnAGpu, EagerFollowsTheOption) {
  const Tensor a = sample({256, 256}, 1).to(Device::cuda()), b = sample({256, 256}, 2).to(Device::cuda());
  const auto before = matmul(a, b).to(Device::cpu()).to_vector();
  {
    const ScopedOption allow("allow_tf32", "1");
    EXPECT_NE(matmul(a, b).to(Device::cpu()).to_vector(), before);
  }
  EXPECT_EQ(matmul(a, b).to(Device::cpu()).to_vector(), before);
}

}  // namespace
}  // namespace toroid
