#include "graph/interpreter.h"

#include "base/check.h"
#include "base/index_fault.h"
#include "graph/control_flow.h"
#include "ops/custom.h"
#include "ops/reference.h"
#include "tensor/random_state.h"

namespace toroid::graph {
namespace {

// Positions of each value's last use among the nodes; outputs are used past the end.
std::vector<size_t> last_uses(const Graph& g) {
  std::vector<size_t> last(g.values.size(), 0);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (auto* r : g.nodes[i]->results) last[static_cast<size_t>(r->id)] = i;
    for_each_operand(*g.nodes[i], [&](const Value* v) { last[static_cast<size_t>(v->id)] = i; });
  }
  for (auto& o : g.outputs)
    if (o.value) last[static_cast<size_t>(o.value->id)] = g.nodes.size();
  return last;
}

bool determines_sizes(const Graph& g, const Node& n) {
  for (auto* r : n.results)
    for (auto& s : r->type.sizes)
      if (s.kind() == sym::Kind::Symbol)
        if (auto* known = g.find_symbol(s.node()->name); known && known->unbacked) return true;
  return false;
}

// One tensor for each output (undefined for literals), mutations included. `inputs` are parallel to g.inputs.
std::vector<Tensor> run(const Graph& g, const std::vector<Tensor>& inputs, BoundSymbols& symbols) {
  std::vector<Tensor> values(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[static_cast<size_t>(g.inputs[i].value->id)] = inputs[i];
  auto last = last_uses(g);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = *g.nodes[i];
    CallArgs args;
    for (auto& a : n.args) args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? values[static_cast<size_t>(v->id)] : Tensor(); }));
    auto results = interpret_node(n, std::move(args), symbols);
    for (size_t r = 0; r < results.size(); ++r) values[static_cast<size_t>(n.results[r]->id)] = std::move(results[r]);
    if (determines_sizes(g, n)) check_sizes(g, symbols);
    auto release = [&](const Value* v) {
      if (last[static_cast<size_t>(v->id)] == i) values[static_cast<size_t>(v->id)] = Tensor();
    };
    for_each_operand(n, release);
    for (auto* r : n.results) release(r);
  }
  std::vector<Tensor> out;
  for (auto& o : g.outputs) out.push_back(o.value ? values[static_cast<size_t>(o.value->id)] : Tensor());
  return out;
}

// What an input that no caller gives holds. Taking the state of the random numbers moves their stream on.
Tensor own_input(const Input& in, const BoundSymbols& symbols) {
  return in.kind == InputKind::Random ? take_random_state(symbols.value(in.draws)) : in.data;
}

std::vector<Tensor> run_region(const Graph& region, const std::vector<Tensor>& operands, const BoundSymbols& outer) {
  BoundSymbols symbols = outer;
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (auto& in : region.inputs) inputs.push_back(in.kind == InputKind::User ? operands.at(next++) : own_input(in, symbols));
  return run(region, inputs, symbols);
}

const std::vector<Tensor>& tensors(const CallArgs& args, size_t index) {
  static const std::vector<Tensor>& none = *new std::vector<Tensor>;
  auto* v = std::get_if<std::vector<Tensor>>(&args[index]);
  return v ? *v : none;
}

std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Tensor> run_while(const Node& n, const CallArgs& args, const BoundSymbols& symbols) {
  std::vector<Tensor> carried = tensors(args, 2);
  const auto& extra = tensors(args, 3);
  while (run_region(*n.regions[0], joined(carried, extra), symbols)[0].item() != 0)
    carried = run_region(*n.regions[1], joined(carried, extra), symbols);
  return carried;
}

Tensor slice_of(const Tensor& t, int64_t index) {
  return t.as_strided(std::span(t.sizes()).subspan(1), std::span(t.strides()).subspan(1), index * t.strides()[0]);
}

