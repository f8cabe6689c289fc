// Prepared oneDNN calls against plain loops.
#include "extern/onednn/onednn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

#include "base/options.h"
#include "extern/needs_onednn.h"
#include "toroid/error.h"

namespace toroid::external {
namespace {

std::vector<float> random(int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> out(static_cast<size_t>(n));
  for (auto& x : out) x = static_cast<float>(generator() % 2001) / 1000 - 1;
  return out;
}

struct Scratch {
  explicit Scratch(const LibraryCall& call)
      : memory(static_cast<char*>(std::aligned_alloc(64, static_cast<size_t>(call.scratch_bytes() + 63) / 64 * 64 + 64)), std::free) {}
  std::unique_ptr<char, void (*)(void*)> memory;
};

using OneDnn = test::NeedsOneDnn;

TEST_F(OneDnn, VersionIsTwo) { EXPECT_EQ(onednn_version().substr(0, 2), "2."); }

// relu(a[m, k] b[k, n] + bias[n]) + residual[m, n], b stored as [n, k].
constexpr int64_t kM = 5, kN = 19, kK = 33;
OneDnnProblem product(bool constant_b) {
  OneDnnProblem p;
  p.a = {DType::F32, {kM, kK}, {kK, 1}};
  p.b = {DType::F32, {kK, kN}, {1, kK}, 3};
  p.out = {DType::F32, {kM, kN}, {kN, 1}};
  p.post_ops = {
      {PostOpKind::Add, {DType::F32, {1, kN}, {kN, 1}}}, {PostOpKind::Relu, {}}, {PostOpKind::Add, {DType::F32, {kM, kN}, {kN, 1}}}};
  p.constant_b = constant_b;
  return p;
}

void check_product(bool constant_b) {
  OneDnnProblem p = product(constant_b);
  ASSERT_EQ(onednn_refusal(p), "");
  auto a = random(kM * kK, 1), b = random(3 + kK * kN, 2), bias = random(kN, 3), residual = random(kM * kN, 4);
  auto call = prepare_onednn(p, constant_b ? b.data() : nullptr);
  std::vector<float> out(static_cast<size_t>(kM * kN), 9);
  std::vector<void*> buffers = {a.data()};
  if (!constant_b) buffers.push_back(b.data());
  buffers.insert(buffers.end(), {out.data(), bias.data(), residual.data()});
  Scratch scratch(*call);
  call->run(buffers.data(), scratch.memory.get());
  for (int64_t m = 0; m < kM; ++m)
    for (int64_t n = 0; n < kN; ++n) {
      double sum = bias[static_cast<size_t>(n)];
      for (int64_t k = 0; k < kK; ++k) sum += double{a[static_cast<size_t>(m * kK + k)]} * b[static_cast<size_t>(3 + n * kK + k)];
      auto at = static_cast<size_t>(m * kN + n);
      EXPECT_NEAR(out[at], std::max(sum, 0.0) + residual[at], 1e-4) << m << " " << n;
    }
}

TEST_F(OneDnn, ProductWithPackedWeights) { check_product(true); }
TEST_F(OneDnn, ProductWithWeightsOfTheRun) { check_product(false); }

TEST_F(OneDnn, OneCallRunsOnSeveralThreads) {
  OneDnnProblem p = product(true);
  auto a = random(kM * kK, 1), b = random(3 + kK * kN, 2), bias = random(kN, 3), residual = random(kM * kN, 4);
  auto call = prepare_onednn(p, b.data());
  std::vector<std::vector<float>> results(4, std::vector<float>(static_cast<size_t>(kM * kN)));
  std::vector<std::thread> threads;
  for (auto& out : results)
    threads.emplace_back([&] {
      Scratch scratch(*call);
      void* buffers[] = {a.data(), out.data(), bias.data(), residual.data()};
      for (int i = 0; i < 50; ++i) call->run(buffers, scratch.memory.get());
    });
  for (auto& t : threads) t.join();
  for (auto& out : results) EXPECT_EQ(out, results[0]);
}

// Channels last, grouped, strided, padded and dilated; weights of the run are packed by every run.
TEST_F(OneDnn, ConvolutionWithWeightsOfTheRun) {
  constexpr int64_t g = 2, ic = 4, oc = 6, h = 9, w = 8, oh = 5, ow = 4;
  OneDnnProblem p;
  p.a = {DType::F32, {1, g * ic, h, w}, {h * w * g * ic, 1, w * g * ic, g * ic}};
  p.b = {DType::F32, {g, oc, ic, 3, 3}, {oc * ic * 9, ic * 9, 9, 3, 1}};
  p.out = {DType::F32, {1, g * oc, oh, ow}, {oh * ow * g * oc, 1, ow * g * oc, g * oc}};
  p.window = OneDnnProblem::Window{{2, 2}, {2, 2}, {2, 2}};
  ASSERT_EQ(onednn_refusal(p), "");
  auto x = random(h * w * g * ic, 1), weight = random(g * oc * ic * 9, 2);
  auto call = prepare_onednn(p, nullptr);
  std::vector<float> out(static_cast<size_t>(oh * ow * g * oc));
  void* buffers[] = {x.data(), weight.data(), out.data()};
  Scratch scratch(*call);
  call->run(buffers, scratch.memory.get());
  for (int64_t o = 0; o < g * oc; ++o)
    for (int64_t i = 0; i < oh; ++i)
      for (int64_t j = 0; j < ow; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < ic; ++c)
          for (int64_t q = 0; q < 9; ++q) {
            int64_t y = 2 * i + 2 * (q / 3) - 2, z = 2 * j + 2 * (q % 3) - 2;
            if (y < 0 || y >= h || z < 0 || z >= w) continue;
            sum +=
                double{x[static_cast<size_t>((y * w + z) * g * ic + o / oc * ic + c)]} * weight[static_cast<size_t>((o * ic + c) * 9 + q)];
          }
        EXPECT_NEAR(out[static_cast<size_t>((i * ow + j) * g * oc + o)], sum, 1e-4) << o << " " << i << " " << j;
      }
}

TEST_F(OneDnn, RefusesWhatItHasOnlyAReferenceOf) {
  OneDnnProblem p = product(true);
  p.a.dtype = p.b.dtype = DType::F16;
  EXPECT_NE(onednn_refusal(p).find("has no implementation of it"), std::string::npos) << onednn_refusal(p);
}

TEST(OneDnnLibrary, WhatIsMissingIsSaid) {
  ScopedOption library("onednn_library", "/nonexistent/libdnnl.so.2");
  try {
    onednn_version();
    FAIL() << "no error";
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("apt-get install libdnnl"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("gemm_backends"), std::string::npos) << e.what();
  }
}

TEST(OneDnnLibrary, AnotherLibraryIsNotTakenForIt) {
  ScopedOption library("onednn_library", "libm.so.6");
  EXPECT_THROW(onednn_version(), EnvironmentError);
}

}  // namespace
}  // namespace toroid::external
