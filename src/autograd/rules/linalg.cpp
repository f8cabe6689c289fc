// Gradients of factorizations and of what is solved with them, for real matrices.
//
// The formulas are those of Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
// differentiation" (2008), Murray, "Differentiation of the Cholesky decomposition" (2016), and Walter and Lehmann, "Algorithmic
// differentiation of linear algebra functions with application in optimum experimental design" (2010). T: transposed.
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

Tensor lower(const Tensor& t, int64_t diagonal = 0) { return ops::call1("tril", {t, num(diagonal)}); }
Tensor upper(const Tensor& t, int64_t diagonal = 0) { return ops::call1("triu", {t, num(diagonal)}); }
Tensor diagonal(const Tensor& t) { return ops::call1("diag_embed", {t}); }
Tensor negative(const Tensor& t) { return unary("neg", t); }
Tensor columns(const Tensor& t, const Expr& from, const Expr& to) { return slice(t, t.dim() - 1, from, to); }
Tensor rows(const Tensor& t, const Expr& from, const Expr& to) { return slice(t, t.dim() - 2, from, to); }
Expr row_count(const Tensor& t) { return size_at(t, t.dim() - 2); }
Expr column_count(const Tensor& t) { return size_at(t, t.dim() - 1); }
Tensor joined(const Tensor& a, const Tensor& b, int64_t dim) { return ops::call1("cat", {std::vector<Tensor>{a, b}, num(dim)}); }
// X of A X = B, or of X A = B, for a triangular A.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool is_upper, bool left = true, bool unit = false) {
  return ops::call1("linalg_solve_triangular", {a, b, is_upper, left, unit});
}
void require_real(const GradientCall& c) {
  TOROID_USER_CHECK(!is_complex(c.results[0].dtype()), "{}: gradients of complex matrices are not supported", c.op().name);
}
// t with its diagonal halved, plus its transpose: both halves of a symmetric matrix from one.
Tensor symmetric_of(const Tensor& t) { return mul(add(t, flipped(t)), 0.5); }

void inverse_rule(GradientCall& c) {
  require_real(c);
  const Tensor xt = flipped(c.results[0]);
  c.set("A", negative(product(product(xt, c.cotangent()), xt)));
}

Tensor identity_times(const Tensor& factors, const Tensor& like) {
  const Tensor one = full({row_count(like)}, 1, like.dtype());
  return diagonal(mul(unsqueeze(factors, factors.dim()), one));
}

// inverse(L transposed(L)) of a triangular L, or of transposed(U) U.
void cholesky_inverse_rule(GradientCall& c) {
  require_real(c);
  const bool is_upper = c.flag("upper");
  const Tensor g = c.cotangent(), both = product(product(c.results[0], add(g, flipped(g))), c.results[0]);
  const Tensor factor = c.tensor("self");
  c.set("self", negative(is_upper ? upper(product(upper(factor), both)) : lower(product(both, lower(factor)))));
}

// The gradient of a matrix by its factors: LU and pivots as linalg_lu_factor_ex gives them, g the cotangent of LU.
Tensor lu_factor_gradient(const Tensor& lu, const Tensor& pivots, const Tensor& g);

// Derivatives of the rules below reach the factors that they read.
Tensor with_factors(const GradientCall& c, size_t lu, const Tensor& of_a) {
  if (!c.cotangents[lu].defined()) return of_a;
  return add(of_a, lu_factor_gradient(c.results[lu], c.results[lu + 1], c.cotangents[lu]));
}

// d det = det tr(inverse(A) dA).
void determinant_rule(GradientCall& c) {
  require_real(c);
  const Tensor scaled =
      identity_times(planted(GradientBug::DeterminantFactor) ? c.cotangent() : mul(c.cotangent(), c.results[0]), c.results[1]);
  c.set("A", with_factors(c, 1, ops::call1("linalg_lu_solve", {c.results[1], c.results[2], scaled, true, true})));
}
void logdet_rule(GradientCall& c) {
  require_real(c);
  const Tensor scaled = identity_times(c.cotangent(1), c.results[2]);
  c.set("A", with_factors(c, 2, ops::call1("linalg_lu_solve", {c.results[2], c.results[3], scaled, true, true})));
}

