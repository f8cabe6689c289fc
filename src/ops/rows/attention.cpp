// Rows of scaled dot-product attention.
#include "ops/rows/attention.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "ops/rows/matmul_einsum.h"

namespace toroid::ops {

using namespace compose;

namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// Each key or value head serves `groups` query heads that follow each other.
Tensor repeat_heads(const Tensor& t, const Expr& heads) {
  Sizes sizes = sizes_of(t);
  TOROID_USER_CHECK(sizes.size() >= 3, "scaled_dot_product_attention: enable_gqa needs key and value with heads, one has {} dimensions",
                    sizes.size());
  size_t h = sizes.size() - 3;
  if (equal(sizes[h], heads)) return t;
  require({sym::Rel::Ne, sizes[h], 0}, "scaled_dot_product_attention: {} query heads and no key heads", sym::to_string(heads));
  Expr groups = sym::floor_div(heads, sizes[h]);
  require({sym::Rel::Eq, sym::mod(heads, sizes[h]), 0}, "scaled_dot_product_attention: {} query heads are not a multiple of {} key heads",
          sym::to_string(heads), sym::to_string(sizes[h]));
  Sizes wide = sizes;
  wide.insert(wide.begin() + static_cast<int64_t>(h) + 1, groups);
  sizes[h] = heads;
  return reshape(expand(unsqueeze(t, static_cast<int64_t>(h) + 1), wide), sizes);
}

// 0 for rows of nothing but -inf (masked altogether, or by overflow), where softmax would divide 0 by 0.
Tensor safe_softmax(const Tensor& scores) {
  Tensor p = call1("_softmax", {scores, Expr(-1), false});
  Tensor alive = call1("any.dim", {call1("ne.Scalar", {scores, kMinusInf}), Expr(-1), true});
  return where(alive, p, call1("scalar_tensor", {0.0, p.dtype()}));
}

}  // namespace

AttentionCall attention_call(const CallReader& c) {
  AttentionCall out{c.tensor("query"), c.tensor("key"), c.tensor("value"), c.opt_tensor("attn_mask")};
  out.causal = c.flag("is_causal");
  // Rows without the parameter take fewer key heads as they are, as ATen's flash attention.
  out.grouped = c.op().schema.find("enable_gqa") < 0 || c.flag("enable_gqa");
  if (c.has("scale")) out.scale = c.real("scale");
  out.fixed_width = c.op().has_template || !out.scale;
  out.name = c.op().name;
  return out;
}

Tensor scores_product(const AttentionCall& c, const Tensor& a, const Tensor& b) {
  return is_half(a.dtype()) ? compose_matmul(c.name, a, b, compute_type(a.dtype())) : call1("matmul", {a, b});
}

Attention attention_weights(const AttentionCall& c) {
  Tensor q = c.query, k = c.key, v = c.value;
  TOROID_USER_CHECK(q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2,
                    "{}: query, key and value must have at least 2 dimensions, got {}, {} and {}", c.name, q.dim(), k.dim(), v.dim());
  if (c.grouped && q.dim() >= 3) {
    k = repeat_heads(k, extent(q, -3));
    v = repeat_heads(v, extent(q, -3));
  }
  Attention a{q, k, v};
  const int64_t width = c.fixed_width ? fixed_extent(q, -1) : 0;
  a.scale = c.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<int64_t>(width, 1))));
  a.scores = call1("mul.Scalar", {scores_product(c, q, transpose(k, -2, -1)), a.scale});
  if (c.causal) {
    TOROID_USER_CHECK(!c.mask.defined(), "{}: give either attn_mask or is_causal, not both", c.name);
    Tensor seen = call1("ge.Tensor", {unsqueeze(arange(extent(q, -2)), 1), arange(extent(k, -2))});
    a.scores = where(seen, a.scores, call1("scalar_tensor", {kMinusInf, a.scores.dtype()}));
  }
  if (c.mask.defined()) {
    a.scores = is_bool(c.mask.dtype()) ? where(c.mask, a.scores, call1("scalar_tensor", {kMinusInf, a.scores.dtype()}))
                                       : add(a.scores, cast(c.mask, a.scores.dtype()));
  }
  a.weights = safe_softmax(a.scores);
  return a;
}

namespace {

struct Attended : Attention {
  Tensor output;
};

Attended attend(const CallReader& c) {
  Attended a{attention_weights(attention_call(c)), {}};
  if (double p = c.real("dropout_p"); p > 0) a.weights = call1("dropout", {a.weights, p, true});
  a.weights = cast(a.weights, a.query.dtype());
  a.output = call1("matmul", {a.weights, a.value});
  return a;
}

std::vector<Tensor> with_logsumexp(const CallReader& c) {
  Attended a = attend(c);
  return {a.output, call1("logsumexp", {a.scores, Sizes{Expr(-1)}, false})};
}

// The logarithms of sums are for templates.
std::vector<Tensor> backward(const CallReader& c) {
  TOROID_USER_CHECK(c.real("dropout_p") == 0, "{}: the weights that were dropped are not known", c.op().name);
  const auto gradients = attention_gradients(attention_call(c), {c.tensor("out"), c.tensor("grad_out")}, {true, true, true, false});
  return {gradients.begin(), gradients.begin() + 3};
}

}  // namespace

void add_attention_rows(Table& t) {
  t.composite(
       "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool "
       "is_causal=False, "
       "*, float? scale=None, bool enable_gqa=False) -> Tensor",
       [](const CallReader& c) -> std::vector<Tensor> { return {attend(c).output}; })
      .has_template = true;
  t.composite(
       "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, "
       "Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
       with_logsumexp)
      .has_template = true;
  t.composite(
      "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor "
      "logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, "
      "Tensor grad_value)",
      backward);
  t.composite(
      "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
      "bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
      [](const CallReader& c) -> std::vector<Tensor> {
        TOROID_USER_CHECK(!c.has("dropout_mask"), "_scaled_dot_product_attention_math: dropout_mask is not supported; use dropout_p");
        Attended a = attend(c);
        return {a.output, a.weights};
      });
}

}  // namespace toroid::ops
