#include "sched/share.h"

#include <algorithm>

#include "base/mutants.h"

namespace toroid::sched {
namespace {

using program::Node;

constexpr size_t kMaxNests = 8, kMaxBuffers = 32;

bool has_independent_points(const Node& n) {
  if (!n.is_loop() || loop::has_reduction(n.domain)) return false;
  for (auto& s : n.body.steps) {
    if (s.step != loop::Step::Store) continue;
    bool scattered = s.mode != loop::StoreMode::Set;
    sym::for_each_symbol(s.index, [&](const Expr& e) { scattered = scattered || loop::step_of_symbol(*e.node()) >= 0; });
    if (scattered) return false;
  }
  return true;
}

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
}

bool may_share(const Node& a, const Node& b) {
  if (!has_independent_points(a) || !has_independent_points(b) || a.beside.size() + 2 > kMaxNests) return false;
  const std::vector<int> reads_a = program::reads(a), writes_a = program::writes(a), reads_b = program::reads(b),
                         writes_b = program::writes(b);
  if (reads_a.size() + writes_a.size() + reads_b.size() + writes_b.size() > kMaxBuffers) return false;
  if (mutant(Mutant::SharedTooMuch)) return true;
  return !overlap(writes_a, reads_b) && !overlap(writes_a, writes_b) && !overlap(reads_a, writes_b);
}

}  // namespace

program::Program share_launches(program::Program p) {
  std::vector<Node> nodes;
  for (Node& n : p.nodes) {
    if (!nodes.empty() && program::may_join(p, nodes.back(), n) && may_share(nodes.back(), n)) {
      nodes.back().beside.push_back({std::move(n.domain), std::move(n.body)});
      program::take_over(nodes.back(), n);
    } else {
      nodes.push_back(std::move(n));
    }
  }
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace toroid::sched
