// Paths among nodes that are joined, against a search of the whole graph.
#include "sched/joined_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "samples.h"

namespace toroid::sched {
namespace {

// The same graph without an order.
class Plain {
 public:
  explicit Plain(size_t count) : after_(count) {}
  void add_edge(size_t from, size_t to) { after_[from].insert(to); }
  bool is_edge(size_t from, size_t to) const { return after_[from].count(to) > 0; }
  bool reaches_by_another(size_t from, size_t to) const {
    std::set<size_t> seen;
    for (size_t n : after_[from])
      if (n != to) visit(n, seen);
    return seen.count(to) > 0;
  }
  void join(size_t kept, size_t gone) {
    for (auto& list : after_)
      if (list.erase(gone)) list.insert(kept);
    after_[kept].insert(after_[gone].begin(), after_[gone].end());
    after_[kept].erase(kept);
    after_[gone].clear();
  }

 private:
  void visit(size_t n, std::set<size_t>& seen) const {
    if (!seen.insert(n).second) return;
    for (size_t next : after_[n]) visit(next, seen);
  }
  std::vector<std::set<size_t>> after_;
};

TEST(JoinedOrder, FindsThePathsOfRandomHistories) {
  size_t joined = 0, paths = 0;
  for (uint32_t seed = 1; seed <= test::samples(300u); ++seed) {
    std::mt19937 random(seed);
    const size_t count = 2 + random() % 24;
    JoinedOrder order(count);
    Plain plain(count);
    for (size_t to = 1; to < count; ++to)
      for (size_t from = 0; from < to; ++from)
        if (random() % 6 == 0) order.add_edge(from, to), plain.add_edge(from, to);
    std::vector<size_t> left(count);
    for (size_t i = 0; i < count; ++i) left[i] = i;
    while (left.size() > 1) {
      const size_t a = left[random() % left.size()], b = left[random() % left.size()];
      if (a == b || plain.reaches_by_another(a, b) || plain.reaches_by_another(b, a)) {
        if (a != b && random() % 8 == 0) std::erase(left, b);  // it stays in the graph
        continue;
      }
      order.join(a, b);
      plain.join(a, b);
      ++joined;
      std::erase(left, b);
      for (size_t x = 0; x < count; ++x)
        for (size_t y = 0; y < count; ++y) {
          if (x == y) continue;
          const bool reaches = plain.reaches_by_another(x, y);
          paths += reaches;
          ASSERT_EQ(order.reaches_by_another(x, y), reaches) << "seed " << seed << ": " << x << " to " << y;
          ASSERT_EQ(order.is_edge(x, y), plain.is_edge(x, y)) << "seed " << seed << ": " << x << " to " << y;
          const auto& before = order.before(y);
          ASSERT_EQ(std::count(before.begin(), before.end(), x), plain.is_edge(x, y)) << "seed " << seed << ": " << x << " to " << y;
        }
    }
  }
  EXPECT_GT(joined, test::samples(1000u));
  EXPECT_GT(paths, test::samples(10000u));
}

}  // namespace
}  // namespace toroid::sched
