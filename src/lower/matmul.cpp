// Matrix products and attention: problems with several implementations, or loops where no template fits.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/mutants.h"
#include "lower/template_node.h"

namespace toroid::lower {

using loop::BodyBuilder;

namespace {

// An element of an operand. What is computed where it is read is rounded as what is in memory is: products of few terms cancel.
S element(BodyBuilder& b, const Lazy& operand, const Index& index, DType compute) {
  const S value = operand.at(b, index);
  return cast(operand.place || !is_half(operand.dtype) ? value : cast(value, operand.dtype), compute);
}

// out[batch, m, n] = sum_k a * b as a reduction loop: any dtype, any size.
void matmul_loop(Lowering& l, const graph::Node& n, const Lazy& a, const Lazy& b, const Place& out) {
  const TensorType& type = n.results[0]->type;
  DType compute = ops::compute_type(type.dtype);
  program::Node node;
  Index index;
  for (auto& s : type.sizes) {
    index.push_back(l.fresh_var(s, false));
    if (!index.back().is_const()) node.domain.vars.push_back({index.back(), false});
  }
  Expr k = l.fresh_var(a.sizes.back(), true);
  if (!k.is_const()) node.domain.vars.push_back({k, true});
  BodyBuilder builder(node.body);
  Index ai = index, bi = index;
  ai.back() = k;
  bi[bi.size() - 2] = k;
  const S left = element(builder, a, ai, compute), product = left * element(builder, b, bi, compute);
  builder.store(out.buffer, type.dtype, flat_index(out, index), k.is_const() ? product : builder.reduce(loop::Reduction::Sum, product));
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
}

}  // namespace

void lower_matmul(Lowering& l, const graph::Node& n) {
  const graph::Value *av = std::get<graph::Value*>(n.args[0]), *bv = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  for (auto& s : av->type.sizes)
    if (constant(s) == 0) return l.lower_extern(n);
  for (auto& s : type.sizes)
    if (constant(s) == 0) return l.lower_extern(n);
  Place out = l.allocate(n.results[0]->name, type);
  program::Gemm g;
  g.batch.assign(type.sizes.begin(), type.sizes.end() - 2);
  g.m = type.sizes[type.sizes.size() - 2];
  g.n = type.sizes.back();
  g.k = av->type.sizes.back();
  g.a.dtype = av->type.dtype;
  g.b.dtype = bv->type.dtype;
  g.tf32 = rounds_to_tf32(l, g.a.dtype);
  const bool fits = template_dtype(g.a.dtype) && g.b.dtype == g.a.dtype && (type.dtype == g.a.dtype || type.dtype == g.accumulate);
  bool taken = fits && l.takes(g, is_constant(l, bv));
  if (taken) {
    g.a = operand_of(l.strided(av), av->type.dtype);
    g.b = operand_of(l.strided(bv), bv->type.dtype);
    taken = l.takes(g, is_constant(l, bv));
  }
  if (taken) {
    program::Node node;
    node.problem = g;
    store_accumulator(l, node, type.sizes, out, g.accumulate, type.dtype);
    l.append(std::move(node), n.results[0]);
    return define_template_result(l, n, out);
  } else {
    Lazy a = l.value(av), b = l.value(bv);
    if (!a.place && a.work > 2) l.realize(av), a = l.value(av);
    if (!b.place && b.work > 2) l.realize(bv), b = l.value(bv);
    matmul_loop(l, n, a, b, out);
  }
  l.define(n.results[0], l.at_place(type, out));
}

// Whole numbers of 8 bits: a template where the target has one, else a loop.
void lower_whole_matmul(Lowering& l, const graph::Node& n) {
  const graph::Value *av = std::get<graph::Value*>(n.args[0]), *bv = std::get<graph::Value*>(n.args[1]);
  const TensorType& type = n.results[0]->type;
  for (auto& sizes : {av->type.sizes, type.sizes})
    for (auto& s : sizes)
      if (constant(s) == 0) return l.lower_extern(n);
  program::Gemm g;
  g.m = type.sizes[0];
  g.n = type.sizes[1];
  g.k = av->type.sizes[1];
  g.b = operand_of(l.strided(bv), bv->type.dtype);
  g.a.dtype = av->type.dtype;
  g.accumulate = type.dtype;
  const bool constant_b = l.program().buffers[static_cast<size_t>(g.b.buffer)].kind == loop::BufferKind::Constant;
  if (l.takes(g, constant_b)) {
    g.a = operand_of(l.strided(av), av->type.dtype);
    Place out = l.allocate(n.results[0]->name, type);
    program::Node node;
    node.problem = g;
    store_accumulator(l, node, type.sizes, out, g.accumulate, type.dtype);
    l.append(std::move(node), n.results[0]);
    return define_template_result(l, n, out);
  }
  l.realize(av);
  Place out = l.allocate(n.results[0]->name, type);
  matmul_loop(l, n, l.value(av), l.value(bv), out);
  l.define(n.results[0], l.at_place(type, out));
}

namespace {

// The tensor that a parameter was given, or null.
const graph::Value* given(const graph::Node& n, std::string_view param) {
  const auto* v = std::get_if<graph::Value*>(&n.args[static_cast<size_t>(n.op->schema.find(param))]);
  return v ? *v : nullptr;
}

// The problem of an attention with results of these sizes, or of its gradient, but for its operands; nothing where its sizes are those of
// no template: the queries have all rows and heads of the results, not a mask or keys that they are broadcast to, and each key its value.
std::optional<program::Attention> read_attention(Lowering& l, const graph::Node& n, const ops::TypeReader& r,
                                                 const std::vector<Expr>& out) {
  const graph::Value *q = given(n, "query"), *k = given(n, "key"), *v = given(n, "value");
  const auto &queries = q->type.sizes, &keys = k->type.sizes, &values = v->type.sizes;
  bool whole = l.options().templates() && queries.size() == 4 && keys.size() == 4 && values.size() == 4 && constant(queries[3]) &&
               constant(values[3]) && r.real("dropout_p") == 0 && keys[0] == queries[0] && values[0] == queries[0] &&
               values[1] == keys[1] && values[2] == keys[2];
  whole = whole && out == std::vector<Expr>{queries[0], queries[1], queries[2], values[3]};
  for (auto* sizes : {&queries, &keys, &values})
    for (auto& s : *sizes) whole = whole && constant(s) != 0;
  // "Causal" compares positions from the first query and key on; the template aligns the last ones.
  if (whole && r.flag("is_causal")) whole = queries[2] == keys[2];
  if (!whole) return std::nullopt;
  program::Attention a;
  a.batch = queries[0];
  a.heads = queries[1];
  a.kv_heads = keys[1];
  a.queries = queries[2];
  a.keys = keys[2];
  a.head_dim = queries[3].constant();
  a.value_dim = values[3].constant();
  a.causal = r.flag("is_causal") && !mutant(Mutant::LostCausal);
  a.scale = r.opt_number("scale") ? r.real("scale") : 1 / std::sqrt(static_cast<double>(a.head_dim));
  return a;
}

program::Operand realized(Lowering& l, const graph::Value* v) { return operand_of(l.strided(v), v->type.dtype); }

// In memory as [batch, position, head, dim]: the transpose and reshape that follow are then free.
std::vector<Expr> positions_first(const std::vector<Expr>& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[1] * sizes[3], 1};
}

// A new dense buffer of numbers for each query.
program::Operand new_rows(Lowering& l, const std::string& name, const program::Attention& a) {
  const std::vector<Expr> sizes = {a.batch, a.heads, a.queries};
  return {l.program().new_buffer(name, DType::F32, program::product(sizes), loop::BufferKind::Temporary), DType::F32, 0,
          dense_strides(sizes)};
}

Place place_of(const program::Operand& o) { return {o.buffer, o.offset, o.strides}; }

}  // namespace

