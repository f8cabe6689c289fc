// What compiled functions see of the variables that they capture.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <thread>

#include "errors.h"
#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/control_flow.h"
#include "toroid/grad.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using test::by_reference;
using test::contains;
using test::user_error;

Tensor two(double v) { return Tensor::full(std::vector<int64_t>{2}, v); }

TEST(Captures, AnAssignedTensorIsTakenOverWithoutACompile) {
  for (const char* backend : {"compiled", "reference"}) {
    Tensor b = two(1);
    auto f = compile([&](const Tensor& x) { return x + b; }, {.options = {{"backend", backend}}});
    EXPECT_EQ(f(two(1)).to_vector(), (std::vector<double>{2, 2}));
    b = two(10);
    EXPECT_EQ(f(two(1)).to_vector(), (std::vector<double>{11, 11})) << backend;
    const Tensor old = b;
    b = two(20);
    EXPECT_EQ(f(two(1)).to_vector(), (std::vector<double>{21, 21})) << backend;
    if (backend == std::string("compiled")) {
      EXPECT_EQ(f.report().compiles, 1);
      EXPECT_EQ(f.report().rebinds, 2);
    }
  }
}

TEST(Captures, AnotherTypeIsAnotherCompileWithItsReason) {
  Tensor b = two(1);
  auto f = compile([&](const Tensor& x) { return x + b; });
  f(two(1));
  b = Tensor::full(std::vector<int64_t>{3, 2}, 5);
  EXPECT_EQ(f(two(1)).sizes(), (std::vector<int64_t>{3, 2}));
  b = Tensor::full(std::vector<int64_t>{3, 2}, 5, DType::F64);
  EXPECT_EQ(f(two(1)).dtype(), DType::F64);
  const CompileReport r = f.report();
  EXPECT_EQ(r.compiles, 3);
  ASSERT_EQ(r.recompile_reasons.size(), 2u);
  EXPECT_TRUE(contains(r.recompile_reasons[0], "was f32[2], is f32[3, 2]")) << r.recompile_reasons[0];
  EXPECT_TRUE(contains(r.recompile_reasons[1], "is f64[3, 2]")) << r.recompile_reasons[1];
}

TEST(Captures, FrozenOnesAreCompiledAnew) {
  Tensor b = two(1);
  auto f = compile([&](const Tensor& x) { return x + b; }, {.options = {{"freezing", "1"}}});
  f(two(1));
  b = two(10);
  EXPECT_EQ(f(two(1)).to_vector()[0], 11);
  EXPECT_EQ(f.report().compiles, 2);
}

// Folded, arranged for a product, and as it is: what compiled code holds of frozen tensors follows what operations write to them.
TEST(Captures, FrozenOnesThatAreWrittenAreCompiledAnew) {
  nn::Linear a(3, 80), b(80, 2);
  const auto forward = [&](const Tensor& x) { return b.forward(relu(a.forward(x))) + sum(exp(b.weight)) + a.bias[0] * 2; };
  auto f = compile(forward, {.fullgraph = true, .options = {{"freezing", "1"}}});
  const Tensor x = Tensor::of({.1, .2, .3, .4, .5, .6}, {2, 3});
  const auto expect_now = [&](int64_t compiles) {
    const auto want = forward(x).to_vector(), got = f(x).to_vector();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * std::abs(want[i])) << compiles;
    EXPECT_EQ(f.report().compiles, compiles);
  };
  expect_now(1);
  expect_now(1);
  nn::Linear other_a(3, 80), other_b(80, 2);
  a.load_state(other_a.state()), b.load_state(other_b.state());
  expect_now(2);
  {
    const NoGrad writes;
    Tensor first = a.bias[0];
    first += 1;
  }
  expect_now(3);
  {
    const NoGrad writes;
    copy_(b.weight, b.weight * 0.5);
  }
  expect_now(4);
  expect_now(4);
  EXPECT_TRUE(contains(f.report().recompile_reasons.back(), "(option freezing) have been written")) << f.report().recompile_reasons.back();
}

// What the function itself writes to is not frozen.
TEST(Captures, FrozenOnesBesideACounter) {
  Tensor count = two(0), w = two(3);
  auto f = compile(
      [&](const Tensor& x) {
        count += 1;
        return x * w + count;
      },
      {.options = {{"freezing", "1"}}});
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(f(two(1)).to_vector()[0], 3 + i);
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(Captures, ContainersUndefinedTensorsAndSwapsAreSeen) {
  std::vector<Tensor> list{two(1), two(2)};
  Tensor bias;
  auto f = compile([&](const Tensor& x) {
    Tensor y = x * list[0] - list[1];
    return bias.defined() ? y + bias : y;
  });
  EXPECT_EQ(f(two(10)).to_vector()[0], 8);
  list.reserve(64);
  EXPECT_EQ(f(two(10)).to_vector()[0], 8);
  std::swap(list[0], list[1]);
  EXPECT_EQ(f(two(10)).to_vector()[0], 19);
  bias = two(100);
  EXPECT_EQ(f(two(10)).to_vector()[0], 119);
}

TEST(Captures, ModulesAreFollowed) {
  nn::Linear layer(2, 2);
  nn::Dropout dropout(0.999);
  auto f = compile([&](const Tensor& x) { return dropout.forward(layer.forward(x)); });
  const Tensor x = two(1);
  const auto same = [&] { return f(x).to_vector() == layer.forward(x).to_vector(); };
  EXPECT_TRUE(same());
  layer.load_state({{"weight", Tensor::full(std::vector<int64_t>{2, 2}, 3)}, {"bias", two(1)}});
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{7, 7}));
  EXPECT_EQ(f.report().compiles, 1);
  dropout.train();
  int dropped = 0;
  for (int i = 0; i < 16; ++i) dropped += f(x).to_vector()[0] == 0;
  EXPECT_GT(dropped, 8);
  dropout.eval();
  EXPECT_EQ(f(x).to_vector(), (std::vector<double>{7, 7}));
}

