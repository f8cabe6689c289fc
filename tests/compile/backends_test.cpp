// Who computes products and convolutions: the options gemm_backends and conv_backends.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/cublaslt_problem.h"
#include "base/log.h"
#include "base/options.h"
#include "compile/harness.h"
#include "device/cpu/isa.h"
#include "extern/cublaslt/cublaslt.h"
#include "extern/needs_onednn.h"
#include "extern/onednn/onednn.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "import/load_model.h"
#include "log_scope.h"
#include "toroid/device.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using test::Forward;
using test::graph_of;

Tensor random(const std::vector<int64_t>& sizes, uint64_t seed = 1) { return nn::Init(seed).normal(sizes, 0, 1); }

struct Backends {
  explicit Backends(const std::string& list) : gemm("gemm_backends", list), conv("conv_backends", list) {}
  ScopedOption gemm, conv;
};

struct Compiled {
  std::string steps;
  std::vector<std::string> choices;
};

// Compiles with the backends, runs twice and compares with the interpreter. tolerance: of the largest value.
Compiled check(const Forward& forward, const std::vector<Tensor>& inputs, const std::string& list = "onednn", double tolerance = 1e-5,
               const ModelOptions& options = {}) {
  Backends backends(list);
  auto model = front::compile_model(graph_of(forward, inputs), options);
  auto want = graph::interpret(*graph_of(forward, inputs), inputs)[0].to_vector();
  for (int run = 0; run < 2; ++run) {
    auto got = model.run(inputs)[0].to_vector();
    EXPECT_EQ(got.size(), want.size());
    double largest = 0, worst = 0;
    for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
      largest = std::max(largest, std::abs(want[i]));
      worst = std::max(worst, std::isnan(got[i]) ? HUGE_VAL : std::abs(got[i] - want[i]));
    }
    EXPECT_LE(worst, tolerance * largest);
  }
  Compiled c;
  for (auto& s : model.executable().plan().steps)
    c.steps += (c.steps.empty() ? "" : ", ") + std::visit([](auto& step) { return step.name; }, s);
  c.choices = model.report().schedule.choices;
  return c;
}

using OneDnnBackend = test::NeedsOneDnn;

TEST_F(OneDnnBackend, LinearLayersOfManyShapes) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{1, 7, 5}, {4, 64, 64}, {33, 17, 129}, {128, 96, 300}, {1, 1, 40}}) {
    nn::Linear layer(k, n, true, nn::Init(3));
    EXPECT_EQ(check([&](auto& in) { return relu(layer(in[0])); }, {random({m, k})}).steps, "onednn_gemm_add_relu")
        << m << " " << n << " " << k;
  }
}

TEST_F(OneDnnBackend, TransposedOperands) {
  Tensor a = random({24, 40}), at = random({40, 24}), b = random({40, 32}, 2), bt = random({32, 40}, 2);
  EXPECT_EQ(check([](auto& in) { return matmul(in[0], in[1]); }, {a, b}).steps, "onednn_gemm");
  EXPECT_EQ(check([](auto& in) { return matmul(in[0], transpose(in[1], 0, 1)); }, {a, bt}).steps, "onednn_gemm");
  EXPECT_EQ(check([](auto& in) { return matmul(transpose(in[0], 0, 1), in[1]); }, {at, b}).steps, "onednn_gemm");
  EXPECT_EQ(check([](auto& in) { return matmul(transpose(in[0], 0, 1), transpose(in[1], 0, 1)); }, {at, bt}).steps, "onednn_gemm");
  // The result of a product in transposed memory is a loop of its own or none; the values count.
  check([](auto& in) { return transpose(matmul(in[0], in[1]), 0, 1) + 1.0; }, {a, b});
}

TEST_F(OneDnnBackend, Batches) {
  EXPECT_EQ(check([](auto& in) { return bmm(in[0], in[1]); }, {random({3, 8, 20}), random({3, 20, 12}, 2)}).steps, "onednn_gemm");
  check([](auto& in) { return matmul(in[0], in[1]); }, {random({2, 3, 8, 20}), random({3, 20, 12}, 2)});
  nn::Linear layer(20, 12, true, nn::Init(3));
  EXPECT_EQ(check([&](auto& in) { return silu(layer(in[0])); }, {random({3, 8, 20})}).steps, "onednn_gemm_add_silu");
  // Rows in another order than the batch's: heads.
  check([&](auto& in) { return layer(transpose(in[0], 1, 2)); }, {random({2, 5, 3, 20})});
}

