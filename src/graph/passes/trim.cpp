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
      if (o.value) read_whole(o.value);
    for (size_t i = g_.nodes.size(); i-- > 0;) look(*g_.nodes[i]);
    if (!saves_) return nullptr;
    for (auto& in : g_.inputs) read_whole(in.value);
    out_.emplace(g_);
    for (auto& n : g_.nodes) write(*n);
    return out_->finish();
  }

 private:
  // What is read of a value: of most of them nothing or everything, which needs no boxes.
  struct Read {
    enum class Much : uint8_t { Nothing, Part, All } much = Much::Nothing;
    Demand part = {};
  };
  Read& state(const Value* v) { return read_[static_cast<size_t>(v->id)]; }
  bool is_used(const Value* v) { return state(v).much != Read::Much::Nothing; }
  bool is_cut(const Value* v) { return state(v).much == Read::Much::Part; }
  Demand read(const Value* v) { return state(v).much == Read::Much::All ? whole(v->type) : state(v).part; }
  void set_read(const Value* v, Demand d) {
    state(v).much = !d.used ? Read::Much::Nothing : is_whole(d) ? Read::Much::All : Read::Much::Part;
    state(v).part = is_cut(v) ? std::move(d) : Demand();
  }
  void read_whole(const Value* v) { state(v) = {Read::Much::All}; }
  void read_more(const Value* v, const Demand& more) {
    if (state(v).much == Read::Much::All) return;
    Demand d = std::move(state(v).part);
    join(d, more);
    set_read(v, std::move(d));
  }

  // What the node reads, given what is read of it, which all nodes behind it have said.
  void look(const Node& n) {
    bool used = !is_pure(n), partly = false;
    for (auto* r : n.results) {
      if (is_cut(r)) {
        Demand d = std::move(state(r).part);
        widen(d);
        set_read(r, std::move(d));
      }
      used = used || is_used(r);
      partly = partly || is_cut(r);
    }
    if (!used) return;
    const TrimRule* rule = trim_rule(n);
    if (!partly && !(rule && rule->cuts)) {
      for_each_operand(n, [&](const Value* v) { read_whole(v); });
      return;
    }
    TrimStep step{n, {}, {}, {}};
    for (auto* r : n.results) step.results.push_back(read(r));
    for_each_operand(n, [&](const Value* v) { step.operands.push_back(v); });
    if (rule && ((!partly && !rule->cuts) || !rule->follow(step))) rule = nullptr;
    if (!rule) {
      step.needs.clear();
      for (size_t i = 0; i < step.results.size(); ++i) step.results[i] = whole(n.results[i]->type);
      for (auto* v : step.operands) step.needs.push_back(whole(v->type));
    }
    for (size_t i = 0; i < step.results.size(); ++i) {
      set_read(n.results[i], step.results[i]);
      saves_ = saves_ || (rule && !rule->moves && partly && !is_whole(step.results[i]));
    }
    for (size_t i = 0; i < step.operands.size(); ++i) read_more(step.operands[i], step.needs[i]);
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
    for (auto* r : n.results) used = used || is_used(r), as_it_is = as_it_is && !is_cut(r);
    if (!used) return;
    for_each_operand(n, [&](const Value* v) { as_it_is = as_it_is && !is_cut(v); });
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
    if (!is_cut(v))
      out_->set(v, t);
    else
      parts_[v] = t;
  }

  const Graph& g_;
  std::vector<Read> read_;  // by value; in the end what of it is computed
  std::map<const Node*, TrimStep> steps_;
  std::map<const Value*, Tensor> parts_;
  std::map<const Value*, std::vector<std::pair<Demand, Tensor>>> cuts_;
  std::optional<Rebuild> out_;
  bool saves_ = false;
};

}  // namespace

std::unique_ptr<Graph> trim(const Graph& g) { return Trimmer(g).run(); }

}  // namespace toroid::graph
