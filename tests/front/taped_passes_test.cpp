// Remembered calls of compiled functions: two programs, what passes between them, and whose memory that is.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "errors.h"
#include "front/backend.h"
#include "front/harness.h"
#include "graph/graph.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/device_memory.h"
#include "toroid/grad.h"
#include "toroid/random.h"

namespace toroid::taped_passes {
namespace {

using test::contains;
using test::user_error;
using Values = std::vector<double>;

// A backend that compiles nothing, and notes what it is given and what runs.
struct Programs {
  struct One {
    std::string name;
    std::map<std::string, int> operations;
    int runs = 0;
  };
  std::mutex mutex;
  std::vector<One> all;  // in the order in which they were compiled

  explicit Programs(const std::string& backend) {
    front::register_backend(backend, [this](std::unique_ptr<graph::Graph> g, const front::BackendOptions& options) -> front::Program {
      One one{g->name, {}, 0};
      for (auto& n : g->nodes) ++one.operations[n->op->schema.name];
      std::lock_guard lock(mutex);
      const size_t number = all.size();
      all.push_back(std::move(one));
      return [this, number, program = front::find_backend("reference")(std::move(g), options)](std::span<const Tensor> inputs) {
        std::lock_guard running(mutex);
        ++all[number].runs;
        return program(inputs);
      };
    });
  }
};

Tensor line(int64_t n, double scale = 1) { return (arange(n) + 1.0) * scale; }

TEST(TapedPasses, TheForwardPassRunsOnce) {
  Programs programs("notes_1");
  const Tensor x = reshape(line(8, 0.1), {2, 4});
  std::vector<Tensor> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(reshape(line(16, 0.01 * (i + 1)), {4, 4}).requires_grad_());
  auto f = compile(
      [&](const Tensor& in) {
        Tensor y = in;
        for (auto& w : weights) y = tanh(matmul(y, w));
        return sum(y);
      },
      {.fullgraph = true, .options = {{"backend", "notes_1"}}});
  no_grad([&] { f(x); });
  ASSERT_EQ(programs.all.size(), 1u) << "where no gradients are wanted, there is one program";
  const Tensor loss = f(x);
  ASSERT_EQ(programs.all.size(), 2u) << "the backward pass is compiled when it is asked for";
  EXPECT_EQ(programs.all[1].operations["mm"], 3);
  EXPECT_EQ(programs.all[1].operations["tanh"], 3);
  loss.backward();
  ASSERT_EQ(programs.all.size(), 3u);
  EXPECT_EQ(programs.all[2].operations["mm"], 5) << "of each weight, and of the inputs of the last two layers";
  EXPECT_EQ(programs.all[2].operations["tanh"], 0);
  f(x).backward();
  EXPECT_EQ(programs.all.size(), 3u);
  EXPECT_EQ(programs.all[0].runs, 1);
  EXPECT_EQ(programs.all[1].runs, 2);
  EXPECT_EQ(programs.all[2].runs, 2);
}

TEST(TapedPasses, EachSetOfInputsHasItsOwn) {
  Programs programs("notes_2");
  const Tensor a = line(3), b = line(3, 2);
  auto f = compile([](const Tensor& x, const Tensor& y) { return sum(exp(x * 0.1) * y); }, {.options = {{"backend", "notes_2"}}});
  for (const bool of_a : {true, false, true}) {
    const Tensor x = of_a ? clone(a).requires_grad_() : a, y = of_a ? b : clone(b).requires_grad_();
    f(x, y).backward();
    const Values got = (of_a ? x : y).grad().to_vector();
    const Values expected = (of_a ? exp(a * 0.1) * b * 0.1 : exp(a * 0.1)).to_vector();
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  }
  EXPECT_EQ(programs.all.size(), 4u) << "two passes each";
}

// Layers whose values are larger than what is kept without a question.
struct Layers {
  static constexpr int64_t kRows = 1024, kColumns = 384;
  std::vector<Tensor> weights;
  Tensor x;
  Layers() {
    manual_seed(3);
    for (int i = 0; i < 3; ++i) weights.push_back((randn({kColumns, kColumns}) * 0.05).requires_grad_());
    x = randn({kRows, kColumns});
  }
  template <class Around>
  Tensor loss(const Around& around) const {
    Tensor y = x;
    for (auto& w : weights) y = around([&] { return dropout(gelu(matmul(y, w)), 0.25, true) + y; });
    return mean(y * y);
  }
  std::vector<Values> gradients() const {
    std::vector<Values> out;
    for (auto& w : weights) {
      out.push_back(w.grad().to_vector());
      w.zero_grad();
    }
    return out;
  }
  template <class F>
  std::vector<Values> after(const F& f) const {
    manual_seed(11);
    const Tensor loss = f();
    loss.backward();
    auto out = gradients();
    out.push_back({loss.item()});
    return out;
  }
};

void expect_near(const std::vector<Values>& a, const std::vector<Values>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k)
      ASSERT_NEAR(a[i][k], b[i][k], 1e-5 + 1e-3 * std::abs(b[i][k])) << what << ", " << i << ", " << k;
}

constexpr auto kPlain = [](const auto& layer) { return layer(); };
constexpr auto kCheckpoint = [](const auto& layer) { return checkpoint(layer); };

// The megabytes that a report says are saved.
double saved(const CompileReport& r) {
  EXPECT_EQ(r.saved.size(), 1u);
  const size_t at = r.saved.at(0).find(" MB saved");
  return at == std::string::npos ? -1 : std::stod(r.saved[0].substr(r.saved[0].rfind(' ', at - 1) + 1));
}

TEST(TapedPasses, BudgetsAndCheckpoints) {
  const Layers layers;
  const auto expected = layers.after([&] { return layers.loss(kPlain); });
  std::map<std::string, double> megabytes;
  for (const char* budget : {"off", "1", "0.5", "0", "6MB"})
    for (const bool checkpoints : {false, true}) {
      const std::string what = std::string(budget) + (checkpoints ? " with checkpoints" : "");
      auto f = compile([&](const Tensor&) { return checkpoints ? layers.loss(kCheckpoint) : layers.loss(kPlain); },
                       {.fullgraph = true, .options = {{"activation_memory_budget", budget}}});
      expect_near(layers.after([&] { return f(layers.x); }), expected, what);
      megabytes[what] = saved(f.report());
      EXPECT_TRUE(contains(f.report().saved[0], "gradients by inputs")) << f.report().saved[0];
    }
  EXPECT_GE(megabytes["off"], megabytes["1"]);
  EXPECT_GT(megabytes["1"], megabytes["0.5"]);
  EXPECT_GT(megabytes["0.5"], megabytes["0"]);
  EXPECT_LE(megabytes["6MB"], 6);
  EXPECT_LT(megabytes["1 with checkpoints"], megabytes["1"]);
}

TEST(TapedPasses, ACapThatCannotBeKept) {
  const Tensor x = line(8).requires_grad_();
  auto f = compile([](const Tensor& t) { return exp(checkpoint([&] { return t * 2; })) * t; },
                   test::by_reference({.options = {{"activation_memory_budget", "1B"}}}));
  const Tensor y = sum(f(x));
  const std::string error = user_error([&] { y.backward(); });
  EXPECT_TRUE(contains(error, "activation_memory_budget: function saves")) << error;
}

TEST(TapedPasses, RandomNumbersAreThoseOfEagerCalls) {
  const auto body = [](const Tensor& t) { return dropout(t * 3, 0.5, true) + rand({200, 300}) * t; };
  const Tensor x = ones({200, 300}).requires_grad_();
  const auto run = [&](const auto& f) {
    manual_seed(5);
    std::vector<Values> out;
    for (int i = 0; i < 2; ++i) {
      const Tensor y = f(x);
      sum(y).backward();
      out.push_back(y.to_vector());
      out.push_back(x.grad().to_vector());
      x.zero_grad();
    }
    return out;
  };
  const auto expected = run(body);
  for (const char* budget : {"off", "1", "0"}) {
    auto f = compile(body, {.fullgraph = true, .options = {{"activation_memory_budget", budget}}});
    EXPECT_TRUE(run(f) == expected) << budget;
    EXPECT_EQ(f.report().eager_calls, 0);
  }
}

TEST(TapedPasses, SizesOfTheCall) {
  auto f = compile([](const Tensor& t) { return tanh(sum(t * 2, 0) + mean(t)) * static_cast<double>(2); }, {.dynamic = true});
  const std::vector<int64_t> rows{3, 7, 4};
  for (const bool backwards : {false, true}) {
    std::vector<Tensor> x, y;
    for (int64_t n : rows) {
      x.push_back((reshape(line(n * 5, 0.01), std::vector<SymInt>{n, 5})).detach().requires_grad_());
      y.push_back(sum(f(x.back())));
    }
    for (size_t i = 0; i < rows.size(); ++i) y[backwards ? rows.size() - 1 - i : i].backward();
    for (auto& t : x) {
      const Tensor plain = t.detach();
      const auto expected = value_and_gradients([&] { return sum(tanh(sum(plain * 2, 0) + mean(plain)) * 2.0); }, {plain}).second[0];
      expect_near({t.grad().to_vector()}, {expected.to_vector()}, "sizes");
    }
  }
  EXPECT_EQ(f.report().compiles, 1);
}

TEST(TapedPasses, WhatIsWrittenIsItsOwn) {
  const auto body = [](const Tensor& t, const Tensor& state) {
    const Tensor y = exp(state * t);
    copy_(state, y);  // read by the gradient of exp
    return y * 2;
  };
  auto f = compile(body, test::by_reference({.fullgraph = true}));
  const Tensor x = line(3, 0.5).requires_grad_(), state = line(3, 0.25);
  const Values expected = (exp(state * x.detach()) * 2 * state).to_vector();
  const Tensor y = f(x, state);
  no_grad([&] { mul_(state, 0); });
  sum(y).backward();
  expect_near({x.grad().to_vector()}, {expected}, "a state that is written twice");
}

TEST(TapedPasses, WrittenAfterTheCall) {
  auto f = compile([](const Tensor& t, const Tensor& w) { return tanh(t * w); }, test::by_reference({.name = "model"}));
  const Tensor x = line(3).requires_grad_(), w = line(3);
  const Tensor y = f(x, w);
  mul_(w, 2);
  std::string error = user_error([&] { sum(y).backward(); });
  EXPECT_TRUE(contains(error, "the compiled function \"model\"") && contains(error, "its input 1 was written in place")) << error;
  const Tensor z = f(x, w);
  no_grad([&] { mul_(z, 2); });
  error = user_error([&] { sum(z).backward(); });
  EXPECT_TRUE(contains(error, "its result 0 was written in place")) << error;
  const Tensor u = sum(f(x, w));
  u.backward();
  error = user_error([&] { u.backward(); });
  EXPECT_TRUE(contains(error, "a second time")) << error;
}

TEST(TapedPasses, ResultsOfAllKinds) {
  auto f = compile(
      [](const Tensor& t, const Tensor& other) {
        return std::vector<Tensor>{argmax(t, 0), t, t * t, other * 2, t.detach() * 2, select(t * 3, 0, 1), t * t};
      },
      test::by_reference({.fullgraph = true}));
  const Tensor x = line(3).requires_grad_();
  const auto r = f(x, line(3, 5));
  EXPECT_EQ(r[0].item(), 2);
  EXPECT_FALSE(r[0].requires_grad());
  (sum(r[1]) + sum(r[2]) * 10 + sum(r[3]) + sum(r[4]) * 1000 + r[5] * 100 + sum(r[6])).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{1 + 22, 1 + 44 + 300, 1 + 66}));
}

