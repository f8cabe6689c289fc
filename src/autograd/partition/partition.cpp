#include "autograd/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "autograd/partition/keeping.h"
#include "autograd/partition/min_cut.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "graph/effects.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Node;
using graph::Value;

namespace {

using Nodes = std::vector<const Node*>;
using NodeSet = std::unordered_set<const Node*>;
using ValueSet = std::unordered_set<const Value*>;

size_t number(const Value* v) { return static_cast<size_t>(v->id); }

bool is_seed(const Node& n) { return n.op->name == "prims.gradient_seed"; }

// Calls f on the values that a node reads. Of its first operand a seed takes the sizes alone.
template <class F>
void for_each_read(const Node& n, bool from_seeds, F&& f) {
  bool skip = from_seeds && is_seed(n);
  graph::for_each_operand(n, [&](const Value* v) {
    if (!skip) f(v);
    skip = false;
  });
}

class Partitioner {
 public:
  Partitioner(const Graph& g, const PartitionPolicy& policy, std::span<const Value* const> cotangents)
      : g_(g), sizes_(g), behind_(what_follows_from_seeds(g, cotangents)), is_split_(!cotangents.empty()) {
    for (auto& n : g.nodes)
      if (!behind_.count(n.get())) candidates_.push_back(n.get());
    for (auto& o : g.outputs) {
      if (!o.value) continue;
      outputs_.insert(o.value);
      if (!is_split_ || o.mutates < 0 || planted(GradientBug::ContentsShared)) there_.insert(o.value);
    }
    find_needed();
    keep_ = what_to_keep(g, candidates_, needed_, policy, sizes_);
    in_memory_ = in_memory_anyway(candidates_, needed_);
  }

  bool is_divided() const { return is_split_ || (!behind_.empty() && !needed_.empty()); }

  Partition by_policy(const PartitionPolicy& policy) {
    const Nodes order = dear_nodes();
    const auto cut_again = [&](size_t count) { return cut({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count)}); };
    Partition out;
    Cut best = cut({});
    out.saved_by_default = best.bytes;
    out.saved_at_least = cut(order).bytes;
    if (policy.most_bytes) check_possible(*policy.most_bytes, out.saved_at_least);
    const double share = static_cast<double>(out.saved_at_least) +
                         std::clamp(policy.saved_share, 0.0, 1.0) * static_cast<double>(out.saved_by_default - out.saved_at_least);
    const double most = policy.most_bytes ? static_cast<double>(*policy.most_bytes) : share;
    // In steps of a sixty-fourth of them: of two shares or caps the larger one saves no less.
    constexpr size_t kSteps = 64;
    auto step = static_cast<size_t>(std::ceil(std::clamp(policy.again, 0.0, 1.0) * kSteps));
    const auto at_step = [&] { return cut_again((order.size() * step + kSteps - 1) / kSteps); };
    if (step > 0) best = at_step();
    while (static_cast<double>(best.bytes) > most && step < kSteps) ++step, best = at_step();
    divide(best, out);
    return out;
  }

  Partition undivided() const {
    Partition out;
    for (auto& n : g_.nodes) out.forward.push_back(n.get());
    return out;
  }

 private:
  struct Cut {
    int64_t bytes = 0;
    ValueSet saved;
    NodeSet repeatable;  // of those that are kept by default
  };

  // The nodes that tell a size which follows from data: whichever pass asks for that, the forward pass gives it.
  NodeSet nodes_that_tell_sizes() const {
    NodeSet out;
    std::set<std::string> told;
    for (const Node* n : candidates_)
      for (const Value* r : n->results)
        for (auto& e : r->type.sizes) {
          const auto* s = e.kind() == sym::Kind::Symbol ? g_.find_symbol(e.node()->name) : nullptr;
          if (s && s->unbacked && told.insert(e.node()->name).second) out.insert(n);
        }
    return out;
  }

  // What the outputs that follow from no seed need, and what has effects of its own.
  void find_needed() {
    const NodeSet tell_sizes = nodes_that_tell_sizes();
    std::vector<bool> live(g_.values.size());  // by number
    for (const Value* v : outputs_)
      if (!v->producer || !behind_.count(v->producer)) live[number(v)] = true;
    for (size_t i = candidates_.size(); i-- > 0;) {
      const Node& n = *candidates_[i];
      const bool is_live = std::any_of(n.results.begin(), n.results.end(), [&](auto* r) { return live[number(r)]; });
      if (!is_live && !effects_of(n).any() && !tell_sizes.count(&n)) continue;
      needed_.insert(&n);
      graph::for_each_operand(n, [&](const Value* v) { live[number(v)] = true; });
    }
  }