void lower_attention(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  std::optional<program::Attention> problem = read_attention(l, n, r, n.results[0]->type.sizes);
  if (!problem) return l.lower_composite(n);
  program::Attention& a = *problem;
  a.q = realized(l, given(n, "query"));
  a.k = realized(l, given(n, "key"));
  a.v = realized(l, given(n, "value"));
  if (const graph::Value* mask = given(n, "attn_mask")) {
    Place p = l.strided(mask);
    a.mask = operand_of(p, mask->type.dtype);
    a.mask.strides.assign(4, 0);
    size_t lead = 4 - mask->type.sizes.size();
    for (size_t d = 0; d < mask->type.sizes.size(); ++d)
      if (mask->type.sizes[d] != Expr(1) && !(mutant(Mutant::MaskBroadcast) && d == 0)) a.mask.strides[d + lead] = p.strides[d];
  }
  const graph::Value* logsumexp = n.results.size() > 1 && l.uses(n.results[1]) > 0 ? n.results[1] : nullptr;
  if (logsumexp) a.logsumexp = program::Operand{};
  if (!l.takes(a)) return l.lower_composite(n);
  if (logsumexp) a.logsumexp = new_rows(l, logsumexp->name, a);
  program::Node node;
  node.problem = a;
  const TensorType& type = n.results[0]->type;
  Place out;
  out.buffer = l.program().new_buffer(n.results[0]->name, type.dtype, type.numel(), loop::BufferKind::Temporary);
  out.strides = positions_first(type.sizes);
  store_accumulator(l, node, type.sizes, out, DType::F32, type.dtype);
  l.append(std::move(node), n.results[0]);
  define_template_result(l, n, out);
  if (n.results.size() > 1)
    l.define(n.results[1], logsumexp ? l.at_place(logsumexp->type, place_of(*a.logsumexp)) : l.nothing(n.results[1]->type));
}

