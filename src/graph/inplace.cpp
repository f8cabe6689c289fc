#include "graph/inplace.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/mutants.h"

namespace toroid::graph {
namespace {

// Overwrites a part of its first argument and leaves the rest.
bool is_partial_write(const ops::Op& op) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "index_put",     "_unsafe_index_put", "index_copy",  "index_add",     "index_fill.int_Scalar", "index_fill.int_Tensor",
      "scatter.src",   "scatter.value",     "scatter_add", "slice_scatter", "select_scatter",        "diagonal_scatter",
      "masked_scatter"};
  return names.count(op.name) > 0;
}

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g), readers_(g.values.size()), is_output_(g.values.size(), false) {
    for (size_t i = 0; i < g.nodes.size(); ++i) {
      position_[g.nodes[i].get()] = i;
      for_each_operand(*g.nodes[i], [&](const Value* v) { readers_[id(v)].push_back(i); });
    }
    for (auto& o : g.outputs)
      if (o.value) is_output_[id(o.value)] = true;
  }

  // Nothing but the write reads v, through views or directly, once the write has begun.
  bool dies_at(const Value* v, const Node& write) const {
    if (mutant(Mutant::DeadWrite)) return true;
    int reads = 0;
    for_each_operand(write, [&](const Value* o) { reads += o == v; });
    return reads == 1 && last_read(v, &write) <= position_.at(&write) && !reads_view_of(write, v);
  }

 private:
  static size_t id(const Value* v) { return static_cast<size_t>(v->id); }

  // Position from which on v is not read any more by others than `except`. Views are read where their results are.
  size_t last_read(const Value* v, const Node* except) const {
    size_t last = 0;
    if (is_output_[id(v)]) return g_.nodes.size() + 1;
    for (size_t i : readers_[id(v)]) {
      const Node& n = *g_.nodes[i];
      if (&n == except) continue;
      last = std::max(last, i + 1);
      if (n.op->index_map)
        for (auto* r : n.results) last = std::max(last, last_read(r, except));
    }
    return last;
  }
  bool reads_view_of(const Node& write, const Value* v) const {
    bool found = false;
    for_each_operand(write, [&](const Value* o) {
      while (o->producer && o->producer->op->index_map) {
        o = std::get<Value*>(o->producer->args[0]);
        found = found || o == v;
      }
    });
    return found;
  }

  const Graph& g_;
  std::unordered_map<const Node*, size_t> position_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_;
};

}  // namespace

std::vector<InplaceChain> inplace_chains(const Graph& g) {
  std::optional<Finder> finder;  // most graphs need none
  std::vector<InplaceChain> out;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Output& o = g.outputs[i];
    if (o.mutates < 0) continue;
    const Value* source = g.inputs[static_cast<size_t>(o.mutates)].value;
    InplaceChain chain{i, static_cast<size_t>(o.mutates), {}};
    const Value* v = o.value;
    bool fits = true;
    while (fits && v != source) {
      const Node* n = v->producer;
      fits = n && is_partial_write(*n->op) && std::holds_alternative<Value*>(n->args[0]);
      if (!fits) break;
      const Value* before = std::get<Value*>(n->args[0]);
      if (!finder) finder.emplace(g);
      fits = finder->dies_at(before, *n);
      chain.writes.push_back(n);
      v = before;
    }
    if (!fits || chain.writes.empty()) continue;
    std::reverse(chain.writes.begin(), chain.writes.end());
    out.push_back(std::move(chain));
  }
  return out;
}

}  // namespace toroid::graph
