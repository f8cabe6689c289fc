#include "autograd/differentiate.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/control.h"
#include "autograd/projected_loss.h"
#include "autograd/rule.h"
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "graph/control_flow.h"
#include "graph/passes/expander.h"
#include "graph/passes/rebuild.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Rebuild;
using graph::Value;

namespace {

bool has_gradient(DType t) { return is_float(t) || is_complex(t) || (planted(GradientBug::IntegersChange) && is_int(t)); }

// The inputs that hold the same elements as input i (tied parameters): a change of one is a change of all.
std::vector<const Value*> tied_to(const Graph& g, size_t i) {
  const graph::Input& in = g.inputs[i];
  std::vector<const Value*> out{in.value};
  if (in.data.defined())
    for (auto& other : g.inputs)
      if (&other != &in && other.data.defined() && other.data.raw_data() == in.data.raw_data() && other.value->type == in.value->type)
        out.push_back(other.value);
  return out;
}

// The values that the wanted inputs change.
class Active {
 public:
  Active(const Graph& g, const std::vector<size_t>& inputs) {
    for (size_t i : inputs)
      for (const Value* v : tied_to(g, i)) values_.insert(v);
    for (auto& n : g.nodes)
      if (is_reached(*n) && !ends_gradients(*n->op))
        for (const Value* r : n->results)
          if (has_gradient(r->type.dtype)) values_.insert(r);
  }
  bool holds(const Value* v) const { return values_.count(v) > 0; }
  bool holds(const graph::Node& n) const {
    return std::any_of(n.results.begin(), n.results.end(), [&](const Value* r) { return holds(r); });
  }

 private:
  static bool ends_gradients(const ops::Op& op) {
    return reads_sizes_alone(op) || (find_rule(op) == no_gradient && !planted(GradientBug::DetachIgnored));
  }
  bool is_reached(const graph::Node& n) const {
    bool found = false;
    graph::for_each_operand(n, [&](const Value* v) { found = found || holds(v); });
    return found;
  }
  std::unordered_set<const Value*> values_;
};

// The values that an argument holds.
std::vector<const Value*> operands_of(const graph::NodeArg& a) {
  if (auto* v = std::get_if<Value*>(&a)) return {*v};
  if (auto* list = std::get_if<std::vector<Value*>>(&a)) return {list->begin(), list->end()};
  return {};
}

void set_wanted(GradientCall& c, const graph::Node& n, const Active& active) {
  for (size_t i = 0; i < n.args.size(); ++i)
    for (const Value* v : operands_of(n.args[i])) c.wanted[i].push_back(v && active.holds(v));
}

// The graph with what is on the paths written as operations that have a rule.
std::unique_ptr<Graph> with_rules(const Graph& g, const Request& request) {
  const Active active(g, request.inputs);
  Rebuild out(g);
  // What the call is recorded as; nothing where that is itself.
  const auto extended = [&](const graph::Node& n) -> std::vector<Tensor> {
    const Extension extend = request.extends && active.holds(n) ? find_extension(*n.op) : nullptr;
    if (!extend) return {};
    const CallArgs args = out.args(n);
    GradientCall c(*n.op, args);
    set_wanted(c, n, active);
    out.recorder().stand_in_for(n);
    return extend(c);
  };
  graph::Expander expander(out.recorder(), [](const ops::Op& op, bool draws) { return !draws && find_rule(op) != nullptr; });
  for (auto& n : g.nodes) {
    if (const auto results = extended(*n); !results.empty())
      out.replace(*n, [&] { return results; });
    else if (active.holds(*n) && expander.expands(*n->op, n->args))
      out.replace(*n, [&] { return expander.call(*n->op, out.args(*n), std::source_location::current()); });
    else
      out.copy(*n);
  }
  return out.finish();
}

class Reverse {
 public:
  Reverse(const Graph& g, const Request& request) : g_(g), request_(request), active_(g, request.inputs), out_(g) {}

  std::unique_ptr<Graph> run() {
    for (auto& n : g_.nodes) out_.copy(*n);
    std::vector<graph::Output> outputs;
    for (auto& o : g_.outputs) outputs.push_back({o.value ? value_of(out_.at(o.value)) : nullptr, o.literal, o.mutates});
    seed();
    for (size_t i = g_.nodes.size(); i-- > 0;) reverse(*g_.nodes[i]);
    for (size_t i : request_.inputs) {
      Tensor gradient;
      for (const Value* v : tied_to(g_, i)) {
        if (planted(GradientBug::TiedOnce) && gradient.defined()) continue;
        if (const Tensor part = cotangent_of(v); part.defined()) gradient = gradient.defined() ? ops::forms::add(gradient, part) : part;
      }
      outputs.push_back({value_of(gradient.defined() ? gradient : zeros_like(out_.at(g_.inputs[i].value))), {}, -1});
    }
    out_.graph().outputs = std::move(outputs);
    return out_.finish_without_outputs();
  }

 private:
  Value* value_of(const Tensor& t) { return out_.recorder().value_of(t); }
  Tensor cotangent_of(const Value* v) const {
    const auto it = cotangents_.find(v);
    return it == cotangents_.end() ? Tensor() : it->second;
  }
  void accumulate(const Value* v, const Tensor& t) {
    Tensor& sum = cotangents_[v];
    if (planted(GradientBug::AccumulateOverwrites)) sum = Tensor();
    if (planted(GradientBug::FirstUseAlone) && sum.defined()) return;
    sum = sum.defined() ? ops::forms::add(sum, t) : t;
  }