void solve_rule(GradientCall& c) {
  require_real(c);
  const Tensor a = c.tensor("A"), b = c.tensor("B");
  const bool left = c.flag("left");
  const bool is_vector = b.dim() == 1 || (a.dim() - 1 == b.dim() && same_sizes(sizes_of(b), [&] {
                                            Sizes s = sizes_of(a);
                                            s.pop_back();
                                            return s;
                                          }()));
  const auto matrix = [&](const Tensor& t) { return is_vector ? unsqueeze(t, t.dim()) : t; };
  const Tensor x = matrix(c.results[0]);
  const Tensor of_b =
      ops::call("_linalg_solve_ex", {planted(GradientBug::SolveTransposed) ? a : flipped(a), matrix(c.cotangent()), left, false})[0];
  if (c.wants("A")) c.set("A", negative(left ? product(of_b, flipped(x)) : product(flipped(x), of_b)));
  if (c.wants("B")) c.set("B", is_vector ? select(of_b, of_b.dim() - 1, 0) : of_b);
}

void solve_triangular_rule(GradientCall& c) {
  require_real(c);
  const bool is_upper = c.flag("upper"), left = c.flag("left"), unit = c.flag("unitriangular");
  const Tensor x = c.results[0], of_b = solve_triangular(flipped(c.tensor("self")), c.cotangent(), !is_upper, left, unit);
  if (c.wants("self")) {
    const Tensor whole = negative(left ? product(of_b, flipped(x)) : product(flipped(x), of_b));
    c.set("self", is_upper ? upper(whole, unit) : lower(whole, -static_cast<int64_t>(unit)));
  }
  c.set("B", of_b);
}

void cholesky_rule(GradientCall& c) {
  require_real(c);
  const bool is_upper = c.flag("upper");
  const Tensor l = is_upper ? flipped(c.results[0]) : c.results[0], g = is_upper ? flipped(c.cotangent()) : c.cotangent();
  const Tensor inner = product(flipped(l), g);
  const Tensor phi = add(lower(inner, -1), mul(diagonal(ops::call1("diagonal", {inner, num(0), num(-2), num(-1)})),
                                               planted(GradientBug::CholeskyDiagonal) ? 1.0 : 0.5));
  c.set("self", symmetric_of(solve_triangular(l, solve_triangular(flipped(l), phi, true), false, false)));
}

// From the gradients of L and U (A = P L U) to that of A.
Tensor lu_gradient(const Tensor& p, const Tensor& l, const Tensor& u, const Tensor& of_l, const Tensor& of_u) {
  const Expr m = row_count(l), n = column_count(u), k = column_count(l);
  const Tensor l1 = rows(l, 0, k), u1 = columns(u, 0, k);
  Tensor below = product(flipped(l1), rows(of_l, 0, k)), above = product(columns(of_u, 0, k), flipped(u1));
  const bool is_tall = !(m == k), is_wide = !(n == k);
  if (is_tall) above = sub(above, product(flipped(rows(l, k, m)), rows(of_l, k, m)));
  if (is_wide) below = sub(below, product(columns(of_u, k, n), flipped(columns(u, k, n))));
  const auto after_l = [&](const Tensor& t) { return solve_triangular(flipped(l1), t, true, true, true); };
  Tensor out = after_l(solve_triangular(flipped(u1), add(lower(below, -1), upper(above)), false, false));
  if (is_tall) out = joined(out, solve_triangular(flipped(u1), rows(of_l, k, m), false, false), out.dim() - 2);
  if (is_wide) out = joined(out, after_l(columns(of_u, k, n)), out.dim() - 1);
  return product(p, out);
}

