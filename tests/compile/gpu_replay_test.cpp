// Calls replayed as one graph on a GPU.
#include <gtest/gtest.h>

#include <cmath>

#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "import/load_model.h"
#include "toroid/capture.h"
#include "toroid/device_graph.h"
#include "toroid/model.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

// Inputs and results are in other memory at each call: the recorded launches must follow them, and earlier results must stay.
TEST(GpuReplay, FollowsTheCallersMemory) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const std::string folder = std::string(TOROID_SOURCE_DIR) + "/examples/digits/";
  const auto graph = import::load_model(folder + "digits.pt2");
  Model gpu = Model::load(folder + "digits.pt2", {.device = Device::cuda(), .mode = Mode::ReduceOverhead});
  const Tensor images = load_tensors(folder + "labelled.safetensors").at("images");
  std::vector<Tensor> expected, inputs, results;
  for (int call = 0; call < 6; ++call) {
    Tensor x = Tensor::empty(images.sizes(), images.dtype());
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = images.data<float>()[i] * static_cast<float>(call);
    expected.push_back(graph::interpret(*graph, std::vector{x})[0]);
    inputs.push_back(x.to(Device::cuda()));
    results.push_back(gpu.run({inputs.back()})[0]);
  }
  for (size_t call = 0; call < results.size(); ++call) {
    const Tensor got = results[call].to(Device::cpu());
    for (int64_t i = 0; i < got.numel(); ++i) {
      const float want = expected[call].data<float>()[i];
      ASSERT_NEAR(got.data<float>()[i], want, 1e-3 * (1 + std::fabs(want))) << "call " << call << ", element " << i;
    }
  }
}

// A graph by hand around a compiled program gives what the program gives.
TEST(GpuReplay, IsCapturedByHand) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const std::string folder = std::string(TOROID_SOURCE_DIR) + "/examples/digits/";
  const Tensor images = load_tensors(folder + "labelled.safetensors").at("images");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    Model gpu = Model::load(folder + "digits.pt2", {.device = Device::cuda(), .mode = mode});
    Tensor x = images.to(Device::cuda()), y;
    gpu.run({x});
    CudaGraph g(Device::cuda());
    g.capture([&] { y = gpu.run({x})[0]; });
    EXPECT_TRUE(g.pool().stats().allocated > 0);
    for (float scale : {0.5f, 2.0f}) {
      Tensor next = Tensor::empty(images.sizes(), images.dtype());
      for (int64_t i = 0; i < next.numel(); ++i) next.data<float>()[i] = images.data<float>()[i] * scale;
      copy_async(x, pin_memory(next));
      g.replay();
      synchronize(Device::cuda());
      EXPECT_EQ(y.to_vector(), gpu.run({x})[0].to_vector()) << scale;
    }
  }
}

// Calls of a program after which it is known which order of its launches is the fastest.
constexpr int kTrialCalls = 24;

// Two kernels of one block each, which need nothing of each other, run side by side, wherever the inputs lie.
TEST(GpuReplay, BranchesRunSideBySide) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  auto compiled = [](Mode mode) {
    return front::compile_model(graph::parse(R"(graph "branches"(%a: f32[30000], %b: f32[29000]) {
      %a1: f32[30000] = cumsum(%a, 0)
      %b1: f32[29000] = cumsum(%b, 0)
      return %a1, %b1
    })"),
                                {.device = Device::cuda(), .mode = mode});
  };
  auto numbers = [](int64_t count, double scale) {
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = scale * std::sin(static_cast<double>(i * i % 1013));
    return Tensor::of(values, std::vector<int64_t>{count}, DType::F32).to(Device::cuda());
  };
  compiler::CompiledModel one_by_one = compiled(Mode::Default), replayed = compiled(Mode::ReduceOverhead);
  for (int call = 0; call < kTrialCalls; ++call) {
    const std::vector<Tensor> inputs{numbers(30000, 1 + call), numbers(29000, 2 + call)};
    const auto got = replayed.run(inputs), want = one_by_one.run(inputs);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(got[i].to_vector(), want[i].to_vector()) << call;
  }
  const CaptureReport r = replayed.executable().captures();
  ASSERT_EQ(r.recordings.size(), 1u);
  EXPECT_EQ(r.recordings[0].width, 2) << to_string(r);
}

// Steps of training write what they keep.
TEST(GpuReplay, UpdatesRunSideBySide) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  auto compiled = [](Mode mode) {
    return front::compile_model(graph::parse(R"(graph "updates"(%a: f32[30000], %b: f32[29000]) {
      %a1: f32[30000] = cumsum(%a, 0)
      %a2: f32[30000] = sin(%a1)
      %b1: f32[29000] = cumsum(%b, 0)
      %b2: f32[29000] = cos(%b1)
      return %b1, (input 0 <- %a2), (input 1 <- %b2)
    })"),
                                {.device = Device::cuda(), .mode = mode});
  };
  auto numbers = [](int64_t count) {
    std::vector<double> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1e-5 * std::sin(static_cast<double>(i * i % 1013));
    const Tensor out = Tensor::of(values, std::vector<int64_t>{count}, DType::F32).to(Device::cuda());
    mark_static_address(out);
    return out;
  };
  compiler::CompiledModel one_by_one = compiled(Mode::Default), replayed = compiled(Mode::ReduceOverhead);
  const std::vector<Tensor> kept{numbers(30000), numbers(29000)}, others{numbers(30000), numbers(29000)};
  for (int call = 0; call < kTrialCalls; ++call) {
    EXPECT_EQ(replayed.run(others)[0].to_vector(), one_by_one.run(kept)[0].to_vector()) << call;
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(others[i].to_vector(), kept[i].to_vector()) << call << ", input " << i;
  }
  const CaptureReport r = replayed.executable().captures();
  ASSERT_EQ(r.recordings.size(), 1u);
  EXPECT_EQ(r.recordings[0].width, 2) << to_string(r);
}

}  // namespace
}  // namespace toroid