  void seed() {
    size_t number = 0;
    for (auto& o : g_.outputs) {
      if (o.mutates >= 0) continue;
      const size_t k = number++;
      if (!request_.takes_cotangents && k > 0) break;
      if (!o.value || !has_gradient(o.value->type.dtype)) continue;
      Tensor cotangent;
      if (request_.takes_cotangents) {
        const TensorType type{o.value->type.dtype, o.value->type.sizes, {}};
        cotangent =
            out_.recorder().proxy(out_.graph().add_input(type, graph::InputKind::User, std::string(kCotangent) + std::to_string(k)));
      }
      if (!active_.holds(o.value) || (planted(GradientBug::FirstOutputAlone) && k > 0)) continue;
      accumulate(o.value, seeded(out_.at(o.value), cotangent));
    }
  }

  // What the backward pass begins with.
  Tensor seeded(const Tensor& result, const Tensor& cotangent) const {
    if (!request_.seeds || is_complex(result.dtype())) return cotangent.defined() ? cotangent : ones_like(result);
    return ops::call1("prims.gradient_seed", {cotangent.defined() ? cotangent : result, cotangent});
  }

  void reverse(const graph::Node& n) {
    if (!active_.holds(n)) return;
    if (std::none_of(n.results.begin(), n.results.end(), [&](const Value* r) { return cotangent_of(r).defined(); })) return;
    if (n.op == &graph::cond_op()) return reverse_regions(n, cond_gradients, {3});
    if (n.op == &graph::scan_op()) return reverse_regions(n, scan_gradients, {1, 2, 3});
    const Rule rule = find_rule(*n.op);
    TOROID_USER_CHECK(rule && n.regions.empty(),
                      "{} ({}): this operation has no gradient; detach() its operands, or write it in other operations", n.op->name,
                      n.where.empty() ? "no line is known" : n.where);
    const CallArgs args = out_.args(n);
    GradientCall c(*n.op, args);
    for (const Value* r : n.results) {
      c.results.push_back(out_.at(r));
      c.cotangents.push_back(active_.holds(r) ? cotangent_of(r) : Tensor());
    }
    if (planted(GradientBug::WrongResult)) std::reverse(c.cotangents.begin(), c.cotangents.end());
    set_wanted(c, n, active_);
    out_.recorder().set_where(n.where);
    rule(c);
    for (size_t i = 0; i < n.args.size(); ++i) {
      const auto operands = operands_of(n.args[i]);
      for (size_t k = 0; k < c.gradients[i].size(); ++k)
        if (c.gradients[i][k].defined())
          accumulate(operands[planted(GradientBug::ListShifted) ? (k + 1) % operands.size() : k], c.gradients[i][k]);
    }
  }

  // lists: the arguments that hold operands.
  void reverse_regions(const graph::Node& n, decltype(&cond_gradients) gradients_of, std::initializer_list<size_t> lists) {
    const graph::Node& copied = *out_.recorder().value_of(out_.at(n.results[0]))->producer;  // its regions have the sizes of the new graph
    std::vector<const Value*> operands;
    for (size_t list : lists)
      for (const Value* v : operands_of(n.args[list])) operands.push_back(v);
    std::vector<Tensor> cotangents;
    for (const Value* r : n.results) cotangents.push_back(cotangent_of(r));
    std::vector<bool> wanted;
    for (const Value* v : operands) wanted.push_back(active_.holds(v));
    const auto gradients = gradients_of(out_.recorder(), copied, out_.args(n), cotangents, wanted);
    for (size_t i = 0; i < operands.size(); ++i)
      if (gradients[i].defined()) accumulate(operands[i], gradients[i]);
  }

  const Graph& g_;
  const Request& request_;
  const Active active_;
  Rebuild out_;
  std::unordered_map<const Value*, Tensor> cotangents_;
};

void check(const Graph& g, const Request& request) {
  for (size_t i : request.inputs) {
    TOROID_CHECK(i < g.inputs.size(), "a gradient of input {} of {}", i, g.inputs.size());
    const DType t = g.inputs[i].value->type.dtype;
    TOROID_USER_CHECK(has_gradient(t), "input \"{}\" is of dtype {}; only float tensors have gradients", g.inputs[i].name, name_of(t));
  }
  if (request.takes_cotangents) return;
  const auto first = std::find_if(g.outputs.begin(), g.outputs.end(), [](auto& o) { return o.mutates < 0; });
  TOROID_USER_CHECK(first != g.outputs.end() && first->value, "a function without result has no gradient; return the loss first");
  const TensorType& type = first->value->type;
  TOROID_USER_CHECK(is_float(type.dtype) && sym::known({sym::Rel::Eq, type.numel(), 1}).value_or(false),
                    "the first result is {}; gradients are of one float, so reduce it, as with sum() or mean()", to_string(type));
}

}  // namespace

std::vector<bool> follows_from(const Graph& g, const std::vector<size_t>& inputs) {
  const Active active(g, inputs);
  std::vector<bool> out;
  for (auto& o : g.outputs) out.push_back(o.value && active.holds(o.value));
  return out;
}

Value* contents_with_history_of(const Value& input, Value* written) {
  const auto is_kept = [](const Value* v) { return v->producer && v->producer->op->name == "prims.with_history"; };
  if (!is_kept(written)) return nullptr;
  const Value* history = written;
  while (is_kept(history)) history = std::get<Value*>(history->producer->args[0]);
  return history == &input ? std::get<Value*>(written->producer->args[1]) : nullptr;
}

std::unique_ptr<Graph> differentiate(const Graph& g, const Request& request) {
  check(g, request);
  const auto projected = request.takes_cotangents ? nullptr : with_projected_losses(g);
  const auto with = with_rules(projected ? *projected : g, request);
  return Reverse(*with, request).run();
}

}  // namespace toroid::autograd