Tensor lu_factor_gradient(const Tensor& lu, const Tensor& pivots, const Tensor& g) {
  const auto parts = ops::call("lu_unpack", {lu, pivots, true, true});
  const Expr k = column_count(parts[1]);
  return lu_gradient(parts[0], parts[1], parts[2], lower(columns(g, 0, k), -1), upper(rows(g, 0, k)));
}

void lu_factor_rule(GradientCall& c) {
  require_real(c);
  c.set("A", lu_factor_gradient(c.results[0], c.results[1], c.cotangent()));
}

void lu_unpack_rule(GradientCall& c) {
  const Sizes sizes = sizes_of(c.tensor("LU_data"));
  c.set("LU_data", add(fit(lower(c.cotangent(1), -1), sizes), fit(upper(c.cotangent(2)), sizes)));
}

// L U X = transposed(P) B, or transposed: transposed(U) transposed(L) transposed(P) X = B.
Tensor lu_solve_gradient(const GradientCall& c, const Tensor& x, const Tensor& g, bool adjoint) {
  const auto parts = ops::call("lu_unpack", {c.tensor("LU"), c.tensor("pivots"), true, true});
  const Tensor &p = parts[0], &l = parts[1], &u = parts[2];
  if (!adjoint) {
    const Tensor of_y = solve_triangular(flipped(u), g, false), of_b = solve_triangular(flipped(l), of_y, true, true, true);
    return negative(add(upper(product(of_y, flipped(x))), lower(product(of_b, flipped(product(u, x))), -1)));
  }
  const Tensor w = product(flipped(p), x), z = product(flipped(l), w);
  const Tensor of_z = solve_triangular(l, product(flipped(p), g), false, true, true), of_b = solve_triangular(u, of_z, true);
  return negative(add(lower(product(w, flipped(of_z)), -1), upper(product(z, flipped(of_b)))));
}

void lu_solve_rule(GradientCall& c) {
  require_real(c);
  const bool left = c.flag("left"), adjoint = c.flag("adjoint");
  const Tensor g = c.cotangent(), x = c.results[0];
  if (c.wants("LU")) c.set("LU", left ? lu_solve_gradient(c, x, g, adjoint) : lu_solve_gradient(c, flipped(x), flipped(g), !adjoint));
  if (c.wants("B")) c.set("B", ops::call1("linalg_lu_solve", {c.at("LU"), c.at("pivots"), g, left, !adjoint}));
}

// values[j] - values[i], and 1 on the diagonal.
Tensor gaps(const Tensor& values) {
  const Tensor gap = sub(unsqueeze(values, values.dim() - 1), unsqueeze(values, values.dim()));
  return add(planted(GradientBug::EighGaps) ? negative(gap) : gap, diagonal(ones_like(values)));
}
// t without its symmetric part.
Tensor turned(const Tensor& t) { return sub(t, flipped(t)); }

void eigh_rule(GradientCall& c) {
  require_real(c);
  Tensor values = c.results[0], vectors = c.results[1];
  if (!c.flag("compute_v")) {
    const auto both = ops::call("_linalg_eigh", {c.at("A"), c.at("UPLO"), true});
    values = both[0], vectors = both[1];
  }
  Tensor inner = diagonal(c.cotangent(0));
  if (c.cotangents[1].defined() && c.flag("compute_v"))
    inner = add(inner, div(mul(turned(product(flipped(vectors), c.cotangents[1])), 0.5), gaps(values)));
  c.set("A", product(product(vectors, inner), flipped(vectors)));
}

