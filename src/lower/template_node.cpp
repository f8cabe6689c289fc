#include "lower/template_node.h"

namespace toroid::lower {

program::Operand operand_of(const Place& p, DType dtype) { return {p.buffer, dtype, p.offset, p.strides}; }

bool template_dtype(DType t) { return t == DType::F32 || is_half(t); }

bool rounds_to_tf32(const Lowering& l, DType t) {
  return t == DType::F32 && l.facts().tf32 && l.options().options.get(options::kAllowTf32);
}

bool is_constant(Lowering& l, const graph::Value* v) {
  const auto& place = l.value(v).place;
  return place && l.program().buffers[static_cast<size_t>(place->buffer)].kind == loop::BufferKind::Constant;
}

void define_template_result(Lowering& l, const graph::Node& n, const Place& out) {
  Lazy lazy = l.at_place(n.results[0]->type, out);
  lazy.over_template = true;
  l.define(n.results[0], std::move(lazy));
}

void store_accumulator(Lowering& l, program::Node& node, const std::vector<Expr>& sizes, const Place& out, DType accumulate, DType dtype) {
  Index index;
  for (auto& s : sizes) {
    Expr var = l.fresh_symbol(s, false);  // kept even when the extent is 1: templates name their variables
    index.push_back(s == Expr(1) ? Expr(0) : var);
    node.domain.vars.push_back({var, false});
  }
  loop::BodyBuilder b(node.body);
  b.store(out.buffer, dtype, flat_index(out, index), b.accumulator(accumulate));
}

}  // namespace toroid::lower
