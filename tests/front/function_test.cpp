// Capture, guards and recompiles of compiled functions.
#include <thread>

#include "front/harness.h"

namespace toroid {
namespace {

using namespace test;
using Values = std::vector<double>;

auto add_one() {
  return [](const Tensor& x) { return x + 1; };
}

TEST(CompiledFunction, ComputesAndCompilesOnce) {
  Tensor b = Tensor::of({1, -2}, {2});
  auto f = compile([b](const Tensor& x) { return relu(x + b) * 2; }, by_reference());
  EXPECT_EQ(f(Tensor::of({1, 1}, {2})).to_vector(), (Values{4, 0}));
  EXPECT_EQ(f(Tensor::of({2, 3}, {2})).to_vector(), (Values{6, 2}));
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_EQ(f.report().cache_hits, 1);
}

TEST(CompiledFunction, RunsCompiledCode) {
  Tensor b = Tensor::of({1, -2}, {2});
  auto f = compile([b](const Tensor& x) { return relu(x + b) * 2; });
  EXPECT_EQ(f(Tensor::of({1, 1}, {2})).to_vector(), (Values{4, 0}));
  EXPECT_EQ(f(Tensor::of({1, 1, 5, 6}, {2, 2})).to_vector(), (Values{4, 0, 12, 8}));
}

struct GuardCase {
  const char* name;
  std::function<Tensor()> first, second;
  const char* reason;
};
class OneGuard : public testing::TestWithParam<GuardCase> {};

TEST_P(OneGuard, NamesWhatChanged) {
  auto f = compile([](const Tensor& x) { return x.defined() ? x + 1 : zeros({1}); }, by_reference({.input_names = {"x"}}));
  f(GetParam().first());
  f(GetParam().first());
  EXPECT_EQ(f.report().compiles, 1);
  f(GetParam().second());
  auto r = f.report();
  EXPECT_EQ(r.compiles, 2);
  ASSERT_EQ(r.recompile_reasons.size(), 1u);
  EXPECT_EQ(r.recompile_reasons[0], GetParam().reason);
}

Tensor transposed() { return counting({3, 2}).as_strided(std::vector<int64_t>{2, 3}, std::vector<int64_t>{1, 2}); }

INSTANTIATE_TEST_SUITE_P(All, OneGuard,
                         testing::Values(GuardCase{"dtype",
                                                   [] {
                                                     return counting({2, 8});
                                                   },
                                                   [] {
                                                     return counting({2, 8}, DType::F64);
                                                   },
                                                   "input 0 (x): dtype was f32, is f64"},
                                         GuardCase{"rank",
                                                   [] {
                                                     return counting({2, 8});
                                                   },
                                                   [] {
                                                     return counting({2, 8, 1});
                                                   },
                                                   "input 0 (x): rank was 2, is 3"},
                                         GuardCase{"size",
                                                   [] {
                                                     return counting({2, 8});
                                                   },
                                                   [] {
                                                     return counting({2, 9});
                                                   },
                                                   "input 0 (x): size of dimension 1 was 8, is 9"},
                                         GuardCase{"strides",
                                                   [] {
                                                     return counting({2, 3});
                                                   },
                                                   [] { return transposed(); }, "input 0 (x): was contiguous, has strides [1, 2]"},
                                         GuardCase{"contiguous", [] { return transposed(); },
                                                   [] {
                                                     return counting({2, 3});
                                                   },
                                                   "input 0 (x): strides were [1, 2], are [3, 1]"},
                                         GuardCase{"requires_grad",
                                                   [] {
                                                     return counting({2, 8});
                                                   },
                                                   [] {
                                                     return counting({2, 8}).set_requires_grad(true);
                                                   },
                                                   "input 0 (x): requires_grad was false, is true"},
                                         GuardCase{"undefined",
                                                   [] {
                                                     return counting({2, 8});
                                                   },
                                                   [] { return Tensor(); }, "input 0 (x): was a tensor, is undefined"}),
                         [](auto& info) { return info.param.name; });

TEST(CompiledFunction, GuardsNumbersAndTexts) {
  auto f =
      compile([](const Tensor& x, int64_t n, double s, bool negate, const std::string& how) { return gelu(negate ? -x : x * s + n, how); },
              by_reference());
  Tensor x = counting({3});
  f(x, 1, 0.5, false, "none");
  f(x, 1, 0.5, false, "none");
  EXPECT_EQ(f.report().compiles, 1);
  f(x, 2, 0.5, false, "none");
  f(x, 2, 0.25, false, "none");
  f(x, 2, 0.25, true, "none");
  f(x, 2, 0.25, true, "tanh");
  EXPECT_EQ(f.report().recompile_reasons,
            (std::vector<std::string>{"argument 1: was 1, is 2", "argument 2: was 0.5, is 0.25", "argument 3: was false, is true",
                                      "argument 4: was \"none\", is \"tanh\""}));
}

TEST(CompiledFunction, RecompilesSayWhatDiffersFromTheNearestVariant) {
  auto f = compile([](const Tensor& x) { return x * 2; });
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{3, 4}, {0, 4}, {3, 1}}) f(Tensor::full(sizes, 1));
  f(Tensor::full({3, 4}, 1, DType::F64));
  EXPECT_EQ(f.report().recompile_reasons,
            (std::vector<std::string>{"input 0: size of dimension 0 was 3, is 0", "input 0: size of dimension 1 was 4, is 1",
                                      "input 0: dtype was f32, is f64"}));
}

