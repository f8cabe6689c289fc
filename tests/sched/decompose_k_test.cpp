// Which products are worth cutting along their sums, and what becomes of those that are.
#include "sched/decompose_k.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loop/node.h"

namespace toroid::sched {
namespace {

// [m, k] x [k, n], rows without gaps.
program::Program product(int64_t m, int64_t n, int64_t k, DType dtype) {
  program::Program p;
  const auto kind = [](int i) { return i < 2 ? loop::BufferKind::Input : loop::BufferKind::Output; };
  const int64_t elements[] = {m * k, k * n, m * n};
  for (int i = 0; i < 3; ++i) p.new_buffer(std::string(1, "abc"[i]), dtype, elements[i], kind(i));
  const loop::Nest nest = loop::parse(fmt::format(
      "loop (j0: {}, j1: {}) {{\n v0: f32 = accumulate\n v1: {} = Cast v0\n store %2 [j0*{} + j1] v1\n}}", m, n, name_of(dtype), n));
  program::Node node;
  node.domain = nest.domain, node.body = nest.body;
  program::Gemm g;
  g.m = m, g.n = n, g.k = k;
  g.a = {0, dtype, 0, {k, 1}}, g.b = {1, dtype, 0, {n, 1}};
  node.problem = g;
  p.nodes.push_back(std::move(node));
  return p;
}

std::vector<int64_t> splits(int64_t m, int64_t n, int64_t k, int processors, int64_t threshold = 32, size_t most = 6) {
  return decompose_k_splits(product(m, n, k, DType::F32).nodes[0], processors, threshold, most);
}

TEST(DecomposeK, IsTriedWhereSumsAreLongAndResultsFew) {
  EXPECT_EQ(splits(32, 32, 8192, 1), (std::vector<int64_t>{2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(splits(32, 32, 8192, 1, 32, 2), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(splits(32, 32, 8192, 1, 32, 0), (std::vector<int64_t>{}));
  EXPECT_EQ(splits(32, 32, 1152, 1), (std::vector<int64_t>{2, 4, 8, 3, 6, 9})) << "powers of two first; parts of 128 steps or more";
  EXPECT_EQ(splits(32, 32, 192, 1), (std::vector<int64_t>{}));
  // 32 times as long as there are rows and as there are columns, or more.
  EXPECT_FALSE(splits(256, 256, 8192, 1).empty());
  EXPECT_TRUE(splits(257, 256, 8192, 1).empty());
  EXPECT_TRUE(splits(256, 257, 8192, 1).empty());
  EXPECT_FALSE(splits(257, 256, 8192, 1, 16).empty());
  EXPECT_TRUE(splits(1024, 2048, 8192, 1).empty());
  EXPECT_FALSE(splits(1024, 2048, 8192, 1, 0).empty()) << "0: always";
  EXPECT_FALSE(splits(1024, 2048, 8192, 132).empty()) << "128 tiles leave some of 132 processors idle";
  EXPECT_TRUE(splits(1024, 2048, 8192, 128).empty());
}

TEST(DecomposeK, PartsAreAddedUpInTheTypeOfSums) {
  program::Program p = product(32, 32, 8192, DType::BF16);
  decompose_k(p, 0, 4);
  ASSERT_EQ(p.nodes.size(), 2u);
  const auto& part = std::get<program::Gemm>(p.nodes[0].problem);
  EXPECT_EQ(part.k.constant(), 2048);
  EXPECT_EQ(part.batch.at(0).constant(), 4);
  const auto& between = p.buffers.at(static_cast<size_t>(loop::buffers_written(p.nodes[0].body).at(0)));
  EXPECT_EQ(between.dtype, DType::F32);
  EXPECT_EQ(between.numel.constant(), 4 * 32 * 32);
  EXPECT_TRUE(p.nodes[1].is_loop());
  EXPECT_EQ(loop::buffers_written(p.nodes[1].body).at(0), 2);
}

}  // namespace
}  // namespace toroid::sched
