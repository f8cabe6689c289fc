#include <algorithm>
#include <map>

#include "graph/effects.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/passes/trim_rules.h"

namespace toroid::graph {
namespace {

class Trimmer {
 public:
  explicit Trimmer(const Graph& g) : g_(g), read_(g.values.size()) {}

  std::unique_ptr<Graph> run() {
    for (auto& o : g_.outputs)
      if (o.value) join(read(o.value), whole(o.value->type));
    for (size_t i = g_.nodes.size(); i-- > 0;) look(*g_.nodes[i]);
    if (!saves_) return nullptr;
    for (auto& in : g_.inputs) read(in.value) = whole(in.value->type);
    out_.emplace(g_);
    for (auto& n : g_.nodes) write(*n);
    return out_->finish();
  }

 private:
  Demand& read(const Value* v) { return read_[static_cast<size_t>(v->id)]; }

  // What the node reads, given what is read of it, which all nodes behind it have said.
  void look(const Node& n) {
    TrimStep step{n, {}, {}, {}};
    bool used = !is_pure(n), partly = false;
    for (auto* r : n.results) {
      widen(read(r));
      step.results.push_back(read(r));
      used = used || read(r).used;
      partly = partly || !is_whole(read(r));
    }
    if (!used) return;
    for_each_operand(n, [&](const Value* v) { step.operands.push_back(v); });
    const TrimRule* rule = trim_rule(n);
    if (rule && ((!partly && !rule->cuts) || !rule->follow(step))) rule = nullptr;
    if (!rule) {
      step.needs.clear();
      for (size_t i = 0; i < step.results.size(); ++i) step.results[i] = whole(n.results[i]->type);
      for (auto* v : step.operands) step.needs.push_back(whole(v->type));
    }
    for (size_t i = 0; i < step.results.size(); ++i) {
      read(n.results[i]) = step.results[i];
      saves_ = saves_ || (rule && !rule->moves && partly && !is_whole(step.results[i]));
    }
    for (size_t i = 0; i < step.operands.size(); ++i) join(read(step.operands[i]), step.needs[i]);
    if (rule) steps_.emplace(&n, std::move(step));
  }

  Tensor held(const Value* v) {
    auto it = parts_.find(v);
    return it != parts_.end() ? it->second : out_->at(v);
  }

  // Equal parts of a value are cut once.
  Tensor cut(TrimBuilder& builder, const Value* v, const Demand& need) {
    if (need == read(v)) return held(v);
    auto& made = cuts_[v];
    for (auto& [part, t] : made)
      if (part == need) return t;
    made.emplace_back(need, builder.cut(held(v), read(v), need));
    return made.back().second;
  }

  void write(const Node& n) {
    bool used = !is_pure(n), as_it_is = true;
    for (auto* r : n.results) used = used || read(r).used, as_it_is = as_it_is && is_whole(read(r));
    if (!used) return;
    for_each_operand(n, [&](const Value* v) { as_it_is = as_it_is && is_whole(read(v)); });
    auto it = steps_.find(&n);
    if (as_it_is || it == steps_.end()) {
      out_->copy(n);
      return;
    }
    const TrimStep& step = it->second;
    TrimBuilder builder(out_->recorder(), n.where);
    std::vector<Tensor> operands;
    for (size_t i = 0; i < step.operands.size(); ++i) operands.push_back(cut(builder, step.operands[i], step.needs[i]));
    auto results = trim_rule(n)->emit(step, operands, builder);
    for (size_t i = 0; i < n.results.size(); ++i)
      if (results.at(i).defined()) set(n.results[i], results[i]);
  }

  // Rebuild knows whole values alone: their sizes are those of the old graph.
  void set(const Value* v, const Tensor& t) {
    if (is_whole(read(v)))
      out_->set(v, t);
    else
      parts_[v] = t;
  }

  const Graph& g_;
  std::vector<Demand> read_;  // by value; in the end what of it is computed
  std::map<const Node*, TrimStep> steps_;
  std::map<const Value*, Tensor> parts_;
  std::map<const Value*, std::vector<std::pair<Demand, Tensor>>> cuts_;
  std::optional<Rebuild> out_;
  bool saves_ = false;
};

}  // namespace

std::unique_ptr<Graph> trim(const Graph& g) { return Trimmer(g).run(); }

}  // namespace toroid::graph