// What becomes of the function's own variables says nothing of what it captures.
TEST(Captures, LocalsAreNotFollowed) {
  const Tensor w = two(1);
  const std::vector<std::pair<const char*, std::function<Tensor()>>> bodies{
      {"assigned in a loop",
       [&] {
         Tensor h = w;
         for (int i = 0; i < 3; ++i) h = h + w;
         return h;
       }},
      {"moved from, assigned and read",
       [&] {
         Tensor a = w + 1;
         Tensor b = a + 0 * a;
         const Tensor c = a + b;
         b = std::move(a);
         a = c * b;
         return a + b;
       }},
      {"swapped",
       [&] {
         Tensor a = w + 1, b = w + 2;
         const Tensor c = a - b;
         std::swap(a, b);
         return c + a * 2 - b;
       }},
      {"in a vector that grows",
       [&] {
         std::vector<Tensor> all{w};
         for (int i = 0; i < 5; ++i) all.push_back(all.back() + all.front());
         all.erase(all.begin() + 1);
         return all[1] + all.back();
       }},
      {"of a struct that is assigned",
       [&] {
         struct State {
           Tensor h, c;
         } state{w, w};
         for (int i = 0; i < 3; ++i) state = State{state.h + state.c, state.c * 2};
         return state.h + state.c;
       }},
      {"of a gradient",
       [&] {
         auto [value, gradients] = value_and_gradients(
             [&] {
               Tensor h = w;
               for (int i = 0; i < 3; ++i) h = h * w;
               return sum(h);
             },
             {w});
         gradients[0] = gradients[0] + value;
         return gradients[0] * 2;
       }},
  };
  for (auto& [name, body] : bodies) {
    int runs = 0;
    auto f = compile([&] {
      ++runs;
      return body();
    });
    const std::vector<double> first = f().to_vector();
    EXPECT_EQ(f().to_vector(), first) << name;
    EXPECT_EQ(f().to_vector(), body().to_vector()) << name;
    EXPECT_EQ(runs, 1) << name;
  }
}

TEST(Captures, CapturedVariablesThatTheFunctionSwapsAreFollowed) {
  Tensor a = two(1), b = two(2);
  auto f = compile([&](const Tensor& x) {
    const Tensor before = a + x;
    std::swap(a, b);
    return before * 10 + a;
  });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(two(0)).to_vector()[0], i % 2 == 0 ? 12 : 21) << i;
}

TEST(Captures, VerifyTraceSeesAnotherTensorBehindAPointer) {
  const Tensor a = two(1), b = two(10);
  const Tensor* p = &a;
  auto f = compile([&p](const Tensor& x) { return x + *p; }, {.options = {{"verify_trace", "1"}}});
  f(two(1));
  f(two(1));
  p = &b;
  EXPECT_TRUE(contains(user_error([&] { f(two(1)); }), "in the place of a captured one"));
}

// A count that the function keeps, by each way to read it: as the plain function has it.
TEST(Captures, ReadsOfWhatTheFunctionHasWrittenAreOfTheCall) {
  const std::vector<std::pair<std::string, std::function<double(const Tensor&)>>> reads = {
      {"item()", [](const Tensor& t) { return t.item(); }},
      {"item<", [](const Tensor& t) { return static_cast<double>(t.item<int64_t>()); }},
      {"to_vector()", [](const Tensor& t) { return t.to_vector()[0]; }},
      {"data()", [](const Tensor& t) { return static_cast<double>(*t.data<int64_t>()); }}};
  for (auto& [what, read] : reads)
    for (const bool before : {false, true}) {
      Tensor count = zeros({1}, DType::I64);
      const auto fn = [&, &read = read](const Tensor& t) {
        if (before) {
          const double n = read(count);
          add_(count, 1);
          return t * n;
        }
        add_(slice(count, 0, 0, 1), 1);
        const Tensor y = t * read(count);
        add_(count, 10);
        return y + read(count);
      };
      auto f = compile(fn, by_reference());
      std::vector<double> found, expected;
      for (int i = 0; i < 4; ++i) found.push_back(f(ones({1})).item());
      EXPECT_EQ(count.item(), before ? 4 : 44) << what;
      zero_(count);
      for (int i = 0; i < 4; ++i) expected.push_back(fn(ones({1})).item());
      EXPECT_EQ(found, expected) << what << (before ? ", before the write" : "");
      EXPECT_EQ(f.report().eager_calls, 0);
      ASSERT_FALSE(f.report().graph_breaks.empty()) << what;
      EXPECT_TRUE(contains(f.report().graph_breaks[0], before ? "which changes between calls" : "which the function has written"));
    }
}

