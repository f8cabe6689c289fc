// Readers of a template's result over its points: what they store is what they stored by themselves.
#include "sched/over_points.h"

#include <gtest/gtest.h>

#include <numeric>

#include "sched/fuse.h"

namespace toroid::sched {
namespace {

using program::Node;

constexpr int64_t kMost = 256;  // elements of a buffer

Node node_of(const std::string& text) {
  loop::Nest nest = loop::parse(text);
  Node n;
  n.domain = nest.domain, n.body = nest.body;
  return n;
}

// A product that stores %0.
Node product(const std::string& domain, const std::string& place) {
  Node n = node_of("loop (" + domain + ") {\n v0: f32 = accumulate\n store %0 [" + place + "] v0\n}");
  n.problem = program::Gemm{};
  return n;
}

// Adds 1 to what it reads of %0 and what is in %1 at the same place as the result, %2.
Node reader(const std::string& domain, const std::string& read, const std::string& place) {
  return node_of("loop (" + domain + ") {\n v0: f32 = load %0 [" + read + "]\n v1: f32 = load %1 [" + place +
                 "]\n v2: f32 = Add v0 v1\n store %2 [" + place + "] v2\n}");
}

// What a node makes of 0, 1, 2, ... in %0 and of 1000, 1001, ... in %1; -1 where it stores nothing.
std::vector<float> results(const Node& n) {
  std::vector<std::vector<float>> memory(3, std::vector<float>(kMost, -1));
  std::iota(memory[0].begin(), memory[0].end(), 0.0f);
  std::iota(memory[1].begin(), memory[1].end(), 1000.0f);
  std::vector<loop::Buffer> buffers;
  std::vector<std::byte*> places;
  for (int i = 0; i < 3; ++i) {
    buffers.push_back({.id = i, .name = "b", .numel = kMost});
    places.push_back(reinterpret_cast<std::byte*>(memory[static_cast<size_t>(i)].data()));
  }
  loop::interpret(n.domain, n.body, buffers, places, {});
  return memory[2];
}

void expect_same(const Node& a, const Node& b) {
  const auto out = over_points(a, b);
  ASSERT_TRUE(out) << loop::to_string(b.domain, b.body);
  loop::verify(out->domain, out->body, "over_points");
  EXPECT_EQ(loop::to_string(out->domain, {}), loop::to_string(a.domain, {}));
  EXPECT_EQ(results(*out), results(b)) << loop::to_string(out->domain, out->body);
}

const Node line = product("j0: 1, j1: 12, j2: 5", "j1 + 12*j2"), plane = product("j0: 8, j1: 3, j2: 5", "j0 + 40*j1 + 8*j2"),
           frames = product("j0: 6, j1: 4, j2: 7", "28*j0 + j1 + 4*j2");

TEST(OverPoints, MergedPlaces) { expect_same(line, reader("i0: 4, i1: 15", "i0 + 4*i1", "i0 + 4*i1")); }
TEST(OverPoints, CutAtBothEnds) { expect_same(line, reader("i0: 4, i1: 11", "i0 + 4*i1 + 8", "i0 + 4*i1")); }
TEST(OverPoints, AlternatingPhases) {
  const std::string read = "i0 + 40*floordiv(i1, 2) + 8*floordiv(i2, 2) + 4*mod(i1, 2) + 2*mod(i2, 2)";
  expect_same(plane, reader("i0: 2, i1: 6, i2: 10", read, "20*i1 + 2*i2 + i0"));
  expect_same(plane, reader("i0: 2, i1: 6, i2: 10", read, "60*i0 + 10*i1 + i2"));
}
TEST(OverPoints, AlternatingPhasesWithoutTheFirstAndTheLast) {
  expect_same(plane,
              reader("i0: 2, i1: 4, i2: 7", "i0 + 40*floordiv(i1 + 1, 2) + 8*floordiv(i2 + 2, 2) + 4*mod(i1 + 1, 2) + 2*mod(i2 + 2, 2)",
                     "14*i1 + 2*i2 + i0"));
}
TEST(OverPoints, OtherOrders) {
  expect_same(frames, reader("i0: 2, i1: 4, i2: 3, i3: 7", "84*i0 + i1 + 28*i2 + 4*i3", "84*i0 + 28*i2 + 4*i3 + i1"));
}
TEST(OverPoints, AMaskOfTheReadersOwn) {
  Node b = node_of(
      "loop (i0: 4, i1: 11) {\n v0: i64 = index [i1]\n v1: i64 = const 5\n v2: bool = Lt v0 v1\n v3: f32 = load %1 [i0 + 4*i1] if v2\n"
      " v4: f32 = load %0 [i0 + 4*i1 + 4]\n v5: f32 = Add v3 v4\n store %2 [i0 + 4*i1] v5\n}");
  expect_same(line, b);
}

TEST(OverPoints, OthersStayApart) {
  EXPECT_FALSE(over_points(frames, reader("i0: 6, i1: 4, i2: 7", "28*i0 + i1 + 4*i2", "28*i0 + 7*i1 + i2"))) << "another order in memory";
  EXPECT_FALSE(over_points(line, reader("i0: 4, i1: 8", "i0 + 4*i1 + 4*mod(i1, 3)", "i0 + 4*i1"))) << "some elements twice";
  EXPECT_FALSE(over_points(line, reader("i0: 3, i1: 15", "2*i0 + 4*i1", "i0 + 3*i1"))) << "elements apart from each other";
  EXPECT_FALSE(over_points(product("j0: 4, j1: 5", "j0 + 6*j1"), reader("i0: 4, i1: 5", "i0 + 6*i1", "i0 + 4*i1"))) << "gaps";
  EXPECT_FALSE(over_points(line, reader("i0: 4, i1: 15", "i0 + 5*i1", "i0 + 4*i1"))) << "more than there is";
}

// The reader joins the template, whose own result needs no memory any more.
TEST(OverPoints, FusionJoinsThem) {
  program::Program p;
  p.new_buffer("y", DType::F32, kMost, loop::BufferKind::Temporary);
  p.new_buffer("x", DType::F32, kMost, loop::BufferKind::Input);
  p.new_buffer("out", DType::F32, kMost, loop::BufferKind::Output);
  p.nodes = {line, reader("i0: 4, i1: 11", "i0 + 4*i1 + 8", "i0 + 4*i1")};
  std::get<program::Gemm>(p.nodes[0].problem).a.buffer = std::get<program::Gemm>(p.nodes[0].problem).b.buffer = 1;
  p = fuse(std::move(p));
  ASSERT_EQ(p.nodes.size(), 1u);
  EXPECT_EQ(loop::buffers_written(p.nodes[0].body), std::vector<int>{2});
}

}  // namespace
}  // namespace toroid::sched
