#include "autograd/partition/keeping.h"

#include <algorithm>

#include "graph/effects.h"
#include "ops/custom.h"

namespace toroid::autograd {

using graph::Node;
using graph::Value;

namespace {

bool is_random(const Node& n) { return n.op->name.starts_with("prims.rand"); }

// Elementwise functions, and tensors made of numbers.
bool is_pointwise(const Node& n) { return n.op->formula || n.op->name == "full" || n.op->name == "prims.iota" || is_random(n); }

// Elements of others in other places, found by index or by where they lie: as cheap as views, but with memory of their own.
bool is_lookup(const Node& n) {
  static const std::unordered_set<std::string_view> kNames = {"embedding", "gather",          "index.Tensor",
                                                              "cat",       "constant_pad_nd", "view.dtype"};
  return kNames.count(n.op->name) > 0;
}

bool determines_sizes(const graph::Graph& g, const Node& n) {
  return std::any_of(n.results.begin(), n.results.end(), [&](const Value* r) {
    return std::any_of(r->type.sizes.begin(), r->type.sizes.end(), [&](const Expr& e) {
      const auto* s = e.kind() == sym::Kind::Symbol ? g.find_symbol(e.node()->name) : nullptr;
      return s && s->unbacked;
    });
  });
}

// The values that the forward pass has in memory while a product runs: made before it, and read behind it by other than products, which may
// share an operand.
class HeldAcrossProducts {
 public:
  HeldAcrossProducts(const std::vector<const Node*>& candidates, const std::unordered_set<const Node*>& needed) {
    int products = 0;
    for (const Node* n : candidates) {
      if (!needed.count(n)) continue;
      graph::for_each_operand(*n, [&](const Value* v) {
        const auto made = made_.find(shown_by(v));
        if (made != made_.end() && made->second < products && !is_product(*n)) held_.insert(made->first);
      });
      if (is_product(*n)) ++products;
      for (const Value* r : n->results)
        if (is_view(*n))
          graph::for_each_operand(*n, [&](const Value* v) { shown_[r] = shown_by(v); });
        else
          made_[r] = products;
    }
  }
  bool holds(const Value* v) const { return held_.count(v) > 0; }

 private:
  const Value* shown_by(const Value* v) const {
    const auto it = shown_.find(v);
    return it == shown_.end() ? v : it->second;
  }

  std::unordered_map<const Value*, int> made_;            // how many products had run
  std::unordered_map<const Value*, const Value*> shown_;  // by views
  std::unordered_set<const Value*> held_;
};

// Values that products outside of `candidates` read, through views and casts, too.
std::unordered_set<const Value*> operands_of_other_products(const graph::Graph& g, const std::vector<const Node*>& candidates) {
  const std::unordered_set<const Node*> ours(candidates.begin(), candidates.end());
  std::unordered_set<const Value*> out;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const Node& n = *g.nodes[i];
    const bool passes_on = is_view(n) && std::any_of(n.results.begin(), n.results.end(), [&](auto* r) { return out.count(r) > 0; });
    if (passes_on || (is_product(n) && !ours.count(&n))) graph::for_each_operand(n, [&](const Value* v) { out.insert(v); });
  }
  return out;
}

// A cast of an input to a smaller dtype.
bool narrows_input(const Node& n) {
  if (!is_pointwise(n) || n.results.size() != 1) return false;
  const Value* from = nullptr;
  int operands = 0;
  graph::for_each_operand(n, [&](const Value* v) { from = v, ++operands; });
  const auto& to = n.results[0]->type;
  return operands == 1 && !from->producer && from->type.sizes == to.sizes && is_half(to.dtype) && from->type.dtype == DType::F32;
}

// The values of checkpoints that the forward pass reads outside of them, through views, too.
std::unordered_set<const Value*> left_by_checkpoints(const graph::Graph& g, const std::vector<const Node*>& candidates,
                                                     const std::unordered_set<const Node*>& needed) {
  std::unordered_set<const Value*> out;
  for (auto& o : g.outputs)
    if (o.value) out.insert(o.value);
  for (size_t i = candidates.size(); i-- > 0;) {
    const Node& n = *candidates[i];
    if (!needed.count(&n)) continue;
    const bool shows = is_view(n) && std::any_of(n.results.begin(), n.results.end(), [&](auto* r) { return out.count(r) > 0; });
    graph::for_each_operand(n, [&](const Value* v) {
      if (v->producer && v->producer->checkpoint != 0 && (shows || v->producer->checkpoint != n.checkpoint)) out.insert(v);
    });
  }
  return out;
}

}  // namespace