  void check_possible(int64_t most, int64_t least) const {
    TOROID_USER_CHECK(
        least <= most,
        "activation_memory_budget: {} saves {} bytes for its backward pass, also where all that can be is computed again; the "
        "cap is {}, {} too few",
        g_.name, least, most, least - most);
  }

  // The nodes that are kept by default, in the order in which they are computed again.
  Nodes dear_nodes() const {
    std::map<double, Nodes> by_cost;  // scalar operations a byte
    for (const Node* n : candidates_) {
      const Keep keep = keep_.at(n);
      if (keep == Keep::No || is_final(keep)) continue;
      int64_t bytes = 0;
      for (const Value* r : n->results) bytes += sizes_.bytes(*r);
      by_cost[arithmetic_of(*n, sizes_) / static_cast<double>(std::max<int64_t>(bytes, 1))].push_back(n);
    }
    Nodes out;
    for (auto& [cost, equal] : by_cost)
      for (const size_t i : spread(equal.size())) out.push_back(equal[i]);
    return out;
  }

  // The numbers below count, each far from those before it: by their bits in reverse order (J. G. van der Corput, 1935).
  static std::vector<size_t> spread(size_t count) {
    std::vector<size_t> out;
    const int bits = std::bit_width(std::max<size_t>(count, 1) - 1);
    for (size_t i = 0; i < size_t{1} << bits; ++i) {
      size_t reversed = 0;
      for (int b = 0; b < bits; ++b) reversed |= (i >> b & 1) << (bits - 1 - b);
      if (reversed < count) out.push_back(reversed);
    }
    return out;
  }

  bool is_there_anyway(const Value* v) const { return !v->producer || there_.count(v) > 0; }

  int64_t cost_of_saving(const Value* v, bool kept) const {
    if (is_there_anyway(v)) return 0;
    const bool is_within_checkpoint = v->producer->checkpoint != 0 && !planted(GradientBug::CheckpointKept);
    if (!kept && (is_view(*v->producer) || is_within_checkpoint)) return Network::kInfinite;
    const int64_t bytes = sizes_.bytes(*v);
    return in_memory_.count(v) ? bytes : bytes + bytes / 8;
  }

  Cut cut(const Nodes& repeatable) {
    Cut out;
    out.repeatable.insert(repeatable.begin(), repeatable.end());
    Network network;
    const int source = network.add_vertex(), sink = network.add_vertex();
    std::vector<int> behind(g_.values.size(), -1);  // by number: the vertex of a value that is saved or computed again
    std::vector<std::pair<const Value*, size_t>> edges;
    for (const Node* n : candidates_) {
      const Keep keep = keep_.at(n);
      const bool kept = is_final(keep) || (keep != Keep::No && !out.repeatable.count(n));
      int made = source;
      if (!kept) {
        made = network.add_vertex();
        graph::for_each_operand(*n, [&](const Value* v) {
          if (const int at = behind[number(v)]; at >= 0) network.add_edge(at, made, Network::kInfinite);
        });
      }
      for (const Value* r : n->results) {
        const int at = behind[number(r)] = network.add_vertex();
        edges.emplace_back(r, network.add_edge(made, at, cost_of_saving(r, kept)));
      }
    }
    for (auto& n : g_.nodes)
      if (behind_.count(n.get()))
        for_each_read(*n, !is_split_, [&](const Value* v) {
          if (const int at = behind[number(v)]; at >= 0) network.add_edge(at, sink, Network::kInfinite);
        });
    TOROID_CHECK(network.cut(source, sink) < Network::kInfinite, "a gradient needs what can neither be saved nor computed again");
    for (auto& [v, edge] : edges) {
      if (!network.is_cut(edge)) continue;
      out.saved.insert(v);
      if (!is_there_anyway(v)) out.bytes += sizes_.bytes(*v);
    }
    return out;
  }