// How much more memory backward() takes than was taken before, the first time that its program runs.
int64_t peak_of_backward(bool retain) {
  const Layers layers;
  auto f = compile([&](const Tensor&) { return layers.loss(kPlain); }, {.fullgraph = true});
  const Device cpu = Device::cpu();
  const Tensor loss = f(layers.x);
  const size_t before = memory_stats(cpu).allocated;
  reset_peak_memory_stats(cpu);
  loss.backward({}, retain);
  const auto peak = static_cast<int64_t>(memory_stats(cpu).peak - before);
  if (retain) {  // what was saved is as it was
    const auto first = layers.gradients();
    loss.backward();
    EXPECT_TRUE(layers.gradients() == first);
  }
  return peak;
}

TEST(TapedPasses, WhatWasSavedIsWrittenOver) {
  const int64_t given_up = peak_of_backward(false), kept = peak_of_backward(true);
  const int64_t value = Layers::kRows * Layers::kColumns * 4;
  std::printf("peak of backward(): %.2f MB, %.2f MB where what is saved stays\n", static_cast<double>(given_up) / 1e6,
              static_cast<double>(kept) / 1e6);
  EXPECT_LT(given_up, kept - value);
}

TEST(TapedPasses, WhatCallersKeepIsNotWrittenOver) {
  const auto body = [](const Tensor& t) {
    const Tensor a = tanh(t), b = exp(a);
    return std::vector<Tensor>{a, b * b, b};
  };
  auto f = compile(body, {.fullgraph = true});
  const Tensor x = line(5000, 1e-3).requires_grad_();
  const auto r = f(x);
  std::vector<Values> before;
  for (auto& t : r) before.push_back(t.to_vector());
  const Tensor loss = sum(r[0] * r[1]) + sum(r[2]);
  loss.backward({}, true);
  const Values first = x.grad().to_vector();
  x.zero_grad();
  loss.backward();
  EXPECT_EQ(x.grad().to_vector(), first);
  for (size_t i = 0; i < r.size(); ++i) EXPECT_EQ(r[i].to_vector(), before[i]);
  EXPECT_EQ(x.to_vector(), line(5000, 1e-3).to_vector());
}