// The row sums before the problem, and zeros that it adds the gradient of the queries to, are loops.
void lower_attention_backward(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader r(*n.op, types);
  const graph::Value *grad_out = given(n, "grad_out"), *out = given(n, "out"), *logsumexp = given(n, "logsumexp");
  const auto forward = given(n, "attn_mask") ? std::nullopt : read_attention(l, n, r, out->type.sizes);
  if (!forward) return l.lower_composite(n);
  program::AttentionBackward a;
  a.batch = forward->batch, a.heads = forward->heads, a.kv_heads = forward->kv_heads;
  a.queries = forward->queries, a.keys = forward->keys, a.head_dim = forward->head_dim, a.value_dim = forward->value_dim;
  a.causal = forward->causal, a.scale = forward->scale;
  a.ordered = l.options().options.get(options::kOrderedSums);
  a.q = realized(l, given(n, "query"));
  a.k = realized(l, given(n, "key"));
  a.v = realized(l, given(n, "value"));
  a.grad_out = realized(l, grad_out);
  program::Operand* const gradients[] = {&a.grad_query, &a.grad_key, &a.grad_value};
  for (size_t i = 0; i < 3; ++i)
    *gradients[i] = {-1, i == 0 ? DType::F32 : n.results[i]->type.dtype, 0, positions_first(n.results[i]->type.sizes)};
  if (!l.takes(a)) return l.lower_composite(n);
  a.logsumexp = realized(l, logsumexp);
  a.row_sums = new_rows(l, "row_sums", *forward);
  for (size_t i = 0; i < 3; ++i)
    gradients[i]->buffer =
        l.program().new_buffer(n.results[i]->name, gradients[i]->dtype, n.results[i]->type.numel(), loop::BufferKind::Temporary);
  program::Node sums;
  Index index;
  for (size_t d = 0; d < 4; ++d) {
    index.push_back(l.fresh_var(out->type.sizes[d], d == 3));
    if (!index.back().is_const()) sums.domain.vars.push_back({index.back(), d == 3});
  }
  BodyBuilder b(sums.body);
  const S result = cast(l.value(out).at(b, index), DType::F32), product = cast(l.value(grad_out).at(b, index), DType::F32) * result;
  b.store(a.row_sums.buffer, DType::F32, flat_index(place_of(a.row_sums), {index[0], index[1], index[2]}),
          index[3].is_const() ? product : b.reduce(loop::Reduction::Sum, product));
  loop::eliminate_dead(sums.body);
  l.append(std::move(sums), n.results[0]);
  l.fill(
      {a.grad_query.buffer, 0, {1}}, DType::F32, {n.results[0]->type.numel()},
      [](BodyBuilder& into, const Index&) { return into.constant(DType::F32, Number::of(0.0)); }, n.results[0]);
  program::Node node;
  node.problem = a;
  l.append(std::move(node), n.results[0]);
  for (size_t i = 0; i < 3; ++i) {
    const TensorType& type = n.results[i]->type;
    Lazy result = l.at_place({gradients[i]->dtype, type.sizes, {}}, place_of(*gradients[i]));
    if (gradients[i]->dtype != type.dtype) {
      result.place.reset();
      result.dtype = type.dtype;
    }
    l.define(n.results[i], std::move(result));
  }
}

}  // namespace toroid::lower
