// Which convolutions become calls of cuDNN, and with how much of what follows them. Most of it needs neither a GPU nor the library.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend.h"
#include "backend/cuda/cuda_candidates.h"
#include "backend/cuda/cudnn_problem.h"
#include "base/options.h"
#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "toroid/device.h"
#include "toroid/nn.h"

namespace toroid::compiler {
namespace {

enum Buffer { kInput, kWeight, kBias, kOther, kResult };

// A convolution of 2 images of 8 x 6 points, channels last; `body` over i0 (image), i1 (channel), i2, i3.
struct Case {
  program::Program program;

  explicit Case(const std::string& body, DType t = DType::F16, int64_t kernel = 3) {
    program::Convolution c;
    c.n = 2, c.in_channels = 16, c.out_channels = 24, c.in_h = 8, c.in_w = 6, c.out_h = 8, c.out_w = 6;
    c.kernel_h = c.kernel_w = kernel, c.pad_h = c.pad_w = kernel / 2;
    c.input = {kInput, t, 0, {8 * 6 * 16, 1, 6 * 16, 16}};
    c.weight = {kWeight, t, 0, {16 * kernel * kernel, kernel * kernel, kernel, 1}};
    program::Node node;
    const loop::Nest nest = loop::parse("loop (i0: 2, i1: 24, i2: 8, i3: 6) {\n" + body + "\n}");
    node.domain = nest.domain, node.body = nest.body, node.problem = c, node.origins = {"conv"};
    const int64_t numel[] = {2 * 8 * 6 * 16, 24 * 16 * kernel * kernel, 24, 2 * 8 * 6 * 24, 2 * 8 * 6 * 24};
    for (int64_t n : numel)
      program.new_buffer("b", t, n, program.buffers.size() == kWeight ? loop::BufferKind::Constant : loop::BufferKind::Input);
    program.nodes.push_back(std::move(node));
  }
  program::Convolution& convolution() { return std::get<program::Convolution>(program.nodes[0].problem); }
};

constexpr const char* kPlace = "[i0*1152 + i1 + i2*144 + i3*24]";

std::string biased(const std::string& rest, const char* type = "f16") {
  return fmt::format(" v0: f32 = accumulate\n v1: {0} = load %2 [i1]\n v2: f32 = Cast v1\n v3: f32 = Add v0 v2\n{1}", type, rest);
}

// Relu as the op table writes it.
std::string relu_of(int value, int next) {
  return fmt::format(" v{1}: f32 = const 0\n v{2}: f32 = Max v{1} v{0}\n", value, next, next + 1);
}

TEST(CudnnProblems, TakeTheEpiloguesThatTheLibraryHas) {
  struct Want {
    std::string body, name;
    std::vector<int> buffers;
  };
  const std::string add = fmt::format(" v4: f16 = load %3 {}\n v5: f32 = Cast v4\n v6: f32 = Add v3 v5\n", kPlace);
  for (const Want& w :
       {Want{fmt::format(" v0: f32 = accumulate\n v1: f16 = Cast v0\n store %4 {} v1", kPlace), "cudnn_convolution", {0, 5, 4}},
        Want{biased(fmt::format(" v4: f16 = Cast v3\n store %4 {} v4", kPlace)), "cudnn_convolution_bias", {0, 5, 4, 2}},
        Want{biased(relu_of(3, 4) + fmt::format(" v6: f16 = Cast v5\n store %4 {} v6", kPlace)),
             "cudnn_convolution_bias_relu",
             {0, 5, 4, 2}},
        Want{biased(add + fmt::format(" v7: f16 = Cast v6\n store %4 {} v7", kPlace)), "cudnn_convolution_bias_add", {0, 5, 4, 2, 3}},
        Want{biased(add + relu_of(6, 7) + fmt::format(" v9: f16 = Cast v8\n store %4 {} v9", kPlace)),
             "cudnn_convolution_bias_add_relu",
             {0, 5, 4, 2, 3}}}) {
    Case c(w.body);
    backend::fit_for_cudnn(c.program, 0);
    ASSERT_EQ(c.program.nodes.size(), 1u) << w.name << program::to_string(c.program);
    const backend::CudnnNode node = backend::describe_cudnn(c.program.nodes[0]);
    EXPECT_EQ(node.name, w.name);
    EXPECT_EQ(node.buffers, w.buffers);
    EXPECT_EQ(node.problem.dtype, DType::F16);
    EXPECT_EQ(std::pair(node.problem.out_h, node.problem.window.size[1]), std::pair(int64_t{8}, int64_t{3}));
  }
}

TEST(CudnnProblems, WeightsAreRearrangedWhereTheyLieOtherwise) {
  const std::string plain = fmt::format(" v0: f32 = accumulate\n v1: f16 = Cast v0\n store %4 {} v1", kPlace);
  Case c(plain);
  backend::fit_for_cudnn(c.program, 0);
  ASSERT_EQ(c.program.rearranged.size(), 1u);
  EXPECT_EQ(c.convolution().weight.buffer, c.program.rearranged[0].buffer);
  EXPECT_EQ(c.program.rearranged[0].parts[0].strides, (std::vector<int64_t>{144, 1, 48, 16}));
  EXPECT_EQ(c.program.rearranged[0].parts[0].from.buffer, kWeight);
  Case single(plain, DType::F16, 1);  // both orders are the same
  backend::fit_for_cudnn(single.program, 0);
  EXPECT_TRUE(single.program.rearranged.empty());
  EXPECT_EQ(backend::describe_cudnn(single.program.nodes[0]).buffers, (std::vector<int>{0, 1, 4}));
}

// The sum is rounded to f16, the only type that the library stores, and the loop behind the call takes it from there.
TEST(CudnnProblems, WhatTheLibraryHasNotFollowsInALoop) {
  Case c(biased(fmt::format(" v4: f32 = Tanh v3\n v5: f32 = Mul v4 v3\n v6: f16 = Cast v5\n store %4 {} v6", kPlace)));
  backend::fit_for_cudnn(c.program, 0);
  ASSERT_EQ(c.program.nodes.size(), 2u);
  const backend::CudnnNode call = backend::describe_cudnn(c.program.nodes[0]);
  EXPECT_EQ(call.name, "cudnn_convolution_bias");
  const int between = call.buffers[2];
  EXPECT_EQ(c.program.buffers[static_cast<size_t>(between)].dtype, DType::F16);
  const loop::Nest follows =
      loop::parse(fmt::format("loop (i0: 2, i1: 24, i2: 8, i3: 6) {{\n v0: f16 = load %{} {}\n v1: f32 = Cast v0\n"
                              " v2: f32 = Tanh v1\n v3: f32 = Mul v2 v1\n v4: f16 = Cast v3\n store %4 {} v4\n}}",
                              between, kPlace, kPlace));
  EXPECT_EQ(loop::to_string(c.program.nodes[1].domain, c.program.nodes[1].body), loop::to_string(follows.domain, follows.body));
  // Without a bias the library adds and clips nothing; a bias of another type is no bias of its.
  Case clipped(" v0: f32 = accumulate\n" + relu_of(0, 1) + fmt::format(" v3: f16 = Cast v2\n store %4 {} v3", kPlace));
  backend::fit_for_cudnn(clipped.program, 0);
  EXPECT_EQ(backend::describe_cudnn(clipped.program.nodes[0]).name, "cudnn_convolution");
  Case wide(biased(fmt::format(" v4: f16 = Cast v3\n store %4 {} v4", kPlace), "f32"));
  backend::fit_for_cudnn(wide.program, 0);
  EXPECT_EQ(backend::describe_cudnn(wide.program.nodes[0]).name, "cudnn_convolution");
  EXPECT_EQ(wide.program.nodes.size(), 2u);
}

TEST(CudnnProblems, RefusalsSayWhy) {
  const std::string plain = fmt::format(" v0: f32 = accumulate\n v1: f16 = Cast v0\n store %4 {} v1", kPlace);
  const auto why = [&](const std::function<void(program::Convolution&)>& change, bool constant = true) {
    Case c(plain);
    change(c.convolution());
    return backend::cudnn_refusal(c.convolution(), constant);
  };
  EXPECT_EQ(why([](auto& c) { c.n = sym::symbol("s0", 1, 8); }), "its sizes are symbolic");
  EXPECT_EQ(why([](auto& c) { c.input.strides = {768, 48, 6, 1}; }), "its input is not in channels-last memory");
  EXPECT_EQ(why([](auto& c) { c.input.dtype = c.weight.dtype = DType::F64; }), "it is not asked for convolutions of f64");
  EXPECT_EQ(why([](auto& c) { c.out_h = 7; }), "its borders are of different widths");
  EXPECT_EQ(why([](auto& c) { c.input.offset = 4; }), "its input does not begin at 16 bytes");
  EXPECT_EQ(why([](auto&) {}, false), "its weights are no constants, and not in channels-last memory");
}

TEST(CudnnProblems, ConfigurationsOfOthersAreRefused) {
  Case c(fmt::format(" v0: f32 = accumulate\n v1: f16 = Cast v0\n store %4 {} v1", kPlace));
  backend::fit_for_cudnn(c.program, 0);
  for (const char* bad : {"cudnn(algo=16)", "cudnn(algo=-1)", "conv_simt()"}) {
    c.program.nodes[0].config = program::parse_config(bad);
    EXPECT_THROW(backend::cudnn_call(c.program.nodes[0]), UserError) << bad;
  }
}

TEST(Backends, CudnnIsForGpus) {
  ScopedOption conv("conv_backends", "cudnn, template");
  nn::Conv2d layer(8, 8, 3, {.padding = {1, 1}}, nn::Init(3));
  const Tensor x = nn::Init(1).normal({1, 8, 9, 9}, 0, 1);
  auto model = front::compile_model(test::graph_of([&](auto& in) { return layer(in[0]); }, {x}), {});
  ASSERT_EQ(model.report().schedule.choices.size(), 1u);
  EXPECT_NE(model.report().schedule.choices[0].find("template; not cudnn: it computes on GPUs only"), std::string::npos)
      << model.report().schedule.choices[0];
}

// Without a GPU: what tuning would try on one, and what a choice makes of the program.
TEST(Backends, TuningTriesCudnnWhereItIs) {
  try {
    external::cudnn_version();
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  const device::cuda::GpuInfo absent;
  const compiler::Setup setup = front::setup_of({.device = Device::cuda()});
  const auto target = backend::make_backend(setup.device, setup.options, &absent);
  Case c(fmt::format(" v0: f32 = accumulate\n v1: f16 = Cast v0\n store %4 {} v1", kPlace));
  std::string ways;
  for (auto& way : target->proposals(c.program, 0)) ways += program::to_string(way) + " ";
  EXPECT_NE(ways.find("cudnn(algo=0) cudnn(algo=1) cudnn(algo=2)"), std::string::npos) << ways;
  c.program.nodes[0].config = program::parse_config("cudnn(algo=1)");
  const auto scheduled = [&] { return target::run_passes(c.program, *target, program::Stage::Scheduled, setup.options); };
  const program::Program p = scheduled();
  ASSERT_EQ(p.nodes.size(), 1u);
  EXPECT_EQ(p.nodes[0].by, program::Implementation::CuDnn);
  EXPECT_EQ(backend::describe_cudnn(p.nodes[0]).name, "cudnn_convolution");
  c.convolution().input.strides = {768, 48, 6, 1};
  EXPECT_THROW(scheduled(), UserError);
}

TEST(Backends, MissingCudnnIsAnErrorOnlyWhereItStandsAlone) {
  try {
    external::cudnn_version();
    GTEST_SKIP() << "cuDNN is here";
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("nvidia-cudnn"), std::string::npos) << e.what();
  }
  const program::Convolution c = Case(fmt::format(" v0: f32 = accumulate\n store %4 {} v0", kPlace)).convolution();
  ScopedOption both("conv_backends", "cudnn, template");
  const auto list = backend::gpu_candidates(c, true, CompileOptions::of_process(), {});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_NE(list[0].refusal.find("cannot be loaded"), std::string::npos);
  ScopedOption alone("conv_backends", "cudnn");
  EXPECT_THROW(backend::gpu_candidates(c, true, CompileOptions::of_process(), {}), EnvironmentError);
}

// Three convolutions in a row, two with what the library adds, one with a loop behind it, replayed with other memory at each call.
TEST(Backends, CudnnStepByStepAndReplayed) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  try {
    external::cudnn_version();
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  for (auto [dtype, tolerance] : {std::pair(DType::F32, 1e-5), {DType::F16, 4e-3}, {DType::BF16, 3e-2}}) {
    ScopedOption conv("conv_backends", "cudnn");
    nn::Conv2d first(16, 16, 3, {.padding = {1, 1}}, nn::Init(3, dtype)), second(16, 16, 3, {.padding = {1, 1}}, nn::Init(4, dtype)),
        third(16, 24, 3, {.stride = {2, 2}}, nn::Init(5, dtype));
    auto forward = [&](auto& in) {
      const Tensor a = relu(first(in[0]));
      return gelu(third(relu(second(a) + a)));
    };
    auto input = [&](uint64_t seed) { return to(nn::Init(seed).normal({2, 16, 10, 10}, 0, 1), dtype); };
    for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
      auto model = front::compile_model(test::graph_of(forward, {input(0)}), {.device = Device::cuda(), .mode = mode});
      std::string steps;
      for (auto& s : model.executable().plan().steps) steps += std::visit([](auto& step) { return step.name; }, s) + " ";
      EXPECT_NE(steps.find("cudnn_convolution_bias_relu cudnn_convolution_bias_add_relu cudnn_convolution_bias "), std::string::npos)
          << steps;
      const Tensor there = input(9).to(Device::cuda());  // steady calls read from here
      for (uint64_t call = 0; call < 7; ++call) {
        const std::vector<Tensor> inputs = {call < 4 ? input(call) : input(9)};
        const auto want = graph::interpret(*test::graph_of(forward, inputs), inputs)[0].to_vector();
        const auto got = model.run(std::vector{call < 4 ? inputs[0].to(Device::cuda()) : there})[0].to(Device::cpu()).to_vector();
        ASSERT_EQ(got.size(), want.size());
        double worst = 0, largest = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          worst = std::max(worst, std::abs(got[i] - want[i]));
          largest = std::max(largest, std::abs(want[i]));
        }
        EXPECT_LE(worst, tolerance * largest) << name_of(dtype) << ", call " << call;
      }
    }
  }
}

}  // namespace
}  // namespace toroid::compiler