void svd_rule(GradientCall& c) {
  require_real(c);
  std::vector<Tensor> factors = c.results;
  const bool has_vectors = c.flag("compute_uv");
  if (!has_vectors) factors = ops::call("_linalg_svd", {c.at("A"), false, true, std::monostate{}});
  const Tensor s = factors[1];
  const Expr k = column_count(s);
  const Tensor u = columns(factors[0], 0, k), vt = rows(factors[2], 0, k), v = flipped(vt);
  Tensor inner = diagonal(c.cotangent(1));
  Tensor beyond;  // what leaves the spaces of U and V
  const auto add_beyond = [&](const Tensor& t) { beyond = beyond.defined() ? add(beyond, t) : t; };
  const Tensor along_rows = unsqueeze(s, s.dim()), along_columns = unsqueeze(s, s.dim() - 1), squares = gaps(mul(s, s));
  if (has_vectors && c.cotangents[0].defined()) {
    const Tensor g = columns(c.cotangents[0], 0, k), inside = product(flipped(u), g);
    inner = add(inner, mul(div(turned(inside), squares), along_columns));
    if (!(row_count(u) == k)) add_beyond(product(div(sub(g, product(u, inside)), along_columns), vt));
  }
  if (has_vectors && c.cotangents[2].defined()) {
    const Tensor g = flipped(rows(c.cotangents[2], 0, k)), inside = product(vt, g);
    inner = add(inner, mul(along_rows, div(turned(inside), squares)));
    if (!(row_count(v) == k)) add_beyond(product(u, flipped(div(sub(g, product(v, inside)), along_columns))));
  }
  const Tensor within = product(product(u, inner), vt);
  c.set("A", beyond.defined() ? add(within, beyond) : within);
}

void qr_rule(GradientCall& c) {
  require_real(c);
  const std::string mode = c.text("mode");
  const Tensor a = c.tensor("A"), q = c.results[0], r = c.results[1];
  const Expr m = row_count(a), n = column_count(a);
  const bool is_wide = sym::known({sym::Rel::Lt, m, n}).value_or(false);
  TOROID_USER_CHECK(mode != "r" && (mode == "reduced" || column_count(q) == column_count(r)),
                    "linalg_qr: gradients need mode \"reduced\", or a matrix with no more rows than columns");
  Tensor of_q = c.cotangent(0), of_r = c.cotangent(1), r1 = r, of_rest;
  if (is_wide) {  // the columns beyond the square are R2 = transposed(Q) A2
    const Tensor of_r2 = columns(of_r, m, n);
    of_q = add(of_q, product(columns(a, m, n), flipped(of_r2)));
    of_rest = product(q, of_r2);
    r1 = columns(r, 0, m), of_r = columns(of_r, 0, m);
  }
  const Tensor inner = upper(sub(product(of_r, flipped(r1)), product(flipped(q), of_q)));
  const Tensor both = add(upper(inner, 1), flipped(inner));
  const Tensor first = solve_triangular(flipped(r1), add(of_q, product(q, both)), false, false);
  c.set("A", is_wide ? joined(first, of_rest, first.dim() - 1) : first);
}

// The exponential of [[T(A), g], [0, T(A)]] has the gradient in its corner (Najfeld and Havel, 1995).
void matrix_exp_rule(GradientCall& c) {
  require_real(c);
  const Tensor at = flipped(c.tensor("self")), g = c.cotangent();
  const int64_t last = at.dim() - 1;
  const Expr n = size_at(at, last);
  const Tensor whole = joined(joined(at, g, last), joined(zeros_like(at), at, last), last - 1);
  c.set("self", columns(rows(ops::call1("linalg_matrix_exp", {whole}), 0, n), n, n * Expr(2)));
}

// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate" (1973). By way
// of the factors it would depend on gaps between singular values that are 0.
void pseudo_inverse_rule(GradientCall& c) {
  require_real(c);
  const Tensor a = c.tensor("self"), p = c.results[0], pt = flipped(p), gt = flipped(c.cotangent());
  if (!sym::known({sym::Rel::Gt, row_count(a), column_count(a)}).value_or(false)) {
    const Tensor k = product(gt, p), kpt = product(k, pt);
    const Tensor within = sub(kpt, product(product(a, p), kpt));
    const Tensor beyond = product(product(pt, p), sub(gt, product(k, a)));
    return c.set("self", sub(add(within, beyond), flipped(product(p, k))));
  }
  const Tensor k = product(p, gt), ptk = product(pt, k);
  const Tensor within = sub(ptk, product(product(ptk, p), a));
  const Tensor beyond = product(product(sub(gt, product(a, k)), p), pt);
  c.set("self", sub(add(within, beyond), flipped(product(k, p))));
}

