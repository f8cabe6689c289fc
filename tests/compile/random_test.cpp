// Random numbers in compiled programs: one stream for all, that a seed repeats.
#include "toroid/random.h"

#include <cmath>
#include <set>
#include <thread>

#include "front/compile_model.h"
#include "front/harness.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "ops/table.h"

namespace toroid {
namespace {

using Values = std::vector<double>;

compiler::CompiledModel compiled(const std::string& text, const ModelOptions& options = {}) {
  return front::compile_model(graph::parse(text), options);
}

constexpr const char* kDropout = R"(graph "g"(%x: f32[64, 100]) {
  %d: f32[64, 100] = dropout(%x, p=0.25, train=true)
  %y: f32[64, 100] = relu(%d)
  return %y
})";

Tensor ones() { return Tensor::full(std::vector<int64_t>{64, 100}, 1); }

TEST(Random, RunsDifferAndTheSeedRepeatsThem) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    auto m = compiled(kDropout, {.mode = mode});
    manual_seed(3);
    Values first = m.run(std::vector{ones()})[0].to_vector(), second = m.run(std::vector{ones()})[0].to_vector();
    Values third = m.run(std::vector{ones()})[0].to_vector();
    EXPECT_NE(first, second);
    EXPECT_NE(second, third);
    EXPECT_EQ(default_generator().state(), (Generator::State{3, 3 * 6400}));
    manual_seed(3);
    EXPECT_EQ(m.run(std::vector{ones()})[0].to_vector(), first);
    EXPECT_EQ(m.run(std::vector{ones()})[0].to_vector(), second);
    auto kept = static_cast<double>(std::count_if(first.begin(), first.end(), [](double v) { return v > 0; }));
    EXPECT_NEAR(kept / 6400, 0.75, 0.03);
  }
}

TEST(Random, DropoutFusesWithItsNeighbours) {
  auto m = compiled(kDropout);
  EXPECT_EQ(m.report().kernels, 1u);
  EXPECT_EQ(m.report().host_calls, 0u);
  auto linear = compiled(R"(graph "g"(%x: f32[64, 128], param %w: f32[96, 128]) {
    %y: f32[64, 96] = linear(%x, %w, bias=none)
    %g: f32[64, 96] = gelu(%y)
    %d: f32[64, 96] = dropout(%g, p=0.5, train=true)
    return %d
  })",
                         {.freeze = false});
  EXPECT_EQ(linear.report().kernels, 1u);
}

TEST(Random, EagerCompiledAndReferenceDrawTheSame) {
  auto f = [](const Tensor& x) {
    Tensor a = dropout(x, 0.5, true);
    dropout(x, 0.1, true);  // nobody reads it, yet it draws
    return ops::call1("randint_like", {dropout(a, 0.25, true), Expr(1000)}) + a;
  };
  Tensor x = ones();
  auto once = [&](auto&& function) {
    manual_seed(11);
    return std::pair(function(x).to_vector(), function(x).to_vector());
  };
  auto eager = once(f);
  EXPECT_NE(eager.first, eager.second);
  EXPECT_EQ(once(compile(f)), eager);
  EXPECT_EQ(once(compile(f, test::by_reference())), eager);
}

TEST(Random, ProgramsShareTheStreamInTheOrderOfCalls) {
  const std::string text = "graph \"g\"() {\n  %u: f32[10] = rand([10])\n  return %u\n}";
  auto a = compiled(text), b = compiled(text);
  manual_seed(5);
  Values all = a.run({})[0].to_vector();
  for (double v : b.run({})[0].to_vector()) all.push_back(v);
  for (double v : ops::call1("rand", {std::vector<Expr>{10}}).to_vector()) all.push_back(v);
  manual_seed(5);
  EXPECT_EQ(ops::call1("rand", {std::vector<Expr>{30}}).to_vector(), all);
}

TEST(Random, EveryDrawIsItsOwn) {
  auto m =
      compiled("graph \"g\"() {\n  %a: f32[50] = rand([50])\n  %b: f32[50] = rand([50])\n  %c: f32[50] = rand([50])\n  return %a, %c\n}");
  manual_seed(1);
  auto out = m.run({});
  EXPECT_NE(out[0].to_vector(), out[1].to_vector());
  EXPECT_EQ(default_generator().state().offset, 150);
}

