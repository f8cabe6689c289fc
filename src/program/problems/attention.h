// Attention of queries to keys.
#pragma once

#include <optional>

#include "program/operand.h"

namespace toroid::program {

// out[b, h, i, d] = softmax over j of (scale * q[b, h, i, :] . k[b, h / (heads / kv_heads), j, :] + mask[b, h, i, j]) . v
struct Attention {
  static constexpr std::string_view kKeyword = "attention";
  Expr batch, heads, kv_heads, queries, keys;
  int64_t head_dim = 0, value_dim = 0;
  Operand q, k, v;                   // strides: b, h, position, dim
  Operand mask;                      // buffer -1: none; strides broadcast with 0; dtype Bool: false is minus infinity
  std::optional<Operand> logsumexp;  // F32, of the scores of a query, where it is wanted; strides: b, h, position
  bool causal = false;
  double scale = 1;
};

template <IsKind<Attention> P, class Visitor>
void fields(P& a, Visitor& v) {
  const auto of_heads = [&](const Expr& heads, const Expr& positions, const Expr& dim) {
    return std::vector<Expr>{a.batch, heads, positions, dim};
  };
  v.sizes("", a.batch, a.heads, a.kv_heads, a.queries, a.keys);
  v.number("head", a.head_dim);
  v.number("value", a.value_dim);
  v.operand("q", a.q, Use::Read, "the query", [&] { return of_heads(a.heads, a.queries, a.head_dim); });
  v.operand("k", a.k, Use::Read, "the key", [&] { return of_heads(a.kv_heads, a.keys, a.head_dim); });
  v.operand("v", a.v, Use::Read, "the value", [&] { return of_heads(a.kv_heads, a.keys, a.value_dim); });
  v.operand("mask", a.mask, Use::MayRead, "the mask", [&] { return of_heads(a.heads, a.queries, a.keys); });
  v.operand("logsumexp", a.logsumexp, Use::Write, "the logarithms of sums", [&] { return std::vector<Expr>{a.batch, a.heads, a.queries}; });
  v.number("scale", a.scale);
  v.flag("causal", a.causal);
}

inline std::vector<Expr> points(const Attention& a) { return {a.batch, a.heads, a.queries, a.value_dim}; }
inline Expr flops(const Attention& a) {
  const Expr all = a.batch * a.heads * a.queries * a.keys * Expr(2 * (a.head_dim + a.value_dim));
  return a.causal ? sym::floor_div(all, 2) : all;
}
// At batch, head, query, value dimension. Where all scores of a query are minus infinity, its weights are 0. The problem must outlive it.
loop::Accumulated formula(const Attention& a, const Tensors& operands);

}  // namespace toroid::program