// The product of the reflectors I - tau v T(v), in reverse through its partial products.
void householder_rule(GradientCall& c) {
  require_real(c);
  const auto& params = c.op().schema.params;
  const Tensor vs = c.tensor(params[0].name), taus = c.tensor(params[1].name);
  const Expr count = size_at(taus, taus.dim() - 1);
  TOROID_USER_CHECK(count.is_const(), "{}: gradients need a number of reflectors that is known when compiling", c.op().name);
  const auto n = static_cast<size_t>(count.constant());
  const Tensor ones = diagonal(full({row_count(vs)}, 1, vs.dtype()));
  std::vector<Tensor> v(n), tau(n), partial(n + 1);  // partial[i]: reflectors i, i + 1, ... times the first columns of I
  partial[n] = expand(columns(ones, 0, column_count(vs)), sizes_of(vs));
  for (size_t i = n; i-- > 0;) {
    const Expr at = static_cast<int64_t>(i);
    v[i] = add(columns(lower(vs, -1), at, at + Expr(1)), columns(ones, at, at + Expr(1)));
    tau[i] = unsqueeze(columns(taus, at, at + Expr(1)), taus.dim());
    partial[i] = sub(partial[i + 1], mul(tau[i], product(v[i], product(flipped(v[i]), partial[i + 1]))));
  }
  Tensor g = c.cotangent();
  std::vector<Tensor> of_v, of_tau;
  for (size_t i = 0; i < n; ++i) {
    const Tensor u = product(flipped(v[i]), g), w = product(flipped(v[i]), partial[i + 1]);
    of_tau.push_back(select(negative(sum(mul(u, w), {u.dim() - 1}, false)), u.dim() - 2, 0));
    of_v.push_back(negative(mul(tau[i], add(product(g, flipped(w)), product(partial[i + 1], flipped(u))))));
    g = sub(g, mul(tau[i], product(v[i], u)));
  }
  if (n == 0) return;
  c.set(params[0].name, fit(lower(ops::call1("cat", {of_v, num(-1)}), -1), sizes_of(vs)));
  c.set(params[1].name, ops::call1("stack", {of_tau, num(-1)}));
}

constexpr RuleRow kLinalgRules[] = {
    {"linalg_pinv", pseudo_inverse_rule},
    {"linalg_pinv.rcond_tensor", pseudo_inverse_rule},
    {"linalg_pinv.atol_rtol_float", pseudo_inverse_rule},
    {"linalg_pinv.atol_rtol_tensor", pseudo_inverse_rule},
    {"linalg_householder_product", householder_rule},
    {"orgqr", householder_rule},
    {"linalg_inv_ex", inverse_rule},
    {"_linalg_det", determinant_rule},
    {"_linalg_slogdet", logdet_rule},
    {"_linalg_solve_ex", solve_rule},
    {"linalg_solve_triangular", solve_triangular_rule},
    {"linalg_cholesky_ex", cholesky_rule},
    {"cholesky_inverse", cholesky_inverse_rule},
    {"linalg_lu_factor_ex", lu_factor_rule},
    {"lu_unpack", lu_unpack_rule},
    {"linalg_lu_solve", lu_solve_rule},
    {"_linalg_eigh", eigh_rule},
    {"_linalg_svd", svd_rule},
    {"linalg_qr", qr_rule},
    {"linalg_matrix_exp", matrix_exp_rule},
};

}  // namespace

std::span<const RuleRow> linalg_rules() { return kLinalgRules; }

}  // namespace toroid::autograd
