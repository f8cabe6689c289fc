// Gradients of attention.
#pragma once

#include "program/operand.h"

namespace toroid::program {

// Of out = attention(q, k, v) (program/problems/attention.h, without a mask) what a change of `out` by grad_out changes. With the weights
// p[i, j] = exp(scale * q[i, :] . k[j, :] - logsumexp[i]) and the slopes of the scores s[i, j] = p[i, j] * (grad_out[i, :] . v[j, :] -
// row_sums[i]), where row_sums[i] = grad_out[i, :] . out[i, :]: grad_query += scale * s k, grad_key = scale * s' q, grad_value = p'
// grad_out, the last two summed over the heads that share a key head (Dao, FlashAttention-2, 2023).
struct AttentionBackward {
  static constexpr std::string_view kKeyword = "attention_backward";
  Expr batch, heads, kv_heads, queries, keys;
  int64_t head_dim = 0, value_dim = 0;
  Operand q, k, v, grad_out;     // strides: b, h, position, dim
  Operand logsumexp, row_sums;   // of F32; strides: b, h, position
  Operand grad_query;            // of F32; what is there is added to
  Operand grad_key, grad_value;  // of k's and v's dtype
  bool causal = false;           // the last query sees the last key
  bool ordered = false;          // sums are the same bits in each run
  double scale = 1;
};

template <IsKind<AttentionBackward> P, class Visitor>
void fields(P& a, Visitor& v) {
  const auto queries = [&](int64_t dim) { return std::vector<Expr>{a.batch, a.heads, a.queries, dim}; };
  const auto keys = [&](int64_t dim) { return std::vector<Expr>{a.batch, a.kv_heads, a.keys, dim}; };
  const auto of_head = [&] { return queries(a.head_dim); };
  const auto of_value = [&] { return queries(a.value_dim); };
  const auto of_key = [&] { return keys(a.head_dim); };
  const auto of_key_value = [&] { return keys(a.value_dim); };
  const auto of_row = [&] { return std::vector<Expr>{a.batch, a.heads, a.queries}; };
  v.sizes("", a.batch, a.heads, a.kv_heads, a.queries, a.keys);
  v.number("head", a.head_dim);
  v.number("value", a.value_dim);
  v.operand("q", a.q, Use::Read, "the query", of_head);
  v.operand("k", a.k, Use::Read, "the key", of_key);
  v.operand("v", a.v, Use::Read, "the value", of_key_value);
  v.operand("grad_out", a.grad_out, Use::Read, "the gradient of the result", of_value);
  v.operand("logsumexp", a.logsumexp, Use::Read, "the logarithms of sums", of_row);
  v.operand("row_sums", a.row_sums, Use::Read, "the row sums", of_row);
  v.operand("grad_query", a.grad_query, Use::Update, "the gradient of the query", of_head);
  v.operand("grad_key", a.grad_key, Use::Write, "the gradient of the key", of_key);
  v.operand("grad_value", a.grad_value, Use::Write, "the gradient of the value", of_key_value);
  v.number("scale", a.scale);
  v.flag("causal", a.causal);
  v.flag("ordered", a.ordered);
}

inline Expr flops(const AttentionBackward& a) {
  const Expr all = a.batch * a.heads * a.queries * a.keys * Expr(2 * (3 * a.head_dim + 2 * a.value_dim));
  return a.causal ? sym::floor_div(all, 2) : all;
}

// Rows whose logsumexp is minus infinity have no weights.
void compute(const AttentionBackward& a, const Tensors& operands);

}  // namespace toroid::program