std::vector<Tensor> run_scan(const Node& n, const CallArgs& args, const BoundSymbols& symbols) {
  std::vector<Tensor> carried = tensors(args, 1), stacked;
  const auto &xs = tensors(args, 2), &extra = tensors(args, 3);
  size_t count = carried.size();
  int64_t length = xs[0].sizes()[0];
  for (size_t i = count; i < n.results.size(); ++i)
    stacked.push_back(Tensor::empty(symbols.values(n.results[i]->type.sizes), n.results[i]->type.dtype));
  for (int64_t step = 0; step < length; ++step) {
    std::vector<Tensor> in = carried;
    for (auto& x : xs) in.push_back(slice_of(x, step));
    auto out = run_region(*n.regions[0], joined(std::move(in), extra), symbols);
    for (size_t i = count; i < out.size(); ++i) copy_elements(out[i], slice_of(stacked[i - count], step));
    out.resize(count);
    carried = std::move(out);
  }
  return joined(std::move(carried), stacked);
}

Tensor copy_of(const Tensor& t) {
  Tensor out = Tensor::empty(t.sizes(), t.dtype());
  copy_elements(t, out);
  return out;
}

}  // namespace

std::vector<Tensor> interpret_node(const Node& n, CallArgs args, BoundSymbols& symbols) {
  TOROID_USER_CHECK(!is_mutating(*n.op) && !ops::writes_arguments(*n.op), "{} ({}) writes in place; the functionalize pass must run first",
                    n.op->name, n.where);
  for (auto& a : args) {
    if (auto* e = std::get_if<Expr>(&a); e && !e->is_const()) *e = symbols.value(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (auto& e : *list)
        if (!e.is_const()) e = symbols.value(e);
  }
  std::vector<Tensor> out;
  if (n.op == &cond_op())
    out = run_region(*n.regions[std::get<Tensor>(args[0]).item() != 0 ? 0 : 1], tensors(args, 3), symbols);
  else if (n.op == &while_loop_op())
    out = run_while(n, args, symbols);
  else if (n.op == &scan_op())
    out = run_scan(n, args, symbols);
  else {
    const OperationPlace place(n.where);
    out = ops::evaluate(*n.op, std::move(args));
  }
  TOROID_CHECK(out.size() == n.results.size(), "{} ({}) gave {} results where the graph has {}", n.op->name, n.where, out.size(),
               n.results.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const TensorType& type = n.results[i]->type;
    bool fits = out[i].dtype() == type.dtype && out[i].dim() == type.dim() && bind_sizes(symbols, type, out[i].sizes()) < 0;
    TOROID_CHECK(fits, "result {} of {} ({}) is {} where its type is {}", i, n.op->name, n.where, to_string(out[i]), to_string(type));
  }
  return out;
}

std::vector<Tensor> interpret(const Graph& g, std::span<const Tensor> user_inputs) {
  BoundSymbols symbols = bind_inputs(g, user_inputs);
  std::vector<Tensor> inputs;
  size_t next = 0;
  for (auto& in : g.inputs) {
    inputs.push_back(in.kind == InputKind::User ? user_inputs[next++] : own_input(in, symbols));
    TOROID_USER_CHECK(inputs.back().defined(), "the input \"{}\" of the program \"{}\" has no data", in.name, g.name);
  }
  auto results = run(g, inputs, symbols);
  // A result may be an input itself, or share its memory: it keeps what it held before the inputs are overwritten.
  auto is_overwritten = [&](const Tensor& t) {
    for (auto& o : g.outputs)
      if (o.mutates >= 0 && t.defined() && t.impl()->storage == inputs[static_cast<size_t>(o.mutates)].impl()->storage) return true;
    return false;
  };
  for (auto& r : results)
    if (is_overwritten(r)) r = copy_of(r);
  std::vector<Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    if (g.outputs[i].mutates >= 0)
      copy_elements(results[i], inputs[static_cast<size_t>(g.outputs[i].mutates)]);
    else
      out.push_back(results[i]);
  }
  return out;
}

}  // namespace toroid::graph
