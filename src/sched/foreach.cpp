#include "sched/foreach.h"

#include <algorithm>
#include <map>
#include <set>

namespace toroid::sched {
namespace {

using program::Node;
using program::Program;

using Buffers = std::set<int>;

bool meet(const Buffers& a, const Buffers& b) {
  return std::any_of(a.begin(), a.end(), [&](int x) { return b.count(x) > 0; });
}

struct Access {
  Buffers read, written;
  explicit Access(const Node& n) {
    for (int b : program::reads(n)) read.insert(b);
    for (int b : program::writes(n)) written.insert(b);
  }
  void add(const Access& other) {
    read.insert(other.read.begin(), other.read.end());
    written.insert(other.written.begin(), other.written.end());
  }
  bool disturbs(const Access& later) const {
    return meet(written, later.read) || meet(written, later.written) || meet(read, later.written);
  }
};

bool is_input(const Program& p, int b) { return p.buffers[static_cast<size_t>(b)].kind == loop::BufferKind::Input; }

bool writes_an_input(const Program& p, const Access& a) {
  return std::any_of(a.written.begin(), a.written.end(), [&](int b) { return is_input(p, b); });
}

// Inputs that some node writes: the parameters of a step that trains.
Buffers updated_inputs(const Program& p) {
  Buffers out;
  for (auto& n : p.nodes)
    for (int b : program::writes(n))
      if (is_input(p, b)) out.insert(b);
  return out;
}

// Of one buffer to another of fewer bytes: a weight of f32 as bf16.
bool narrows(const Program& p, const Node& n, const Access& a) {
  if (!n.is_loop() || a.read.size() != 1 || a.written.size() != 1) return false;
  auto bytes = [&](int b) { return size_of(p.buffers[static_cast<size_t>(b)].dtype); };
  return bytes(*a.written.begin()) < bytes(*a.read.begin());
}

// A node that others may join.
struct Group {
  size_t at = 0;  // its place among the nodes that are left
  size_t count = 1;
};

}  // namespace

Program join_updates(Program p, const target::Target& target) {
  std::vector<Node> nodes;
  std::vector<Access> accesses;
  std::map<std::string, Group> groups;  // by key, the latest
  const Buffers updated = updated_inputs(p);
  for (Node& n : p.nodes) {
    const Access access(n);
    const bool joins = writes_an_input(p, access) || (narrows(p, n, access) && updated.count(*access.read.begin()) > 0);
    const std::string key = joins ? target.foreach_key(n) : "";
    const auto known = key.empty() ? groups.end() : groups.find(key);
    if (known != groups.end()) {
      Group& g = known->second;
      const bool free =
          std::none_of(accesses.begin() + static_cast<long>(g.at), accesses.end(), [&](auto& a) { return a.disturbs(access); });
      if (free && program::may_join(p, nodes[g.at], n) && target.foreach_takes(n, g.count + 1)) {
        nodes[g.at].beside.push_back({std::move(n.domain), std::move(n.body)});
        program::take_over(nodes[g.at], n);
        accesses[g.at].add(access);
        ++g.count;
        continue;
      }
    }
    if (!key.empty()) groups[key] = {nodes.size(), 1};
    nodes.push_back(std::move(n));
    accesses.push_back(access);
  }
  p.nodes = std::move(nodes);
  return p;
}

}  // namespace toroid::sched