TEST(Random, ExplicitGraphsPrintParseAndAreInterpreted) {
  auto g = graph::parse(
      "graph \"g\"(%x: f32[s0, 4]) symbols(s0 in 2..inf) {\n  %a: f32[s0, 4] = rand_like(%x)\n"
      "  %b: f32[s0, 4] = rand_like(%x)\n  %y: f32[s0, 4] = sub.Tensor(%a, %b)\n  return %y\n}");
  g = graph::explicit_random(*graph::decompose(*g));
  ASSERT_NE(g, nullptr);
  std::string text = graph::to_string(*g);
  EXPECT_NE(text.find("random(8*s0) %random: i64[2]"), std::string::npos) << text;
  EXPECT_NE(text.find("offset=4*s0"), std::string::npos) << text;
  EXPECT_EQ(graph::to_string(*graph::parse(text)), text);
  EXPECT_EQ(graph::cse(*g), nullptr);
  auto m = compiled(text);
  for (int64_t rows : {3, 17}) {
    Tensor x = Tensor::full(std::vector<int64_t>{rows, 4}, 0);
    manual_seed(2);
    Values reference = graph::interpret(*g, std::vector{x})[0].to_vector();
    manual_seed(2);
    EXPECT_EQ(m.run(std::vector{x})[0].to_vector(), reference);
    EXPECT_EQ(default_generator().state().offset, 8 * rows);
  }
  EXPECT_THROW(graph::parse("graph \"g\"(random(3) %r: f32[2]) {\n  return %r\n}"), UserError);
  EXPECT_THROW(compiled("graph \"g\"(random(3) %r: i64[2]) {\n  %s: i64[2] = add_.Tensor(%r, 1)\n  return\n}"), UserError);
}

TEST(Random, Statistics) {
  auto m = compiled("graph \"g\"() {\n  %u: f32[400000] = rand([400000])\n  %n: f32[400000] = randn([400000])\n  return %u, %n\n}");
  manual_seed(9);
  auto out = m.run({});
  auto moments = [](const Values& v) {
    double mean = 0, square = 0;
    for (double x : v) mean += x / static_cast<double>(v.size());
    for (double x : v) square += (x - mean) * (x - mean) / static_cast<double>(v.size());
    return std::pair(mean, square);
  };
  Values u = out[0].to_vector(), n = out[1].to_vector();
  EXPECT_NEAR(moments(u).first, 0.5, 0.003);
  EXPECT_NEAR(moments(u).second, 1.0 / 12, 0.001);
  EXPECT_GE(*std::min_element(u.begin(), u.end()), 0);
  EXPECT_LT(*std::max_element(u.begin(), u.end()), 1);
  EXPECT_NEAR(moments(n).first, 0, 0.008);
  EXPECT_NEAR(moments(n).second, 1, 0.01);
  for (double x : n) ASSERT_TRUE(std::isfinite(x));
}

TEST(Random, ThreadsGetDifferentNumbers) {
  auto m = compiled("graph \"g\"() {\n  %u: f32[64] = rand([64])\n  return %u\n}", {.mode = Mode::ReduceOverhead});
  manual_seed(4);
  std::vector<std::vector<Values>> got(4);
  std::vector<std::thread> threads;
  for (auto& mine : got)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) mine.push_back(m.run({})[0].to_vector());
    });
  for (auto& t : threads) t.join();
  std::set<Values> different;
  for (auto& mine : got) different.insert(mine.begin(), mine.end());
  EXPECT_EQ(different.size(), 80u);
  EXPECT_EQ(default_generator().state().offset, 80 * 64);
}

// How many numbers a run takes is known to the run alone: they are drawn by calls.
TEST(Random, SizesFromData) {
  auto m = compiled(R"(graph "g"(%x: f32[10]) symbols(u0 unbacked in 0..inf) {
    %b: bool[10] = gt.Scalar(%x, 0.0)
    %y: f32[u0] = masked_select(%x, %b)
    %d: f32[u0] = dropout(%y, p=0.5, train=true)
    return %d
  })");
  manual_seed(4);
  EXPECT_EQ(m.run(std::vector{Tensor::of({1, 2, 0, 0, 0, 0, 0, 0, 0, 3}, {10})})[0].numel(), 3);
  EXPECT_EQ(default_generator().state().offset, 3);
}

TEST(Random, AttentionDropsOut) {
  auto m = compiled(R"(graph "g"(%q: f32[1, 2, 8, 16], %k: f32[1, 2, 8, 16], %v: f32[1, 2, 8, 16]) {
    %y: f32[1, 2, 8, 16] = scaled_dot_product_attention(%q, %k, %v, dropout_p=0.5)
    return %y
  })");
  Tensor t = test::counting({1, 2, 8, 16});
  EXPECT_EQ(m.report().host_calls, 0u);
  EXPECT_NE(m.run(std::vector{t, t, t})[0].to_vector(), m.run(std::vector{t, t, t})[0].to_vector());
}

TEST(Random, StatesAreKeptAndChecked) {
  Generator g(1);
  g.take(10);
  auto state = g.state();
  g.take(5);
  g.set_state(state);
  EXPECT_EQ(g.take(1), (Generator::State{1, 10}));
  EXPECT_THROW(g.take(-1), UserError);
  EXPECT_THROW(g.set_state({0, -1}), UserError);
}

}  // namespace
}  // namespace toroid
