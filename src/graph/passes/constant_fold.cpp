#include <algorithm>
#include <set>

#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/recipe.h"

namespace toroid::graph {
namespace {

constexpr int64_t kSmallBytes = 1 << 20;
// The reference evaluator is slow: above this many elements folding would cost more than it gives.
constexpr int64_t kMaxElements = 1 << 22;
constexpr int64_t kMaxKernelElements = 1 << 18;
// Of all weights of a graph that are made of numbers: packing them takes as much again for a while.
constexpr int64_t kMaxStoredBytes = int64_t{1} << 32;

// How much is known of a value when compiling. Computed values come from attributes alone (full, arange and what is made of them):
// computing them again costs less than reading them from memory, so they stay as they are.
enum class Known { No, Computed, Data };

// What reads its operands from memory, many times each. Normalisations are folded into such a layer, where their numbers are known.
bool reads_weights(const ops::Op& op) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "conv1d", "conv2d", "conv3d",  "convolution", "_convolution", "linear",    "matmul",     "mm",
      "bmm",    "addmm",  "baddbmm", "mv",          "mm.dtype",     "bmm.dtype", "batch_norm", "_native_batch_norm_legit_no_training"};
  return names.count(op.name) > 0;
}

class Folder {
 public:
  explicit Folder(const Graph& g) : g_(g), known_(g.values.size(), Known::No), data_(g.values.size()) {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const Input& in = g.inputs[i];
      bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
      if (in.kind != InputKind::Constant || !in.data.defined() || written) continue;
      known_[id(in.value)] = Known::Data;
      data_[id(in.value)] = in.data;
    }
  }

  // Gives memory to the weights that are computed.
  std::unique_ptr<Graph> store_weights() {
    std::set<const Value*> weights;
    for (auto& n : g_.nodes) {
      for (auto* r : n->results) known_[id(r)] = knowledge(*n);
      if (!reads_weights(*n->op)) continue;
      for_each_operand(*n, [&](const Value* v) {
        v = seen_through_views(v);
        if (known_[id(v)] == Known::Computed && v->producer) weights.insert(v);
      });
    }
    std::vector<const Node*> stored;
    int64_t left = kMaxStoredBytes;
    for (auto& n : g_.nodes) {
      const bool wanted = n->results.size() == 1 && weights.count(n->results[0]) && bytes(n->results[0]) <= left;
      if (!wanted || !is_quick(*n) || !compute(*n)) continue;
      stored.push_back(n.get());
      left -= bytes(n->results[0]);
    }
    return with_constants_for(stored);
  }

  std::unique_ptr<Graph> run() {
    std::vector<const Node*> folded;
    for (auto& n : g_.nodes) {
      Known k = knowledge(*n);
      for (auto* r : n->results) known_[id(r)] = k;
      // Views cost nothing where they are.
      if (k == Known::Data && !n->op->index_map && is_worth(*n) && compute(*n)) folded.push_back(n.get());
    }
    return with_constants_for(folded);
  }

 private:
  // The graph with constants for the results of these nodes, which are in its order; nullptr where there are none.
  std::unique_ptr<Graph> with_constants_for(const std::vector<const Node*>& nodes) const {
    if (nodes.empty()) return nullptr;
    Rebuild out(g_);
    size_t next = 0;
    for (auto& n : g_.nodes) {
      if (next == nodes.size() || nodes[next] != n.get()) {
        out.copy(*n);
        continue;
      }
      ++next;
      for (auto* r : n->results) out.set(r, out.recorder().proxy(out.recorder().value_of(data_[id(r)])));
    }
    return out.finish();
  }

  static size_t id(const Value* v) { return static_cast<size_t>(v->id); }

  static bool has_symbols(const Node& n) {
    for (auto& a : n.args) {
      if (auto* e = std::get_if<Expr>(&a); e && !e->is_const()) return true;
      if (auto* list = std::get_if<std::vector<Expr>>(&a);
          list && std::any_of(list->begin(), list->end(), [](auto& e) { return !e.is_const(); }))
        return true;
    }
    return false;
  }

  Known knowledge(const Node& n) const {
    if (!is_pure(n) || n.results.empty() || has_symbols(n)) return Known::No;
    Known k = Known::Computed;
    for_each_operand(n, [&](const Value* v) {
      if (known_[id(v)] == Known::No)
        k = Known::No;
      else if (known_[id(v)] == Known::Data && k == Known::Computed)
        k = Known::Data;
    });
    for (auto* r : n.results)
      for (auto& e : r->type.sizes)
        if (!e.is_const()) return Known::No;
    return k;
  }

  static int64_t elements(const Value* v) { return v->type.numel().constant(); }
  static int64_t bytes(const Value* v) { return elements(v) * static_cast<int64_t>(size_of(v->type.dtype)); }

  const Value* seen_through_views(const Value* v) const {
    while (v->producer && v->producer->op->index_map && known_[id(v)] != Known::No) v = std::get<Value*>(v->producer->args[0]);
    return v;
  }

  // Memory that the value really takes: views take none of their own, computed values none at all.
  int64_t stored_bytes(const Value* v) const {
    if (known_[id(v)] == Known::Data) v = seen_through_views(v);
    return known_[id(v)] == Known::Data ? bytes(v) : 0;
  }

  // Filling memory takes no evaluator.
  static bool is_quick(const Node& n) { return n.op->name == "full" || elements(n.results[0]) <= kMaxElements; }

  bool is_worth(const Node& n) const {
    int64_t before = 0, after = 0, count = 0;
    for_each_operand(n, [&](const Value* v) {
      before += stored_bytes(v);
      count = std::max(count, elements(v));
    });
    for (auto* r : n.results) {
      after += bytes(r);
      count = std::max(count, elements(r));
    }
    return (after <= kSmallBytes || after <= before) && count <= (n.op->formula ? kMaxElements : kMaxKernelElements);
  }

  // Fills in the data of the results; false when the operation refuses or something it needs is too large.
  bool compute(const Node& n) {
    if (std::all_of(n.results.begin(), n.results.end(), [&](auto* r) { return data_[id(r)].defined(); })) return true;
    bool ready = true;
    for_each_operand(n, [&](const Value* v) {
      if (ready && !data_[id(v)].defined()) ready = elements(v) <= kMaxElements && v->producer && compute(*v->producer);
    });
    if (!ready) return false;
    CallArgs args;
    for (auto& a : n.args) args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? data_[id(v)] : Tensor(); }));
    try {
      auto results = evaluate_constant(*n.op, args);
      for (size_t i = 0; i < results.size(); ++i) {
        const TensorType& type = n.results[i]->type;
        if (results[i].dtype() != type.dtype || results[i].dim() != type.dim()) return false;
      }
      for (size_t i = 0; i < results.size(); ++i) data_[id(n.results[i])] = results[i];
    } catch (const UserError&) {
      return false;  // it will be reported where it is run
    }
    return true;
  }

  const Graph& g_;
  std::vector<Known> known_;
  std::vector<Tensor> data_;
};

}  // namespace

std::unique_ptr<Graph> constant_fold(const Graph& g) { return Folder(g).run(); }

std::unique_ptr<Graph> store_weights(const Graph& g) { return Folder(g).store_weights(); }

}  // namespace toroid::graph