  // Nodes that compute what the backward pass reads and is not saved.
  NodeSet not_saved(const Cut& c) const {
    NodeSet out;
    Nodes stack;
    const auto visit = [&](const Value* v) {
      const Node* n = v->producer;
      if (!n || behind_.count(n) || c.saved.count(v) || is_there_anyway(v)) return;
      if (out.insert(n).second) stack.push_back(n);
    };
    for (auto& n : g_.nodes)
      if (behind_.count(n.get())) for_each_read(*n, !is_split_, visit);
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      graph::for_each_operand(*n, visit);
    }
    return out;
  }

  void divide(const Cut& c, Partition& out) const {
    // What saved values need comes early, though no output of the forward pass needs it.
    NodeSet early;
    Nodes stack;
    const auto visit = [&](const Value* v) {
      if (v->producer && !needed_.count(v->producer) && early.insert(v->producer).second) stack.push_back(v->producer);
    };
    for (const Value* v : c.saved)
      if (v->producer) visit(v);
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      graph::for_each_operand(*n, visit);
    }
    const NodeSet unsaved = not_saved(c);
    put_forward(early, out);
    for (auto& n : g_.nodes) {
      const bool is_forward = needed_.count(n.get()) || early.count(n.get());
      if (!is_forward) out.backward.push_back(n.get());
      if (is_forward && unsaved.count(n.get())) out.again.push_back(n.get());
    }
    for (const Node* n : candidates_)
      for (const Value* r : n->results) {
        if (!c.saved.count(r) || is_there_anyway(r)) continue;
        const Keep keep = c.repeatable.count(n) ? Keep::No : keep_.at(n);
        out.saved.push_back({r, sizes_.bytes(*r), std::string(reason_of(keep))});
      }
    out.saved_bytes = c.bytes;
  }

  // In the order of the graph; each early node just behind what it needs.
  void put_forward(const NodeSet& early, Partition& out) const {
    struct Entry {
      size_t at, own;  // behind which node of the graph; its own place
      const Node* node;
    };
    std::unordered_map<const Node*, size_t> at;
    std::vector<Entry> entries;
    for (size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node* n = g_.nodes[i].get();
      if (needed_.count(n)) {
        at[n] = i;
        entries.push_back({i, 0, n});
      } else if (early.count(n)) {
        size_t behind = 0;
        graph::for_each_operand(*n, [&](const Value* v) {
          if (v->producer) behind = std::max(behind, at.at(v->producer));
        });
        at[n] = behind;
        entries.push_back({behind, i + 1, n});
      }
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return std::pair(a.at, a.own) < std::pair(b.at, b.own); });
    for (const Entry& e : entries) out.forward.push_back(e.node);
  }

  const Graph& g_;
  const UsualSizes sizes_;
  const NodeSet behind_;                  // the seeds
  const bool is_split_;                   // whether the passes are programs of their own
  Nodes candidates_;                      // all others
  NodeSet needed_;                        // of these, what the forward pass is for
  ValueSet outputs_, there_, in_memory_;  // there_: in memory that nobody writes without a word
  std::unordered_map<const Node*, Keep> keep_;
};

}  // namespace

PartitionPolicy policy_of(const std::string& budget, bool arithmetic_is_dear) {
  PartitionPolicy out{.arithmetic_is_dear = arithmetic_is_dear};
  if (budget == "off")
    out.recomputes = false;
  else if (budget.ends_with('B'))
    out.most_bytes = std::stoll(budget);
  else
    out.saved_share = std::stod(budget);
  return out;
}

NodeSet what_follows_from_seeds(const Graph& g, std::span<const Value* const> cotangents) {
  std::vector<bool> follows(g.values.size());  // by number
  for (const Value* v : cotangents) follows[number(v)] = true;
  NodeSet out;
  for (auto& n : g.nodes) {
    bool found = cotangents.empty() && is_seed(*n);
    graph::for_each_operand(*n, [&](const Value* v) { found = found || follows[number(v)]; });
    if (!found) continue;
    out.insert(n.get());
    for (const Value* r : n->results) follows[number(r)] = true;
  }
  return out;
}

int64_t UsualSizes::value_of(const Expr& e) const { return graph::usual_value(e, g_.symbols); }

int64_t UsualSizes::numel(const Value& v) const { return value_of(v.type.numel()); }

int64_t UsualSizes::bytes(const Value& v) const { return numel(v) * static_cast<int64_t>(size_of(v.type.dtype)); }

Partition partition(const Graph& g, const PartitionPolicy& policy, std::span<const Value* const> cotangents) {
  Partitioner p(g, policy, cotangents);
  return p.is_divided() ? p.by_policy(policy) : p.undivided();
}

std::string to_string(const Partition& p) {
  const auto mb = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  std::string out = fmt::format(
      "forward {} operations, backward {}; {} computed again; {:.1f} MB saved in {} values ({:.1f} MB by default, {:.1f} MB at least)\n",
      p.forward.size(), p.backward.size(), p.again.size(), mb(p.saved_bytes), p.saved.size(), mb(p.saved_by_default), mb(p.saved_at_least));
  std::vector<const Saved*> order;
  for (auto& s : p.saved) order.push_back(&s);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->bytes > b->bytes; });
  for (const Saved* s : order)
    out += fmt::format("{:.3f} MB %{}: {} ({}{}{})\n", mb(s->bytes), s->value->name, to_string(s->value->type), s->reason,
                       s->value->producer->where.empty() ? "" : "; ", s->value->producer->where);
  return out;
}

}  // namespace toroid::autograd