TEST_F(OneDnnBackend, Epilogues) {
  Tensor x = random({6, 32}), y = random({6, 48}, 5), column = random({6, 1}, 6);
  nn::Linear layer(32, 48, true, nn::Init(3));
  EXPECT_EQ(check([&](auto& in) { return gelu(layer(in[0])); }, {x}).steps, "onednn_gemm_add_gelu");
  EXPECT_EQ(check([&](auto& in) { return gelu(layer(in[0]), "tanh"); }, {x}, "onednn", 1e-4).steps, "onednn_gemm_add_gelu");
  EXPECT_EQ(check([&](auto& in) { return relu(layer(in[0]) + in[1]); }, {x, y}).steps, "onednn_gemm_add_add_relu");
  check([&](auto& in) { return layer(in[0]) * in[1] + in[2]; }, {x, y, column});
  // What the library cannot do follows in a loop, and what follows the loop joins it.
  std::string rest = check([&](auto& in) { return layer_norm(sin(layer(in[0])) + in[1], {48}); }, {x, y}).steps;
  EXPECT_EQ(rest.find("onednn_gemm_add, "), 0u) << rest;
  EXPECT_EQ(std::count(rest.begin(), rest.end(), ','), 1) << rest;
  // The sum itself is used twice.
  check(
      [&](auto& in) {
        Tensor sum = layer(in[0]);
        return relu(sum) * sum;
      },
      {x});
}

TEST_F(OneDnnBackend, Convolutions) {
  struct Case {
    int64_t channels, out, size, kernel, stride, pad, dilation, groups;
  };
  for (const Case& c : {Case{16, 24, 13, 3, 1, 1, 1, 1},
                        {16, 24, 13, 3, 2, 1, 1, 1},
                        {8, 8, 12, 3, 1, 2, 2, 1},
                        {32, 64, 7, 1, 1, 0, 1, 1},
                        {16, 32, 10, 5, 2, 2, 1, 4},
                        {32, 32, 14, 3, 1, 1, 1, 32},
                        {5, 7, 9, 3, 1, 0, 1, 1},
                        {16, 16, 1, 1, 1, 0, 1, 1}}) {
    nn::Conv2dOptions options{{c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation}, c.groups};
    nn::Conv2d layer(c.channels, c.out, c.kernel, options, nn::Init(3));
    std::string steps = check([&](auto& in) { return relu(layer(in[0])); }, {random({2, c.channels, c.size, c.size})}).steps;
    EXPECT_NE(steps.find("onednn_convolution_add_relu"), std::string::npos) << steps;
  }
}

TEST_F(OneDnnBackend, ConvolutionsInARowPassChannelsLastMemory) {
  nn::Conv2d first(8, 16, 3, {.padding = {1, 1}}, nn::Init(3)), second(16, 8, 3, {.padding = {1, 1}}, nn::Init(4));
  std::string steps = check([&](auto& in) { return relu(second(relu(first(in[0]))) + in[0]); }, {random({1, 8, 10, 10})}).steps;
  EXPECT_NE(steps.find("onednn_convolution_add_relu, onednn_convolution_add"), std::string::npos) << steps;
}

TEST_F(OneDnnBackend, TakesConvolutionsThatTheTemplateRefuses) {
  // Single pixels, by weights that are no constants: a product.
  auto forward = [](auto& in) { return conv2d(in[0], in[1]); };
  std::vector<Tensor> inputs = {random({1, 8, 9, 9}), random({16, 8, 1, 1}, 2)};
  Compiled c = check(forward, inputs, "template,onednn");
  EXPECT_NE(c.steps.find("onednn_convolution"), std::string::npos) << c.steps;
  ASSERT_EQ(c.choices.size(), 1u);
  EXPECT_NE(c.choices[0].find("onednn; not template: "), std::string::npos) << c.choices[0];
  EXPECT_EQ(check(forward, inputs, "template").steps.find("onednn"), std::string::npos);
}

TEST_F(OneDnnBackend, TheFirstThatTakesAProblemComputesIt) {
  nn::Linear layer(32, 48, true, nn::Init(3));
  auto forward = [&](auto& in) { return layer(in[0]); };
  EXPECT_EQ(check(forward, {random({6, 32})}, "template,onednn").steps.find("onednn"), std::string::npos);
  EXPECT_EQ(check(forward, {random({6, 32})}, "onednn,template").steps, "onednn_gemm_add");
}