std::string_view reason_of(Keep k) {
  constexpr std::string_view kReasons[] = {"nothing smaller would do",
                                           "its node must not run twice",
                                           "a product is dear",
                                           "a reduction reads more than it keeps",
                                           "less than 1 MiB",
                                           "an input in a smaller dtype",
                                           "in memory across a product of the forward pass anyway",
                                           "a product of the backward pass reads it",
                                           "random numbers are dear here",
                                           "a gradient that is computed with the forward pass",
                                           "a checkpoint gives it",
                                           "nothing is to be computed again"};
  return kReasons[static_cast<size_t>(k)];
}

bool is_view(const Node& n) { return n.op->index_map != nullptr; }

bool is_product(const Node& n) {
  const bool is_light = is_pointwise(n) || is_view(n) || is_lookup(n) || n.op->reduce;
  return !is_light && !n.results.empty();
}

std::unordered_set<const Value*> in_memory_anyway(const std::vector<const Node*>& candidates,
                                                  const std::unordered_set<const Node*>& needed) {
  const HeldAcrossProducts held(candidates, needed);
  std::unordered_set<const Value*> out;
  for (size_t i = candidates.size(); i-- > 0;) {
    const Node& n = *candidates[i];
    if (!needed.count(&n)) continue;
    const bool shows = is_view(n) && std::any_of(n.results.begin(), n.results.end(), [&](auto* r) { return out.count(r) > 0; });
    if (shows || is_product(n)) graph::for_each_operand(n, [&](const Value* v) { out.insert(v); });
    for (const Value* r : n.results)
      if (is_product(n) || n.op->reduce || held.holds(r)) out.insert(r);
  }
  return out;
}

double arithmetic_of(const Node& n, const UsualSizes& sizes) {
  double read = 0, written = 0;
  const Value* first = nullptr;
  graph::for_each_operand(n, [&](const Value* v) {
    if (!first) first = v;
    read += static_cast<double>(sizes.numel(*v));
  });
  for (const Value* r : n.results) written += static_cast<double>(sizes.numel(*r));
  if (!is_product(n)) return read + written;
  // Each element of the result is a sum as long as a row of the first operand: exact for products, the right order of magnitude for others.
  const double row = first && !first->type.sizes.empty() ? static_cast<double>(sizes.value_of(first->type.sizes.back())) : 1;
  return 2 * written * std::max(row, 1.0) + read;
}

std::unordered_map<const Node*, Keep> what_to_keep(const graph::Graph& g, const std::vector<const Node*>& candidates,
                                                   const std::unordered_set<const Node*>& needed, const PartitionPolicy& policy,
                                                   const UsualSizes& sizes) {
  const HeldAcrossProducts held(candidates, needed);
  const auto operands = policy.arithmetic_is_dear ? operands_of_other_products(g, candidates) : std::unordered_set<const Value*>();
  std::unordered_set<const Node*> with_forward;
  for (auto& n : g.nodes)
    if (n->op->name == "prims.with_forward") with_forward.insert(std::get<graph::Value*>(n->args[0])->producer);
  const auto left = left_by_checkpoints(g, candidates, needed);
  const auto leaves = [&](const Node& n) {
    return std::any_of(n.results.begin(), n.results.end(), [&](const Value* r) { return left.count(r) > 0; });
  };
  const auto reason = [&](const Node& n) {
    if (!is_pure(n) || ops::is_registered(*n.op) || determines_sizes(g, n)) return Keep::Effect;
    if (with_forward.count(&n)) return Keep::Forward;
    if (is_view(n) || !needed.count(&n)) return Keep::No;  // what the backward pass alone needs is computed once anyway
    if (!policy.recomputes) return Keep::All;
    if (n.checkpoint != 0) return leaves(n) ? Keep::Boundary : Keep::No;
    if (is_product(n)) return Keep::Product;
    if (n.op->reduce) return Keep::Reduction;
    if (policy.arithmetic_is_dear && is_random(n)) return Keep::Random;
    int64_t bytes = 0;
    for (const Value* r : n.results) bytes += sizes.bytes(*r);
    if (bytes < kSmallBytes) return Keep::Small;
    if (narrows_input(n)) return Keep::Narrowed;
    for (const Value* r : n.results) {
      if (held.holds(r)) return Keep::Held;
      if (operands.count(r)) return Keep::Operand;
    }
    return Keep::No;
  };
  std::unordered_map<const Node*, Keep> out;
  for (const Node* n : candidates) out[n] = reason(*n);
  return out;
}

}  // namespace toroid::autograd
