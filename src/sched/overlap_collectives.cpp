#include "sched/overlap_collectives.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace toroid::sched {
namespace {

constexpr size_t kNone = std::numeric_limits<size_t>::max();

// Nodes that come after others: what reads what those write, and writes what they touch; calls one after the other.
class Order {
 public:
  explicit Order(const program::Program& p) : nodes_(p.nodes), after_(p.nodes.size()), waits_(p.nodes.size(), 0), wanted_(p.nodes.size()) {
    std::vector<size_t> writer(p.buffers.size(), kNone);
    std::vector<std::vector<size_t>> readers(p.buffers.size());
    size_t call = kNone;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::set<size_t> before;
      const auto add = [&](size_t n) {
        if (n != kNone && n != i) before.insert(n);
      };
      for (int b : program::reads(nodes_[i])) add(writer[static_cast<size_t>(b)]);
      for (int b : program::writes(nodes_[i])) {
        add(writer[static_cast<size_t>(b)]);
        for (const size_t r : readers[static_cast<size_t>(b)]) add(r);
      }
      if (nodes_[i].is_call() || program::meets(nodes_[i])) add(std::exchange(call, i));
      for (int b : program::writes(nodes_[i])) writer[static_cast<size_t>(b)] = i, readers[static_cast<size_t>(b)].clear();
      for (int b : program::reads(nodes_[i])) readers[static_cast<size_t>(b)].push_back(i);
      for (const size_t n : before) after_[n].push_back(i);
      waits_[i] = before.size();
    }
    // The first collective that needs a node.
    for (size_t i = nodes_.size(); i-- > 0;) {
      wanted_[i] = nodes_[i].is_collective() ? i : kNone;
      for (const size_t n : after_[i]) wanted_[i] = std::min(wanted_[i], wanted_[n]);
      if (nodes_[i].is_collective()) collectives_.insert(i);
    }
  }

  std::vector<size_t> make() {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (waits_[i] == 0) ready_.insert(i);
    while (!ready_.empty()) take(next());
    return std::move(out_);
  }

 private:
  // Whether it reads what a collective gives that may still be under way.
  bool is_held(size_t i) const { return held_.count(i) > 0; }

  size_t next() const {
    const size_t collective = collectives_.empty() ? kNone : *collectives_.begin();
    if (ready_.count(collective)) return collective;
    size_t wanted = kNone, free = kNone;
    for (const size_t i : ready_) {
      if (is_held(i)) continue;
      if (wanted == kNone && wanted_[i] == collective && collective != kNone) wanted = i;
      if (free == kNone) free = i;
    }
    if (wanted != kNone) return wanted;
    // What comes behind the next collective would keep that waiting.
    if (free != kNone && (collective == kNone || free < collective)) return free;
    return *ready_.begin();
  }

  void take(size_t i) {
    ready_.erase(i);
    out_.push_back(i);
    // Whoever waits for one collective waits for those before it, too.
    if (const auto at = held_.find(i); at != held_.end()) std::erase_if(held_, [last = at->second](auto& h) { return h.second <= last; });
    collectives_.erase(i);
    for (const size_t n : after_[i]) {
      // The next call comes behind this one in any case.
      const bool reads = nodes_[i].is_collective() && !(nodes_[n].is_collective() && !touches(i, n));
      if (reads) held_[n] = i;
      if (--waits_[n] == 0) ready_.insert(n);
    }
  }

  bool touches(size_t collective, size_t other) const {
    const auto in = program::reads(nodes_[collective]), out = program::writes(nodes_[collective]);
    const auto has = [](const std::vector<int>& list, int b) { return std::find(list.begin(), list.end(), b) != list.end(); };
    const auto read = program::reads(nodes_[other]), written = program::writes(nodes_[other]);
    return std::any_of(read.begin(), read.end(), [&](int b) { return has(out, b); }) ||
           std::any_of(written.begin(), written.end(), [&](int b) { return has(in, b) || has(out, b); });
  }

  const std::vector<program::Node>& nodes_;
  std::vector<std::vector<size_t>> after_;
  std::vector<size_t> waits_;
  std::vector<size_t> wanted_;
  std::set<size_t> ready_, collectives_;
  std::map<size_t, size_t> held_;  // with the last such collective
  std::vector<size_t> out_;
};

}  // namespace

bool overlap_collectives(program::Program& p) {
  if (std::none_of(p.nodes.begin(), p.nodes.end(), [](auto& n) { return n.is_collective(); })) return false;
  const auto order = Order(p).make();
  if (std::is_sorted(order.begin(), order.end())) return false;
  std::vector<program::Node> nodes;
  nodes.reserve(order.size());
  for (const size_t i : order) nodes.push_back(std::move(p.nodes[i]));
  p.nodes = std::move(nodes);
  return true;
}

}  // namespace toroid::sched