TEST(CompiledFunction, ListsTuplesAndNoResult) {
  auto f = compile([](const std::vector<Tensor>& xs) { return std::tuple(xs[0] + xs[1], xs[0] - xs[1]); }, by_reference());
  auto [sum, difference] = f(std::vector<Tensor>{counting({2}), counting({2})});
  EXPECT_EQ(sum.to_vector(), (Values{0, 2}));
  EXPECT_EQ(difference.to_vector(), (Values{0, 0}));
  auto g = compile([](const Tensor& x) { add_(x, 1); }, by_reference());
  Tensor x = counting({2});
  g(x);
  g(x);
  EXPECT_EQ(x.to_vector(), (Values{2, 3}));
}

TEST(CompiledFunction, ChangedSizesBecomeSymbolic) {
  auto f = compile(add_one(), by_reference());
  for (int64_t batch : {4, 5, 6, 7}) EXPECT_EQ(f(counting({batch, 3})).sizes(), (std::vector<int64_t>{batch, 3}));
  EXPECT_EQ(f.report().compiles, 2);
}

TEST(CompiledFunction, EqualSizesStayEqual) {
  auto f = compile([](const Tensor& a, const Tensor& b) { return a + b; }, by_reference());
  for (int64_t n : {4, 5, 6}) f(counting({n}), counting({n}));
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_TRUE(contains(user_error([&] { f(counting({6}), counting({7})); }), "add"));
}

TEST(CompiledFunction, DynamicTrueAndFalse) {
  auto all = compile(add_one(), by_reference({.dynamic = true}));
  auto none = compile(add_one(), by_reference({.dynamic = false}));
  for (int64_t n : {4, 5, 6}) {
    all(counting({n}));
    none(counting({n}));
  }
  EXPECT_EQ(all.report().compiles, 1);
  EXPECT_EQ(none.report().compiles, 3);
}

TEST(CompiledFunction, SizeBranchIsAGuard) {
  auto f = compile([](const Tensor& x) { return x.size(0) > 100 ? x + 1 : x - 1; }, by_reference({.dynamic = true}));
  EXPECT_EQ(f(counting({2})).to_vector(), (Values{-1, 0}));
  EXPECT_EQ(f(counting({3})).to_vector(), (Values{-1, 0, 1}));
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_EQ(f(counting({101})).to_vector()[0], 1);
  auto r = f.report();
  EXPECT_EQ(r.compiles, 2);
  ASSERT_EQ(r.recompile_reasons.size(), 1u);
  EXPECT_TRUE(contains(r.recompile_reasons[0], "s0 = 101 is the size of dimension 0 of input 0")) << r.recompile_reasons[0];
}

