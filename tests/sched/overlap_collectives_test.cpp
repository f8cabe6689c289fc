// Where collectives come among the nodes of a program.
#include "sched/overlap_collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "program/parse.h"

namespace toroid::sched {
namespace {

using program::Program;

// A node that makes buffer `to` of buffers `from`; a collective has one of these.
struct Step {
  std::vector<int> from;
  int to;
  bool meets = false;
};

// Buffer 0 is the input, the last one the result.
Program program_of(const std::vector<Step>& steps, int buffers) {
  std::string text = "program \"p\" {\nbuffer %0 \"x\": f32[64] input\n";
  for (int b = 1; b < buffers; ++b)
    text += fmt::format("buffer %{} \"b{}\": f32[64] {}\n", b, b, b + 1 == buffers ? "output" : "temporary");
  text += fmt::format("in %0 user \"x\": f32[64]\nout %{}: f32[64]\n", buffers - 1);
  for (size_t i = 0; i < steps.size(); ++i) {
    text += fmt::format("loops parts [{}] # \"n{}\"\nloop (i0: 64) {{\n", i, i);
    for (size_t k = 0; k < steps[i].from.size(); ++k) text += fmt::format("v{}: f32 = load %{} [i0]\n", k, steps[i].from[k]);
    text += fmt::format("store %{} [i0] v0\n}}\n", steps[i].to);
  }
  Program p = program::parse(text + "}\n");
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].meets) continue;
    program::Collective c;
    c.group = "world", c.count = 64;
    c.input = {steps[i].from[0], DType::F32, 0, {1}}, c.output = {steps[i].to, DType::F32, 0, {1}};
    p.nodes[i].problem = std::move(c);
    p.nodes[i].domain = {}, p.nodes[i].body = {};
  }
  return p;
}

std::vector<int> order_of(const std::vector<Step>& steps, int buffers) {
  Program p = program_of(steps, buffers);
  overlap_collectives(p);
  std::vector<int> out;
  for (auto& n : p.nodes) out.push_back(n.parts.at(0));
  return out;
}
using Order = std::vector<int>;

TEST(OverlapCollectives, BeginEarlyAndAreReadLate) {
  // 1 sums 0; 3 and 4 need neither.
  EXPECT_EQ(order_of({{{0}, 1}, {{1}, 2, true}, {{2}, 3}, {{0}, 4}, {{4}, 5}, {{3, 5}, 6}}, 7), (Order{0, 1, 3, 4, 2, 5}));
  // What the collective does not need comes behind it.
  EXPECT_EQ(order_of({{{0}, 1}, {{0}, 2}, {{2}, 3, true}, {{1, 3}, 4}}, 5), (Order{1, 2, 0, 3}));
  // Without one the order stays.
  EXPECT_EQ(order_of({{{0}, 1}, {{0}, 2}, {{1, 2}, 3}}, 4), (Order{0, 1, 2}));
}

TEST(OverlapCollectives, DoNotKeepTheNextOneWaiting) {
  // A chain of two, and work at the end (4): it goes beside the second, as what leads to that would wait for it.
  EXPECT_EQ(order_of({{{0}, 1, true}, {{1}, 2}, {{2}, 3, true}, {{3}, 4}, {{0}, 5}, {{4, 5}, 6}}, 7), (Order{0, 1, 2, 4, 3, 5}));
  // Gradients: each sum begins when its own is there, and all are read at the end.
  EXPECT_EQ(
      order_of({{{0}, 1}, {{1}, 2}, {{2}, 3}, {{1}, 4, true}, {{4}, 7}, {{2}, 5, true}, {{5}, 8}, {{3}, 6, true}, {{6, 7, 8}, 9}}, 10),
      (Order{0, 3, 1, 5, 2, 7, 4, 6, 8}));
}

TEST(OverlapCollectives, RespectWhatIsWrittenOver) {
  // 3 writes what the collective reads; 4 reads what 5 writes over.
  EXPECT_EQ(order_of({{{0}, 1}, {{1}, 2, true}, {{0}, 1}, {{1, 2}, 3}}, 4), (Order{0, 1, 2, 3}));
  EXPECT_EQ(order_of({{{0}, 1}, {{1}, 2, true}, {{2}, 3}, {{0}, 4}, {{4}, 3}, {{3}, 5}}, 6), (Order{0, 1, 3, 2, 4, 5}));
}

// Each node finds in its buffers what those found that ran in the order that was written, and collectives stay in theirs.
TEST(OverlapCollectives, AnyProgramComputesWhatItDid) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 draw(seed);
    const int buffers = 3 + static_cast<int>(draw() % 8);
    std::vector<Step> steps;
    for (int i = 0; i < 20; ++i) {
      Step s{{static_cast<int>(draw() % static_cast<unsigned>(buffers))},
             1 + static_cast<int>(draw() % static_cast<unsigned>(buffers - 1)),
             draw() % 4 == 0};
      if (s.meets && s.from[0] == s.to) s.from[0] = 0;
      if (!s.meets && draw() % 2) s.from.push_back(static_cast<int>(draw() % static_cast<unsigned>(buffers)));
      steps.push_back(s);
    }
    // Which writer each read of each node sees, and which ones are left at the end.
    const auto seen = [&](const Order& order) {
      std::vector<int> writer(static_cast<size_t>(buffers), -1);
      std::vector<std::vector<int>> out(steps.size() + 1);
      for (int i : order) {
        const Step& s = steps[static_cast<size_t>(i)];
        for (int b : s.from) out[static_cast<size_t>(i)].push_back(writer[static_cast<size_t>(b)]);
        writer[static_cast<size_t>(s.to)] = i;
      }
      out.back() = writer;
      return out;
    };
    Order written, meets;
    for (int i = 0; i < static_cast<int>(steps.size()); ++i) written.push_back(i);
    const Order order = order_of(steps, buffers);
    EXPECT_EQ(seen(order), seen(written)) << "seed " << seed;
    for (int i : order)
      if (steps[static_cast<size_t>(i)].meets) meets.push_back(i);
    EXPECT_TRUE(std::is_sorted(meets.begin(), meets.end())) << "seed " << seed;
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), steps.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace toroid::sched
