// The index of who reads and writes buffers, against looking at every node.
#include "program/uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace toroid::program {
namespace {

constexpr int kBuffers = 8;

// A loop that adds some buffers into another.
Node drawn_node(std::mt19937& random) {
  Node n;
  const Expr i = sym::loop_symbol("i", 4);
  n.domain.vars.push_back({i, false});
  loop::BodyBuilder b(n.body);
  auto sum = b.load(static_cast<int>(random() % kBuffers), DType::F32, i);
  for (uint32_t more = random() % 3; more > 0; --more) sum = sum + b.load(static_cast<int>(random() % kBuffers), DType::F32, i);
  b.store(static_cast<int>(random() % kBuffers), DType::F32, i, sum);
  return n;
}

std::vector<size_t> nodes_with(const Program& p, const std::vector<bool>& gone, int buffer, std::vector<int> (*of)(const Node&)) {
  std::vector<size_t> out;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto buffers = of(p.nodes[i]);
    if (!gone[i] && std::find(buffers.begin(), buffers.end(), buffer) != buffers.end()) out.push_back(i);
  }
  return out;
}

TEST(Uses, FollowRandomChanges) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    Program p;
    for (int b = 0; b < kBuffers; ++b) p.new_buffer("b", DType::F32, 4, loop::BufferKind::Temporary);
    for (int i = 0; i < 10; ++i) p.nodes.push_back(drawn_node(random));
    std::vector<bool> gone(p.nodes.size(), false);
    Uses uses(p);
    for (int step = 0; step < 20; ++step) {
      const size_t node = random() % p.nodes.size();
      const int from = static_cast<int>(random() % kBuffers), to = static_cast<int>(random() % kBuffers);
      switch (random() % 3) {
        case 0:
          if (!gone[node]) uses.set(node, p.nodes[node] = drawn_node(random));
          break;
        case 1:
          uses.remove(node), gone[node] = true;
          break;
        default:
          if (from != to) uses.renumber(p, from, to);
      }
      for (int b = 0; b < kBuffers; ++b) {
        ASSERT_EQ(uses.readers(b), nodes_with(p, gone, b, reads)) << "seed " << seed << ", step " << step;
        ASSERT_EQ(uses.writers(b), nodes_with(p, gone, b, writes)) << "seed " << seed << ", step " << step;
      }
    }
    const auto left = std::count(gone.begin(), gone.end(), false);
    drop(p, gone);
    EXPECT_EQ(static_cast<int64_t>(p.nodes.size()), left);
  }
}

TEST(Uses, LiesBetween) {
  EXPECT_FALSE(Uses::any_between({1, 4}, 1, 4));
  EXPECT_TRUE(Uses::any_between({1, 4}, 1, 5));
  EXPECT_TRUE(Uses::any_between({1, 4}, 0, 4));
  EXPECT_FALSE(Uses::any_between({}, 0, 9));
}

}  // namespace
}  // namespace toroid::program
