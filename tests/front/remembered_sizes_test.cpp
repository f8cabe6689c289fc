// Sizes that differed between calls are kept in the cache: the next process, here another compiled function of the same code, compiles
// once.
#include <gtest/gtest.h>

#include <fstream>

#include "compile/cache_bundle.h"
#include "front/cache_scratch.h"
#include "front/harness.h"
#include "jit/artefact_cache.h"
#include "log_scope.h"
#include "toroid/compile.h"
#include "toroid/log.h"

namespace toroid {
namespace {

using test::counting;
using test::Scratch;

// Code of one place, as another process calls it.
auto function(CompileConfig config = {}) {
  return compile([](const Tensor& x, const Tensor& y) { return sum(exp(x) * 2, 1) + y; }, std::move(config));
}

// How often the function is compiled for calls on these lengths, whose results are those of eager code.
int64_t compiles(const std::vector<int64_t>& lengths, CompileConfig config = {}) {
  auto f = function(std::move(config));
  for (int64_t n : lengths) {
    const Tensor x = counting({n, 4}) * 0.01, y = counting({1});
    const auto expected = (sum(exp(x) * 2, 1) + y).to_vector(), got = f(x, y).to_vector();
    EXPECT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << n;
  }
  return f.report().compiles;
}

TEST(RememberedSizes, TheNextProcessCompilesOnce) {
  const Scratch scratch;
  EXPECT_EQ(compiles({5, 7, 9}), 2) << "a size, then any";
  EXPECT_EQ(scratch.files(".sizes").size(), 1u);
  EXPECT_EQ(compiles({6, 8, 5, 7}), 1);
  EXPECT_EQ(scratch.hits(), 1) << "the program for any size is kept, too";
  EXPECT_EQ(compiles({11}), 1);
  std::string said;
  {
    const ScopedOption logs("logs", "cache");
    const test::LogScope lines([&](Artifact, std::string_view line) { said += std::string(line) + "\n"; });
    compiles({12});
  }
  EXPECT_TRUE(test::contains(said, "dimension 0 of input 0 is open from the first call on, as it differed in an earlier process")) << said;
  EXPECT_FALSE(test::contains(said, "of input 1")) << said;
}

// What listens to the log may call the function: nothing is said while a lock is held.
TEST(RememberedSizes, AListenerMayCallTheFunction) {
  const Scratch scratch;
  compiles({5, 7});
  auto f = function();
  int calls = 0;
  {
    const ScopedOption logs("logs", "cache");
    const test::LogScope lines([&](Artifact, std::string_view line) {
      if (test::contains(std::string(line), "is open from the first call on") && calls++ == 0) f(counting({3, 4}), counting({1}));
    });
    f(counting({6, 4}), counting({1}));
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(f(counting({2, 4}) * 0, counting({1}) * 0).to_vector(), (std::vector<double>{8, 8}));
}

TEST(RememberedSizes, ASizeThatNeverDifferedIsANumber) {
  const Scratch scratch;
  EXPECT_EQ(compiles({5, 5, 5}), 1);
  EXPECT_EQ(scratch.files(".sizes").size(), 0u);
  auto f = function();
  f(counting({5, 4}), counting({1}));
  for (auto& g : f.report().guards) EXPECT_FALSE(test::contains(g, "s0")) << g;
}

TEST(RememberedSizes, WhatTheCallerSaysWins) {
  const Scratch scratch;
  compiles({5, 7});
  EXPECT_EQ(compiles({6, 8}, {.dynamic = false}), 2);
  auto f = function();
  for (int64_t n : {6, 8}) {
    Tensor x = counting({n, 4});
    mark_static(x, 0);
    f(x, counting({1}));
  }
  EXPECT_EQ(f.report().compiles, 2);
}

TEST(RememberedSizes, OtherFunctionsDtypesAndRanksHaveTheirOwn) {
  const Scratch scratch;
  compiles({5, 7});
  EXPECT_EQ(compiles({6, 8}, {.name = "another"}), 2);
  auto other = compile([](const Tensor& x, const Tensor& y) { return sum(exp(x) * 2, 1) + y; });
  for (int64_t n : {6, 8}) other(counting({n, 4}), counting({1}));
  EXPECT_EQ(other.report().compiles, 2) << "the same text in another place";
  auto wide = function();
  for (int64_t n : {6, 8}) wide(counting({n, 4}, DType::F64), counting({1}, DType::F64));
  EXPECT_EQ(wide.report().compiles, 2);
  EXPECT_EQ(compiles({6, 8}), 1);
}

TEST(RememberedSizes, NothingIsKeptWithoutACache) {
  const Scratch scratch;
  const ScopedOption off("cache_programs", "0");
  EXPECT_EQ(compiles({5, 7}), 2);
  EXPECT_EQ(compiles({6, 8}), 2);
  EXPECT_EQ(scratch.files(".sizes").size(), 0u);
}

TEST(RememberedSizes, GoWithABundleAndWithAllElse) {
  const test::TempFolder other;
  const auto bundle = other.path / "bundle.zip";
  {
    const Scratch scratch;
    compiles({5, 7});
    EXPECT_EQ(compiler::export_cache(*jit::shared_cache(), bundle).sizes, 1u);
  }
  const Scratch scratch;
  EXPECT_EQ(compiler::import_cache(*jit::shared_cache(), bundle).sizes, 1u);
  EXPECT_EQ(jit::shared_cache()->stats().sizes, 1u);
  EXPECT_EQ(compiles({6, 8}), 1);
  jit::shared_cache()->clear();
  EXPECT_EQ(jit::shared_cache()->stats().entries, 0u);
  EXPECT_EQ(compiles({6, 8}), 2);
}

// What was kept is cut, flipped, long, or of other ranks: then less is known, and results stay right.
TEST(RememberedSizes, DamageIsSurvived) {
  const Scratch scratch;
  compiles({5, 7});
  const auto path = scratch.files(".sizes").at(0);
  for (const char* text : {"", "toroid sizes 1", "toroid sizes 2\n0 0\n", "toroid sizes 1\n0", "toroid sizes 1\n0 ",
                           "toroid sizes 1\n0 9\n", "toroid sizes 1\n7 0\n", "toroid sizes 1\n-1 0\n",
                           "toroid sizes 1\n99999999999999999999 0\n", "toroid sizes 1\nx\n", "toroid sizes 1\n1 0\n0 1\n"}) {
    std::ofstream(path) << text;
    EXPECT_LE(compiles({6, 8, 9}), 2) << text;
    EXPECT_EQ(compiles({6, 8}), 1) << text << ": kept again";
  }
}

}  // namespace
}  // namespace toroid
