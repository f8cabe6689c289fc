#include "front/eager_control.h"

#include "base/check.h"
#include "front/eager.h"
#include "ops/call_place.h"

namespace toroid::front {
namespace {

using Tensors = std::vector<Tensor>;

const Tensors& tensors(const CallArgs& args, size_t index) {
  static const Tensors& none = *new Tensors;
  auto* v = std::get_if<Tensors>(&args.at(index));
  return v ? *v : none;
}

Tensors joined(Tensors a, const Tensors& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Tensors run_region(const graph::Graph& region, const Tensors& operands, const graph::BoundSymbols& around) {
  graph::BoundSymbols symbols = around;
  Tensors inputs;
  size_t next = 0;
  for (auto& in : region.inputs) inputs.push_back(in.kind == graph::InputKind::User ? operands.at(next++) : in.data);
  return run_nodes(region, std::move(inputs), symbols);
}

Tensors run_while(const CallArgs& args, const graph::Regions& regions, const graph::BoundSymbols& symbols) {
  Tensors carried = tensors(args, 2);
  const Tensors& extra = tensors(args, 3);
  while (run_region(*regions[0], joined(carried, extra), symbols)[0].item() != 0)
    carried = run_region(*regions[1], joined(carried, extra), symbols);
  return carried;
}

Tensors run_scan(const CallArgs& args, const graph::Regions& regions, const graph::BoundSymbols& symbols) {
  Tensors carried = tensors(args, 1);
  const Tensors &xs = tensors(args, 2), &extra = tensors(args, 3);
  const size_t count = carried.size();
  std::vector<Tensors> slices(regions[0]->outputs.size() - count);
  for (int64_t i = 0, n = xs.at(0).size(0); i < n; ++i) {
    Tensors in = carried;
    for (const Tensor& x : xs) in.push_back(ops::call1("select.int", {x, Expr(0), Expr(i)}));
    Tensors out = run_region(*regions[0], joined(std::move(in), extra), symbols);
    for (size_t k = count; k < out.size(); ++k) slices[k - count].push_back(out[k]);
    out.resize(count);
    carried = std::move(out);
  }
  for (size_t k = 0; k < slices.size(); ++k) {
    const TensorType& type = regions[0]->outputs[count + k].value->type;
    std::vector<int64_t> sizes{0};
    for (auto& e : type.sizes) sizes.push_back(symbols.value(e));
    carried.push_back(slices[k].empty() ? Tensor::empty(sizes, type.dtype, xs[0].device()) : ops::call1("stack", {slices[k], Expr(0)}));
  }
  return carried;
}

}  // namespace

Tensors run_nodes(const graph::Graph& g, Tensors inputs, graph::BoundSymbols& symbols) {
  Tensors values(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    graph::bind_sizes(symbols, g.inputs[i].value->type, inputs[i].sizes());
    values[static_cast<size_t>(g.inputs[i].value->id)] = std::move(inputs[i]);
  }
  const DispatchScope eager(EagerDispatcher::instance());
  for (auto& n : g.nodes) {
    CallArgs args;
    for (auto& a : n->args) {
      args.push_back(map_arg<Tensor>(a, [&](graph::Value* v) { return v ? values[static_cast<size_t>(v->id)] : Tensor(); }));
      if (auto* e = std::get_if<Expr>(&args.back())) *e = symbols.value(*e);
      if (auto* list = std::get_if<std::vector<Expr>>(&args.back()))
        for (auto& e : *list) e = symbols.value(e);
    }
    const ops::PlaceScope place(n->where);
    const auto results = n->regions.empty() ? EagerDispatcher::instance().call(*n->op, std::move(args), std::source_location::current())
                                            : run_control_flow(*n->op, args, n->regions, symbols);
    for (size_t i = 0; i < n->results.size(); ++i) {
      graph::bind_sizes(symbols, n->results[i]->type, results.at(i).sizes());
      values[static_cast<size_t>(n->results[i]->id)] = results[i];
    }
  }
  Tensors out;
  for (auto& o : g.outputs) out.push_back(o.value ? values[static_cast<size_t>(o.value->id)] : Tensor());
  return out;
}

Tensors run_control_flow(const ops::Op& op, const CallArgs& args, const graph::Regions& regions, const graph::BoundSymbols& symbols) {
  if (&op == &graph::while_loop_op()) return run_while(args, regions, symbols);
  if (&op == &graph::scan_op()) return run_scan(args, regions, symbols);
  TOROID_CHECK(&op == &graph::cond_op(), "{} is no control flow", op.name);
  return run_region(*regions[std::get<Tensor>(args.at(0)).item() != 0 ? 0 : 1], tensors(args, 3), symbols);
}

}  // namespace toroid::front
