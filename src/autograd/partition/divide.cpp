#include "autograd/partition/divide.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "autograd/partition/again.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "graph/pass.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Node;
using graph::Value;
using Kind = Divided::Kind;

namespace {

bool is_cotangent(const graph::Input& in) { return in.kind == graph::InputKind::User && in.name.starts_with(kCotangent); }

size_t number_of(const graph::Input& cotangent) {
  size_t n = 0;
  std::from_chars(cotangent.name.data() + kCotangent.size(), cotangent.name.data() + cotangent.name.size(), n);
  return n;
}

std::unique_ptr<Graph> without_dead(std::unique_ptr<Graph> g) {
  const graph::PassRow& dce = graph::find_pass("dce");
  return graph::run_passes(std::move(g), std::span(&dce, 1));
}

std::unordered_set<const Value*> read_in(const Graph& g) {
  std::unordered_set<const Value*> out;
  for (auto& n : g.nodes) graph::for_each_operand(*n, [&](const Value* v) { out.insert(v); });
  for (auto& o : g.outputs) out.insert(o.value);
  return out;
}

class Division {
 public:
  Division(const Graph& joint, size_t gradients, const PartitionPolicy& policy)
      : joint_(joint), results_(joint.outputs.size() - gradients), cotangents_(find_cotangents(joint)) {
    const auto follows = what_follows_from_seeds(joint, cotangents_);
    // Gradients are linear in the cotangents: what follows from none is 0.
    const auto is_zero = [&](const Value* v) {
      const bool handed_on = std::find(cotangents_.begin(), cotangents_.end(), v) != cotangents_.end();
      return !handed_on && (!v->producer || !follows.count(v->producer));
    };
    size_t count = 0;
    for (size_t i = results_; i < joint.outputs.size(); ++i) {
      const Value* v = joint.outputs[i].value;
      out_.gradients.push_back(is_zero(v) ? std::nullopt : std::optional(count++));
      if (is_zero(v) && planted(GradientBug::ZeroCounted)) ++count;
    }
    // What is 0 is no output, so that nothing is computed for it.
    divided_ = graph::clone(joint);
    std::vector<graph::Output> outputs(divided_->outputs.begin(), divided_->outputs.begin() + static_cast<std::ptrdiff_t>(results_));
    for (size_t i = 0; i < out_.gradients.size(); ++i)
      if (out_.gradients[i]) outputs.push_back(divided_->outputs[results_ + i]);
    divided_->outputs = std::move(outputs);
    cotangents_ = find_cotangents(*divided_);
    if (!cotangents_.empty()) partition_ = partition(*divided_, policy, cotangents_);
    if (cotangents_.empty())
      for (auto& n : divided_->nodes) partition_.forward.push_back(n.get());
  }

  Divided run() {
    out_.results = results_;
    out_.report = to_string(partition_);
    make_backward();
    make_forward();
    return std::move(out_);
  }

 private:
  static std::vector<const Value*> find_cotangents(const Graph& g) {
    std::vector<const Value*> out;
    for (auto& in : g.inputs)
      if (is_cotangent(in)) out.push_back(in.value);
    return out;
  }

  struct Given {
    std::string name;  // of the value in the backward pass
    Kind kind;
    size_t index;
    const Value* saved = nullptr;  // of the joint graph
  };

