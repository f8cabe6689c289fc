// Runs a graph as an eager framework would: views share memory, in-place operations write it. Independent of the functionalize pass.
#pragma once

#include <map>

#include "base/check.h"
#include "graph/graph.h"
#include "ops/reference.h"

namespace toroid::graph {

inline TensorType type_of_concrete(const Tensor& t) { return {t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}}; }

// A view on the same memory; undefined when strides cannot express it.
inline Tensor aliasing_view(const Node& n, const std::vector<Tensor>& tensors, size_t result) {
  const Tensor& self = tensors[0];
  TensorType type = type_of_concrete(self);
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : n.args) types.push_back(map_arg<const TensorType*>(a, [&](Value*) -> const TensorType* { return &type; }));
  std::vector<int64_t> sizes, strides;
  std::vector<Expr> index;
  for (auto& s : n.results[result]->type.sizes) {
    sizes.push_back(s.constant());
    index.push_back(sym::loop_symbol("i" + std::to_string(index.size()), s));
  }
  if (self.is_contiguous() && (n.op->name == "view" || n.op->name == "reshape")) return self.as_strided(sizes, contiguous_strides(sizes));
  auto from = n.op->index_map(ops::TypeReader(*n.op, types), result, index);
  Expr flat = 0;
  for (size_t d = 0; d < from.size(); ++d) flat = flat + from[d] * Expr(self.strides()[d]);
  for (auto& i : index) {
    auto c = sym::linear_coefficient(flat, i);
    if (!c) return {};
    strides.push_back(c->constant());
    flat = flat - *c * i;
  }
  return self.as_strided(sizes, strides, flat.constant());
}

inline Tensor deep_copy(const Tensor& t) {
  Tensor out = Tensor::empty(t.sizes(), t.dtype());
  copy_elements(t, out);
  return out;
}

// Runs g on (and writes to) the user inputs; returns copies of the outputs.
inline std::vector<Tensor> run_aliasing(const Graph& g, const std::vector<Tensor>& inputs) {
  std::map<const Value*, Tensor> values;
  size_t next = 0;
  for (auto& in : g.inputs) values[in.value] = in.kind == InputKind::User ? inputs[next++] : in.data;
  for (auto& n : g.nodes) {
    CallArgs args;
    std::vector<Tensor> tensors;
    for (auto& a : n->args)
      args.push_back(map_arg<Tensor>(a, [&](Value* v) -> Tensor {
        if (!v) return {};
        tensors.push_back(values.at(v));
        return tensors.back();
      }));
    if (is_mutating(*n->op)) {
      copy_elements(ops::evaluate(*n->op, args).at(0), tensors[0]);
      values[n->results[0]] = tensors[0];
      continue;
    }
    bool shares = n->op->index_map && n->op->schema.params[0].alias;
    if (n->op->name == "contiguous" && tensors[0].is_contiguous()) {
      values[n->results[0]] = tensors[0];
      continue;
    }
    auto results = ops::evaluate(*n->op, args);
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor view = shares && n->op->name != "contiguous" ? aliasing_view(*n, tensors, i) : Tensor();
      values[n->results[i]] = view.defined() ? view : results[i];
    }
  }
  std::vector<Tensor> out;
  for (auto& o : g.outputs) out.push_back(deep_copy(values.at(o.value)));
  return out;
}

}  // namespace toroid::graph