// Calls that are alive while others run, recorded and replayed: what they gave and saved stays.
class Replayed : public testing::TestWithParam<const char*> {};

TEST_P(Replayed, CallsThatAreAlive) {
  const auto body = [](const Tensor& t, const Tensor& w) { return dropout(tanh(matmul(t, w)), 0.5, true) * sum(w); };
  const std::map<std::string, std::string> options{{"capture_results", GetParam()}};
  auto f = compile(body, {.mode = Mode::ReduceOverhead, .fullgraph = true, .options = options});
  const Tensor w = reshape(line(64 * 64, 1e-4), {64, 64}).requires_grad_();
  const auto step = [&](const auto& fn, int order) {
    std::vector<Tensor> x, losses;
    std::vector<Values> out;
    for (int i = 0; i < 3; ++i) {
      x.push_back(reshape(line(32 * 64, 1e-3 * (i + 1)), {32, 64}).requires_grad_());
      losses.push_back(sum(fn(x.back(), w)));
    }
    for (int i = 0; i < 3; ++i) losses[static_cast<size_t>((i * (order + 1) + order) % 3)].backward({}, true);
    for (auto& t : x) out.push_back(t.grad().defined() ? t.grad().to_vector() : Values{});
    out.push_back(w.grad().to_vector());
    w.zero_grad();
    return out;
  };
  for (int order = 0; order < 6; ++order) {
    manual_seed(order);
    const auto expected = step(body, order % 2);
    manual_seed(order);
    expect_near(step(f, order % 2), expected, fmt::format("step {}", order));
  }
  EXPECT_EQ(f.report().eager_calls, 0);
}