TEST(CompiledFunction, LimitShowsInTheReport) {
  auto f = compile(add_one(), by_reference({.dynamic = false}));
  for (int64_t n = 2; n < 11; ++n) EXPECT_EQ(f(counting({n})).to_vector()[1], 2);
  auto r = f.report();
  EXPECT_EQ(r.compiles, 8);
  EXPECT_EQ(r.limit_calls, 1);
  ASSERT_EQ(r.fallbacks.size(), 1u);
  EXPECT_EQ(r.fallbacks[0], "recompile_limit 8 is reached: input 0: size of dimension 0 was 9, is 10");
  EXPECT_TRUE(contains(to_string(r), "recompile_limit 8 is reached"));
}

TEST(CompiledFunction, LimitCanBeAnError) {
  auto f = compile(add_one(), by_reference({.dynamic = false, .options = {{"fail_on_recompile_limit", "1"}, {"recompile_limit", "2"}}}));
  f(counting({2}));
  f(counting({3}));
  EXPECT_TRUE(contains(user_error([&] { f(counting({4})); }), "recompile_limit 2 is reached: input 0: size of dimension 0 was 3, is 4"));
}

TEST(CompiledFunction, MarkedDimensionIsSymbolicAtOnce) {
  auto f = compile(add_one(), by_reference());
  for (int64_t n : {2, 17, 64}) {
    Tensor x = counting({n, 3});
    mark_dynamic(x, 0, 2, 64);
    f(x);
  }
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(CompiledFunction, FixingAMarkedDimensionIsAnError) {
  Tensor b = counting({4});
  auto f = compile([b](const Tensor& x) { return x + b; }, by_reference());
  Tensor x = counting({4});
  mark_dynamic(x, 0);
  std::string what = user_error([&] { f(x); });
  EXPECT_TRUE(contains(what, "size of dimension 0 of input 0 was marked dynamic") && contains(what, "add.Tensor (function_test.cpp:"))
      << what;
}

TEST(CompiledFunction, MarkStaticKeepsNumbers) {
  auto f = compile(add_one(), by_reference());
  for (int64_t n : {4, 5, 6}) {
    Tensor x = counting({n});
    mark_static(x, 0);
    f(x);
  }
  EXPECT_EQ(f.report().compiles, 3);
}

TEST(CompiledFunction, WritesReachTheCaller) {
  auto f = compile(
      [](const Tensor& x) {
        fill_(select(x, 1, 0), 7);
        return x * 2;
      },
      by_reference());
  for (int i = 0; i < 2; ++i) {
    Tensor x = counting({2, 2});
    EXPECT_EQ(f(x).to_vector(), (Values{14, 2, 14, 6}));
    EXPECT_EQ(x.to_vector(), (Values{7, 1, 7, 3}));
  }
  EXPECT_EQ(f.report().compiles, 1);
}

Tensor write_one_read_other(const Tensor& x, const Tensor& y) {
  add_(x, 1);
  return y * 1;
}

TEST(CompiledFunction, OverlappingWrittenInputsRunEagerly) {
  auto f = compile(write_one_read_other, by_reference());
  Tensor a = counting({3}), b = counting({3});
  EXPECT_EQ(f(a, b).to_vector(), (Values{0, 1, 2}));
  Tensor tail = a.as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
  EXPECT_EQ(f(a, tail).to_vector(), (Values{2, 3, 4}));
  EXPECT_EQ(f.report().fallbacks.size(), 1u);
  EXPECT_EQ(f(a, a).to_vector(), (Values{3, 4, 5}));
}

TEST(CompiledFunction, CapturedTensorsAreReadAtEachCall) {
  Tensor w = Tensor::of({1, 2}, {2});
  auto f = compile([w](const Tensor& x) { return x * w; }, by_reference());
  f(Tensor::of({1, 1}, {2}));
  fill_(w, 5);
  EXPECT_EQ(f(Tensor::of({1, 1}, {2})).to_vector(), (Values{5, 5}));
  EXPECT_EQ(f.report().compiles, 1);
}

// The next call may have another argument.
TEST(CompiledFunction, ACapturedTensorAsArgumentIsStillCaptured) {
  Tensor w = Tensor::of({10, 20}, {2});
  auto f = compile([w](const Tensor& x) { return x + w; }, by_reference());
  EXPECT_EQ(f(w).to_vector(), (Values{20, 40}));
  EXPECT_EQ(f(Tensor::of({1, 2}, {2})).to_vector(), (Values{11, 22}));
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(CompiledFunction, OverlappingInputsDoNotKeepOthersFromCompiledCode) {
  auto f = compile(write_one_read_other, by_reference());
  Tensor a = counting({3});
  Tensor tail = a.as_strided(std::vector<int64_t>{3}, std::vector<int64_t>{1});
  for (int i = 1; i < 10; ++i) EXPECT_EQ(f(a, tail).to_vector()[2], 2 + i);
  EXPECT_EQ(f.report().entries, 1u);
  EXPECT_EQ(f.report().eager_calls, 9);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(counting({3}), counting({3})).to_vector(), (Values{0, 1, 2}));
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_EQ(f.report().eager_calls, 9);
}

TEST(CompiledFunction, KeptTensorsAreAnError) {
  Tensor kept;
  auto f = compile(
      [&kept](const Tensor& x) {
        kept = x + 1;
        return kept * 2;
      },
      by_reference());
  EXPECT_TRUE(contains(user_error([&] { f(counting({2})); }), "keeps the result of add.Tensor"));
  EXPECT_EQ(kept.numel(), 0);
}

TEST(CompiledFunction, UnknownOptionsAreNamed) {
  EXPECT_TRUE(contains(user_error([] { compile(add_one(), {.options = {{"freezeing", "1"}}}); }), "did you mean \"freezing\""));
  EXPECT_TRUE(contains(user_error([] { compile(add_one(), {.options = {{"recompile_limit", "many"}}}); }), "recompile_limit"));
}

TEST(CompiledFunction, VerifyTraceFindsHiddenState) {
  int counter = 0;
  auto f = compile([&counter](const Tensor& x) { return x + counter++; }, by_reference({.options = {{"verify_trace", "1"}}}));
  f(counting({2}));
  EXPECT_TRUE(contains(user_error([&] { f(counting({2})); }), "takes another path"));
}

TEST(Stances, ChangeWhatCallsDo) {
  auto f = compile(add_one(), by_reference());
  f(counting({2}));
  {
    StanceScope s(Stance::FailOnRecompile);
    f(counting({2}));
    EXPECT_TRUE(contains(user_error([&] { f(counting({3})); }), "input 0: size of dimension 0 was 2, is 3"));
  }
  {
    StanceScope s(Stance::EagerOnRecompile);
    EXPECT_EQ(f(counting({3})).to_vector(), (Values{1, 2, 3}));
  }
  {
    StanceScope s(Stance::ForceEager);
    f(counting({2}));
  }
  auto r = f.report();
  EXPECT_EQ(r.compiles, 1);
  EXPECT_EQ(r.eager_calls, 2);
}

TEST(Reset, CompilesAgain) {
  auto f = compile(add_one(), by_reference());
  f(counting({2}));
  f.reset();
  f(counting({2}));
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_EQ(f.report().cache_hits, 0);
  reset();
  f(counting({2}));
  EXPECT_EQ(f.report().cache_hits, 0);
}

TEST(IsCompiling, OnlyWhileTracing) {
  bool seen = false;
  auto f = compile([&seen](const Tensor& x) { return seen = is_compiling(), x + 1; }, by_reference());
  f(counting({2}));
  EXPECT_TRUE(seen);
  EXPECT_FALSE(is_compiling());
}

TEST(Threads, SameAndDifferentFunctions) {
  auto shared = compile(add_one(), by_reference());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      auto own = compile([i](const Tensor& x) { return x * i; }, by_reference());
      for (int64_t n = 2; n < 22; ++n) {
        Tensor x = counting({n});
        wrong += shared(x).to_vector()[1] != 2;
        wrong += own(x).to_vector()[1] != i;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(shared.report().calls, 320);
  EXPECT_LE(shared.report().compiles, 8);
}

}  // namespace
}  // namespace toroid