  void make_backward() {
    const Graph& g = *divided_;
    if (g.outputs.size() == results_) return;
    graph::Rebuild out(g);
    std::vector<Given> given;
    size_t operand = 0;
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const graph::Input& in = g.inputs[i];
      Value* const here = out.graph().inputs[i].value;
      if (is_cotangent(in))
        given.push_back({here->name, Kind::Cotangent, number_of(in)});
      else if (in.kind == graph::InputKind::User)
        given.push_back({here->name, Kind::Operand, operand++});
      else if (in.kind == graph::InputKind::Random && !planted(GradientBug::DrawnAnew))
        given.push_back({here->name, Kind::Saved, 0, in.value});
    }
    const auto take = [&](const Value* v, Kind kind, size_t index) {
      Value* const here = out.graph().add_input({v->type.dtype, v->type.sizes, {}}, graph::InputKind::User, v->name);
      out.set(v, out.recorder().proxy(here));
      given.push_back({here->name, kind, index, kind == Kind::Saved ? v : nullptr});
    };
    for (size_t i = results_; i-- > 0;)  // of equal outputs the first one
      if (const Value* v = g.outputs[i].value; v && v->producer && g.outputs[i].mutates < 0) take(v, Kind::Result, i);
    for (const Saved& s : partition_.saved) take(s.value, Kind::Saved, 0);
    Again again(out, g, partition_);
    for (const Node* n : partition_.backward) {
      again.before(*n, graph::Pass::Forward);
      out.copy(*n);
    }
    for (size_t i = results_; i < g.outputs.size(); ++i)
      out.graph().outputs.push_back({out.recorder().value_of(out.at(g.outputs[i].value)), {}, -1});
    add_sizes(out.graph(), given);
    auto made = out.finish_without_outputs();
    made->name = g.name + " (gradients)";
    made = without_dead(std::move(made));
    out_.backward = std::move(made);
    drop_unread(given);
  }

  // Symbols are known by the operands of the forward pass, of which the backward pass may take none, or by what is saved.
  void add_sizes(Graph& backward, std::vector<Given>& given) {
    std::vector<Expr> dimensions;
    for (auto& s : backward.symbols) {
      if (s.unbacked) continue;
      dimensions.push_back(s.expr);
      out_.sizes.push_back(place_of(s.expr));
    }
    if (dimensions.empty()) return;
    dimensions.push_back(0);
    given.push_back({backward.add_input({DType::U8, dimensions, {}}, graph::InputKind::User, "sizes")->name, Kind::Sizes, 0});
  }

  Divided::Size place_of(const Expr& symbol) const {
    size_t operand = 0;
    for (auto& in : divided_->inputs) {
      if (in.kind != graph::InputKind::User) continue;
      for (size_t d = 0; d < in.value->type.sizes.size(); ++d)
        if (in.value->type.sizes[d] == symbol && !is_cotangent(in)) return {operand, d};
      ++operand;
    }
    fail<UserError>("{}: no operand has the size {} by itself", joint_.name, sym::to_string(symbol));
  }

  // Passes keep the inputs in their order.
  void drop_unread(const std::vector<Given>& given) {
    Graph& g = *out_.backward;
    const auto read = read_in(g);
    std::unordered_map<std::string, const Given*> by_name;
    for (auto& s : given) by_name[s.name] = &s;
    std::erase_if(g.inputs, [&](graph::Input& in) {
      const auto found = by_name.find(in.value->name);
      if (found == by_name.end()) return !read.count(in.value);
      const Given& from = *found->second;
      if (!read.count(in.value) && from.kind != Kind::Sizes) return true;
      in.kind = graph::InputKind::User;
      in.draws = 0;
      size_t index = from.index;
      if (from.kind == Kind::Cotangent && planted(GradientBug::CotangentShifted)) index = index == 0 ? 1 : 0;
      if (from.kind == Kind::Saved) {
        index = saved_.size();
        saved_.emplace_back(from.saved);
      }
      out_.inputs.push_back({from.kind, index});
      return false;
    });
    for (auto& s : g.symbols) s.unbacked = s.unbacked && !is_size_of_input(g, s.expr);
    for (size_t i = 0; i < g.symbols.size(); ++i)
      if (g.symbols[i].unbacked && !is_told_within(g, g.symbols[i].expr)) save_size(g, g.symbols[i]);
  }

  // A size that follows from data in the forward pass comes as that of a tensor without elements.
  void save_size(Graph& backward, graph::Symbol& size) {
    backward.add_input({DType::U8, {size.expr, 0}, {}}, graph::InputKind::User, "size");
    size.unbacked = false;
    out_.inputs.push_back({Kind::Saved, saved_.size()});
    saved_.emplace_back(size.expr);
  }