TEST_P(Replayed, StepsThatInterleave) {
  const auto body = [](const Tensor& t) { return exp(t * t) * t; };
  auto f = compile(body, {.mode = Mode::ReduceOverhead, .options = {{"capture_results", GetParam()}}});
  std::vector<Tensor> x, y;
  for (int i = 0; i < 12; ++i) {
    x.push_back(line(1000, 1e-4 * (i + 1)).requires_grad_());
    y.push_back(sum(f(x.back()) * 2));
    if (i < 3) continue;
    y[static_cast<size_t>(i - 3)].backward();  // of the call three steps before
    const Tensor of = x[static_cast<size_t>(i - 3)], plain = of.detach();
    const auto expected = value_and_gradients([&] { return sum(body(plain) * 2); }, {plain}).second[0];
    expect_near({of.grad().to_vector()}, {expected.to_vector()}, fmt::format("step {}", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Results, Replayed, testing::Values("own", "pool", "pool-clone"),
                         [](auto& p) { return p.param == std::string("pool-clone") ? std::string("clone") : std::string(p.param); });

TEST(TapedPasses, ExplainTellsWhatIsSaved) {
  const Tensor x = line(4).requires_grad_();
  const auto body = [](const Tensor& t) { return exp(t) * 2; };
  const Explanation e = explain(body, x);
  ASSERT_EQ(e.saved.size(), 1u);
  EXPECT_TRUE(contains(to_string(e), "%exp: f32[4] (") && contains(to_string(e), "taped_passes_test.cpp")) << to_string(e);
  EXPECT_TRUE(explain(body, x.detach()).saved.empty());
}

}  // namespace
}  // namespace toroid::taped_passes