TEST_F(OneDnnBackend, HalfProducts) {
  Tensor a = to(random({16, 32}), DType::BF16), b = to(random({32, 24}, 2), DType::BF16);
  check([](auto& in) { return relu(matmul(in[0], in[1])); }, {a, b}, "onednn", 2e-2);
  Tensor c = to(random({16, 32}), DType::F16), d = to(random({32, 24}, 2), DType::F16);
  Compiled refused = check([](auto& in) { return matmul(in[0], in[1]); }, {c, d}, "onednn", 2e-3);
  EXPECT_EQ(refused.steps.find("onednn"), std::string::npos) << refused.steps;
  ASSERT_EQ(refused.choices.size(), 1u);
  EXPECT_NE(refused.choices[0].find("template; not onednn: oneDNN 2"), std::string::npos) << refused.choices[0];
}

TEST_F(OneDnnBackend, HalfConvolutions) {
  Tensor weight = to(random({16, 8, 3, 3}, 2), DType::BF16);
  auto forward = [&](auto& in) { return relu(conv2d(in[0], weight, {}, 1, 1)); };
  std::string steps = check(forward, {to(random({1, 8, 9, 9}), DType::BF16)}, "template,onednn", 2e-2).steps;
  if (device::host().isa == device::Isa::Avx512) {
    EXPECT_NE(steps.find("onednn_convolution_relu"), std::string::npos) << steps;
  }
}

TEST_F(OneDnnBackend, ReplayGoesAroundItAndSaysSo) {
  nn::Linear layer(32, 48, true, nn::Init(3));
  ScopedOption logs("logs", "captures");
  std::string seen;
  const test::LogScope lines([&](Artifact, std::string_view message) { seen += message; });
  check([&](auto& in) { return softmax(layer(in[0]), -1); }, {random({6, 32})}, "onednn", 1e-5, {.mode = Mode::ReduceOverhead});
  EXPECT_NE(seen.find("a library runs it on threads of its own"), std::string::npos) << seen;
}

TEST_F(OneDnnBackend, SymbolicSizesAreRefusedWithThatReason) {
  Backends backends("onednn");
  auto model = front::compile_model(import::load_model(std::string(TOROID_SOURCE_DIR) + "/tests/data/models/minilm_dynamic.pt2"));
  const auto& choices = model.report().schedule.choices;
  ASSERT_FALSE(choices.empty());
  for (auto& line : choices) EXPECT_NE(line.find(": template; not onednn: its sizes are symbolic"), std::string::npos) << line;
}

TEST(Backends, AMissingLibraryIsAnErrorOnlyWhereItStandsAlone) {
  ScopedOption library("onednn_library", "/nonexistent/libdnnl.so.2");
  nn::Linear layer(32, 48, true, nn::Init(3));
  auto forward = [&](auto& in) { return layer(in[0]); };
  try {
    check(forward, {random({6, 32})}, "onednn");
    FAIL() << "no error";
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("apt-get install libdnnl"), std::string::npos) << e.what();
  }
  Compiled c = check(forward, {random({6, 32})}, "onednn, template");
  ASSERT_EQ(c.choices.size(), 1u);
  EXPECT_NE(c.choices[0].find("template; not onednn: "), std::string::npos) << c.choices[0];
}

TEST(Backends, CublasLtIsForGpus) {
  ScopedOption gemm("gemm_backends", "cublaslt, template");
  nn::Linear layer(32, 48, true, nn::Init(3));
  auto model = front::compile_model(graph_of([&](auto& in) { return layer(in[0]); }, {random({6, 32})}), {});
  ASSERT_EQ(model.report().schedule.choices.size(), 1u);
  EXPECT_NE(model.report().schedule.choices[0].find("template; not cublaslt: it computes on GPUs only"), std::string::npos)
      << model.report().schedule.choices[0];
}

