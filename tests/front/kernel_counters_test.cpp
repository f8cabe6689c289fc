// What a process has compiled can be counted, whoever asked for it.
#include <gtest/gtest.h>

#include "front/cache_scratch.h"
#include "front/eager.h"
#include "toroid/cache.h"
#include "toroid/compile.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

struct Counted {
  KernelCounters before = kernel_counters();
  int64_t eager() const { return kernel_counters().eager - before.eager; }
  int64_t programs() const { return kernel_counters().programs - before.programs; }
  int64_t tuning() const { return kernel_counters().tuning - before.tuning; }
  int64_t found() const { return kernel_counters().found - before.found; }
  double ms() const { return kernel_counters().compile_ms - before.compile_ms; }
};

// Texts that no other test has.
Tensor odd(const Tensor& x) { return erf(x * 0.123456) + 0.654321; }

TEST(KernelCounters, TellWhoAsked) {
  const test::Scratch cache;
  const Tensor x = ones({3, 1237});
  front::EagerDispatcher::instance().reset();
  const Counted compiling;
  auto f = compile(odd);
  f(x);
  EXPECT_EQ(compiling.programs(), 1);
  EXPECT_EQ(compiling.eager(), 0);
  EXPECT_GT(compiling.ms(), 0);
  const Counted warm;
  f(x);
  EXPECT_EQ(kernel_counters().compiled(), warm.before.compiled()) << "a warm function compiles nothing";
  const Counted calls;
  atan(x);
  EXPECT_EQ(calls.eager(), 1);
  EXPECT_EQ(calls.programs(), 0);
  atan(x);
  EXPECT_EQ(calls.eager(), 1) << "it was compiled already";
  atan(ones({3, 1238}));
  EXPECT_EQ(calls.eager(), 2) << "the second size is open";
  atan(ones({3, 1239}));
  EXPECT_EQ(calls.eager(), 2);
}

TEST(KernelCounters, WhatTheCacheHasIsNotCompiled) {
  const test::Scratch cache;
  const ScopedOption none("cache_programs", "0");
  const Tensor x = ones({5, 1231});
  compile(odd)(x);
  const Counted again;
  compile(odd)(x);
  EXPECT_EQ(again.programs(), 0);
  EXPECT_EQ(again.found(), 1);
}

TEST(KernelCounters, TuningIsCountedByItself) {
  const test::Scratch cache;
  const Counted counted;
  auto f = compile(
      [](const Tensor& a, const Tensor& b) { return matmul(a, b); },
      {.mode = Mode::MaxAutotuneNoCudagraphs, .options = {{"tune_region_ms", "5"}, {"tune_whole_ms", "0"}, {"tune_database", "none"}}});
  f(ones({37, 53}), ones({53, 61}));
  EXPECT_GT(counted.tuning(), 1);
  EXPECT_EQ(counted.eager(), 0);
}

}  // namespace
}  // namespace toroid