TEST(Captures, NumbersThatAreReadFromThemAreGuarded) {
  Tensor scale = Tensor::of({2}, {1}), table = zeros({100}), other = scale;
  const auto fn = [&](const Tensor& x) { return x * scale.item() + table.to_vector()[7]; };
  for (const bool fullgraph : {false, true}) {
    auto f = compile(fn, by_reference({.fullgraph = fullgraph}));
    const auto same = [&] { return f(ones({2})).to_vector() == fn(ones({2})).to_vector(); };
    EXPECT_TRUE(same());
    EXPECT_TRUE(same());
    EXPECT_EQ(f.report().cache_hits, 1) << "an unchanged number costs nothing";
    EXPECT_EQ(f.report().compiles, 1);
    fill_(other, 3);  // by another handle
    EXPECT_TRUE(same());
    scale.data<float>()[0] = 4;
    EXPECT_TRUE(same());
    fill_(table, fullgraph ? 1 : 2);
    EXPECT_TRUE(same());
    EXPECT_EQ(f.report().graph_breaks.empty(), fullgraph) << to_string(f.report());
    if (fullgraph) {
      EXPECT_TRUE(contains(f.report().recompile_reasons.at(0), "numbers that the function reads from captured tensors have changed"));
    }
  }
}

TEST(Captures, WrittenOnesAreNotReadWithinAWhole) {
  Tensor count = zeros({1});
  const auto counts = [&](const Tensor& x) {
    add_(count, 1);
    return sum(x * count.item());
  };
  EXPECT_TRUE(contains(user_error([&] { compile(counts, by_reference({.fullgraph = true}))(ones({1})); }), "item() at captures_test.cpp"));
  EXPECT_TRUE(
      contains(user_error([&] { compile(counts, by_reference({.fullgraph = true}))(ones({1})); }), "which the function has written"));
  EXPECT_EQ(count.item(), 0);
  const Tensor x = ones({1});
  EXPECT_TRUE(
      contains(user_error([&] { value_and_gradients([&] { return counts(x); }, {x}); }), "has written; its value is not known yet"));
  const auto by_branch = [&](const Tensor& t) {
    add_(count, 1);
    const auto reads = [&](const Tensor& u) { return u * count.item(); };
    return cond(
        sum(t) > 0, reads, [](const Tensor& u) { return u * 2; }, t);
  };
  EXPECT_TRUE(contains(user_error([&] { compile(by_branch, by_reference())(x); }), "inside of a function that is recorded as a whole"));
}

TEST(Captures, StancesAndTheLimitForbidCompilesAndNoRebinds) {
  Tensor b = two(1);
  auto f = compile([&](const Tensor& x) { return x + b; }, {.options = {{"recompile_limit", "2"}}});
  f(two(1));
  b = two(10);
  set_stance(Stance::FailOnRecompile);
  EXPECT_EQ(f(two(1)).to_vector()[0], 11);
  b = Tensor::full(std::vector<int64_t>{3, 2}, 5);
  EXPECT_TRUE(contains(user_error([&] { f(two(1)); }), "was f32[2], is f32[3, 2]"));
  b = two(20);
  EXPECT_EQ(f(two(1)).to_vector()[0], 21);
  b = Tensor::full(std::vector<int64_t>{3, 2}, 5);
  set_stance(Stance::Default);
  EXPECT_EQ(f(two(1)).sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(f.report().compiles, 2);
  b = Tensor::full(std::vector<int64_t>{4, 2}, 7);
  EXPECT_EQ(f(two(1)).to_vector(), std::vector<double>(8, 8));
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_EQ(f.report().limit_calls, 1);
}

TEST(Captures, ThreadsThatSeeAnAssignmentAtOnce) {
  constexpr int kThreads = 4, kRounds = 24;
  Tensor b;
  auto f = compile([&](const Tensor& x) { return x + b; });
  std::atomic<int> wrong{0};
  std::barrier turn(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        turn.arrive_and_wait();
        const std::vector<double> got = f(two(1)).to_vector();
        wrong += got != std::vector<double>(round % 8 == 7 ? 6 : 2, 1 + round);
        turn.arrive_and_wait();
      }
    });
  for (int round = 0; round < kRounds; ++round) {
    b = round % 8 == 7 ? Tensor::full(std::vector<int64_t>{3, 2}, round) : two(round);
    turn.arrive_and_wait();
    turn.arrive_and_wait();
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace toroid