// The product is the library's, replayed with the loop behind it; other memory at each call.
TEST(Backends, CublasLtInAReplay) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  try {
    external::cublaslt_version();
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  ScopedOption gemm("gemm_backends", "cublaslt");
  nn::Linear layer(64, 48, true, nn::Init(3));
  auto forward = [&](auto& in) { return relu(layer(in[0])); };
  ModelOptions options;
  options.device = Device::cuda();
  options.mode = Mode::ReduceOverhead;
  auto model = front::compile_model(graph_of(forward, {random({40, 64})}), options);
  EXPECT_EQ(std::visit([](auto& step) { return step.name; }, model.executable().plan().steps[0]), "cublaslt_gemm");
  for (uint64_t call = 0; call < 4; ++call) {
    const std::vector<Tensor> inputs = {random({40, 64}, call)};
    const auto want = graph::interpret(*graph_of(forward, inputs), inputs)[0].to_vector();
    const auto got = model.run(std::vector{inputs[0].to(Device::cuda())})[0].to(Device::cpu()).to_vector();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4 * (1 + std::abs(want[i]))) << "call " << call << ", " << i;
  }
}

// The library's problem for sums of halves that are stored as f32: its operands are halves, its result is none.
TEST(Backends, CublasLtStoresHalvesAsF32) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    program::Gemm g;
    g.batch = {3}, g.m = 40, g.n = 48, g.k = 64;
    g.a = {0, dtype, 0, {40 * 64, 64, 1}}, g.b = {1, dtype, 0, {48 * 64, 1, 64}};
    program::Node node;
    node.problem = g;
    const loop::Nest nest = loop::parse("loop (i0: 3, i1: 40, i2: 48) {\n v0: f32 = accumulate\n store %2 [i0*1920 + i1*48 + i2] v0\n}");
    node.domain = nest.domain, node.body = nest.body;
    const auto p = std::get<external::CublasLtProblem>(backend::cublaslt_call(node).problem);
    EXPECT_EQ(p.dtype, dtype);
    EXPECT_EQ(p.out_dtype, DType::F32);
    EXPECT_EQ(p.out.row, 48);
    EXPECT_EQ(p.out.batch, 40 * 48);
    EXPECT_FALSE(p.tf32);
  }
}

// Every implementation that the library names computes the product; what it has not is reported.
TEST(Backends, CublasLtByConfiguration) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  try {
    external::cublaslt_version();
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  constexpr int64_t m = 40, n = 48, k = 64;
  program::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.a = {0, DType::F32, 0, {k, 1}}, g.b = {1, DType::F32, 0, {1, k}};
  program::Node node;
  node.problem = g;
  const loop::Nest nest = loop::parse("loop (i0: 40, i1: 48) {\n v0: f32 = accumulate\n store %2 [i0*48 + i1] v0\n}");
  node.domain = nest.domain, node.body = nest.body;
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  const Tensor a = random({m, k}, 1).to(Device::cuda()), b = random({n, k}, 2).to(Device::cuda());
  const auto configs = backend::cublaslt_configs(node, gpu, 6);
  ASSERT_GE(configs.size(), 2u);
  std::vector<double> first;
  for (auto& config : configs) {
    node.config = config;
    const exec::LibraryCall call = backend::cublaslt_call(node);
    const Tensor out = Tensor::full(std::vector<int64_t>{m, n}, 0, DType::F32, Device::cuda());
    void* const buffers[] = {a.raw_data(), b.raw_data(), out.raw_data()};
    const auto prepared = exec::prepare(call, Device::cuda(), {});
    const auto scratch = gpu.allocate(static_cast<size_t>(prepared->scratch_bytes()) + 1);
    prepared->run(buffers, scratch.get());
    const auto got = out.to(Device::cpu()).to_vector();
    if (first.empty()) first = got;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], first[i], 1e-4 * (1 + std::abs(first[i]))) << program::to_string(config);
  }
  for (const char* bad : {"cublaslt(algo=63)", "cublaslt(algo=-1)", "gemm_simt()"}) {
    node.config = program::parse_config(bad);
    EXPECT_THROW(exec::prepare(backend::cublaslt_call(node), Device::cuda(), {}), UserError) << bad;
  }
}

TEST(Backends, BadListsAreRefused) {
  EXPECT_THROW(set_option("conv_backends", "cublaslt"), UserError);
  EXPECT_THROW(set_option("gemm_backends", "cudnn"), UserError);
  for (const char* bad : {"", "mkl", "onednn,onednn", "template,,one"}) EXPECT_THROW(set_option("gemm_backends", bad), UserError) << bad;
  EXPECT_NO_THROW(ScopedOption("conv_backends", " onednn , template"));
}

}  // namespace
}  // namespace toroid