  // What the first node computes that has the size, which data tells it; null where there is none.
  static const ops::Op* maker_of(const Graph& g, const Expr& symbol) {
    const auto has = [&](const Value* v) {
      return std::any_of(v->type.sizes.begin(), v->type.sizes.end(), [&](const Expr& e) { return sym::depends_on(e, symbol); });
    };
    for (auto& n : g.nodes)
      if (std::any_of(n->results.begin(), n->results.end(), has)) return n->op;
    return nullptr;
  }

  // Whether the first node that knows the size makes it, and is not given it. One that computes something else than what makes the size
  // in the joint graph has it because it was taken for equal to an operand's.
  bool is_told_within(const Graph& g, const Expr& symbol) const {
    const auto is_of = [&](const Expr& e) { return sym::depends_on(e, symbol); };
    const auto one_is = [&](const std::vector<Expr>& list) { return std::any_of(list.begin(), list.end(), is_of); };
    const auto has = [&](const Value* v) { return one_is(v->type.sizes); };
    const ops::Op* const maker = maker_of(*divided_, symbol);
    for (auto& n : g.nodes) {
      bool given = false;
      graph::for_each_operand(*n, [&](const Value* v) { given = given || has(v); });
      for (auto& a : n->args) {
        if (auto* e = std::get_if<Expr>(&a)) given = given || is_of(*e);
        if (auto* list = std::get_if<std::vector<Expr>>(&a)) given = given || one_is(*list);
      }
      if (given) return false;
      if (std::any_of(n->results.begin(), n->results.end(), has)) return n->op == maker;
    }
    return true;
  }

  static bool is_size_of_input(const Graph& g, const Expr& symbol) {
    return std::any_of(g.inputs.begin(), g.inputs.end(), [&](auto& in) {
      const auto& sizes = in.value->type.sizes;
      return std::find(sizes.begin(), sizes.end(), symbol) != sizes.end();
    });
  }

  void make_forward() {
    const Graph& g = *divided_;
    graph::Rebuild out(g);
    for (const Node* n : partition_.forward) out.copy(*n);
    for (size_t i = 0; i < results_; ++i) {
      const graph::Output& o = g.outputs[i];
      out.graph().outputs.push_back({o.value ? out.recorder().value_of(out.at(o.value)) : nullptr, o.literal, o.mutates});
    }
    if (planted(GradientBug::SavedShifted) && !saved_.empty()) std::rotate(saved_.begin(), saved_.begin() + 1, saved_.end());
    for (auto& s : saved_) {
      const Tensor made = s.value ? out.at(s.value) : ops::call1("full", {std::vector<Expr>{s.size, 0}, Expr(0), DType::U8});
      out.graph().outputs.push_back({out.recorder().value_of(made), {}, -1});
    }
    auto made = without_dead(out.finish_without_outputs());
    const auto read = read_in(*made);
    std::erase_if(made->inputs,
                  [&](auto& in) { return is_cotangent(in) || (in.kind == graph::InputKind::Constant && !read.count(in.value)); });
    out_.forward = std::move(made);
  }

  const Graph& joint_;
  const size_t results_;
  std::vector<const Value*> cotangents_;
  std::unique_ptr<Graph> divided_;
  Partition partition_;
  struct SavedResult {
    explicit SavedResult(const Value* v) : value(v) {}
    explicit SavedResult(const Expr& e) : size(e) {}
    const Value* value = nullptr;  // of the joint graph
    Expr size = 0;                 // where there is no value: one that follows from data
  };
  std::vector<SavedResult> saved_;  // in the order of the backward pass's inputs
  Divided out_;
};

}  // namespace

Divided divide(const Graph& joint, size_t gradients, const PartitionPolicy& policy) { return Division(joint, gradients, policy).run(); }

}  // namespace toroid::autograd
