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

// Buffers that hold a weight in another form, as bf16 or transposed.
class Forms {
 public:
  explicit Forms(const Program& p) : p_(p), updated_(updated_inputs(p)) {}
  // Whether a node makes such forms: of an input that is updated, which it narrows, or of another form.
  bool makes(const Node& n, const Access& a) {
    if (!n.is_loop() || a.read.size() != 1) return false;
    const int from = *a.read.begin();
    const bool again = forms_.count(from) > 0;
    const size_t most = bytes(from) - (again ? 0 : 1);
    const bool narrow = std::all_of(a.written.begin(), a.written.end(), [&](int b) { return bytes(b) <= most; });
    if (!narrow || (!again && updated_.count(from) == 0)) return false;
    forms_.insert(a.written.begin(), a.written.end());
    return true;
  }

 private:
  size_t bytes(int b) const { return size_of(p_.buffers[static_cast<size_t>(b)].dtype); }
  const Program& p_;
  const Buffers updated_;
  Buffers forms_;
};

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
  Forms forms(p);
  for (Node& n : p.nodes) {
    const Access access(n);
    const bool joins = forms.makes(n, access) || writes_an_input(p, access);
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
