// Linear algebra in terms of the factorisations: pseudo-inverse, polar form, roots, and the plain names of checked factorisations.
#include <limits>

#include "ops/rows/linalg.h"

namespace toroid::ops {
namespace {

using namespace compose;

Tensor adjoint(const Tensor& t) {
  Tensor x = transpose(t, -2, -1);
  return is_complex(t.dtype()) ? call1("conj_physical", {x}) : x;
}

Tensor matmul(const Tensor& a, const Tensor& b) { return call1("matmul", {a, b}); }

// a * diag(d) * b for batches.
Tensor sandwich(const Tensor& a, const Tensor& d, const Tensor& b) { return matmul(mul(a, unsqueeze(d, -2)), b); }

double epsilon(DType t) {
  return t == DType::F64 || t == DType::C128 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// ---- pseudo-inverse ----

// Singular values up to max(atol, rtol * largest) count as 0. Either tolerance may be a number, a tensor [batch] or absent.
std::vector<Tensor> pseudo_inverse(const Tensor& a, const Operand& atol, const Operand& rtol, bool hermitian) {
  if (equal(product_of(sizes_of(a)), 0)) {
    Sizes sizes = sizes_of(a);
    std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    return {full(sizes, 0, a.dtype())};
  }
  Tensor u, s, vh;
  if (hermitian) {
    auto r = call("_linalg_eigh", {a});
    s = r[0];
    u = r[1];
    vh = adjoint(u);
  } else {
    auto r = call("_linalg_svd", {a});
    u = r[0];
    s = r[1];
    vh = r[2];
  }
  Tensor size = hermitian ? call1("abs", {s}) : s;
  Tensor largest = call1("amax", {size, Sizes{Expr(-1)}, true});
  auto given = [](const Operand& o) { return !std::holds_alternative<std::monostate>(o); };
  auto per_matrix = [&](const Operand& o) -> Operand {
    auto* t = std::get_if<Tensor>(&o);
    if (!t) return o;
    Tensor x = cast(*t, s.dtype());
    return x.dim() == 0 ? x : unsqueeze(x, -1);
  };
  Tensor limit;
  if (given(rtol)) {
    limit = mul(largest, per_matrix(rtol));
  } else {
    int64_t order = std::max(fixed_extent(a, -1), fixed_extent(a, -2));
    Tensor standard = mul(largest, epsilon(a.dtype()) * static_cast<double>(order));
    // Without rtol a positive atol alone decides.
    Operand absolute = per_matrix(atol);
    auto* t = std::get_if<Tensor>(&absolute);
    if (t) {
      const Tensor none = full({}, 0, s.dtype());
      limit = where(call1("gt.Scalar", {*t, 0.0}), none, standard);
    } else {
      limit = !given(atol) || is_value(atol, 0) ? standard : mul(largest, 0.0);
    }
  }
  if (given(atol)) {
    Operand absolute = per_matrix(atol);
    if (auto* t = std::get_if<Tensor>(&absolute))
      limit = call1("maximum", {limit, *t});
    else
      limit = call1("clamp", {limit, absolute});
  }
  const Tensor right = adjoint(u), none = full({}, 0, s.dtype()), reciprocal = call1("reciprocal", {s});
  const Tensor inverse = where(call1("gt.Tensor", {size, limit}), reciprocal, none);
  return {sandwich(adjoint(vh), inverse, right)};
}

std::vector<Tensor> pinv(const CallReader& c) { return pseudo_inverse(c.tensor("self"), c.at("atol"), c.at("rtol"), c.flag("hermitian")); }
std::vector<Tensor> pinv_rcond(const CallReader& c) {
  bool hermitian = c.op().schema.find("hermitian") >= 0 && c.flag("hermitian");
  return pseudo_inverse(c.tensor("self"), Expr(0), c.at("rcond"), hermitian);
}

// ---- roots and polar form ----

// Q sqrt(L) Q^H of a Hermitian matrix; eigenvalues below 0 are rounding errors of positive semi-definite ones.
std::vector<Tensor> square_root(const CallReader& c) {
  auto r = call("_linalg_eigh", {c.tensor("self")});
  const Tensor right = adjoint(r[1]);
  return {sandwich(r[1], call1("sqrt", {call1("clamp", {r[0], 0.0})}), right)};
}

std::vector<Tensor> polar(const CallReader& c) {
  auto r = call("_linalg_svd", {c.tensor("A")});
  return {matmul(r[0], r[2]), sandwich(adjoint(r[2]), r[1], r[2])};
}

// ---- cross product ----

std::vector<Tensor> cross_product(const CallReader& c, int64_t dim) {
  Tensor a = c.tensor("self"), b = c.tensor("other");
  int64_t rank = std::max(a.dim(), b.dim()), d = normal_dim(c.op(), dim, rank);
  TOROID_USER_CHECK(a.dim() == b.dim() && equal(extent(a, d), 3) && equal(extent(b, d), 3),
                    "{}: both operands must have size 3 in dimension {}", c.op().name, d);
  auto turned = [&](const Tensor& t, int64_t by) { return call1("index_select", {t, Expr(d), remainder(add(arange(3), Expr(by)), 3)}); };
  const auto products = [&](int64_t of_a, int64_t of_b) {
    const Tensor y = turned(b, of_b);
    return mul(turned(a, of_a), y);
  };
  const Tensor subtracted = products(2, 1);
  return {sub(products(1, 2), subtracted)};
}

std::vector<Tensor> default_cross(const CallReader& c) {
  if (c.has("dim")) return cross_product(c, c.integer("dim"));
  Tensor a = c.tensor("self");
  for (int64_t d = 0; d < a.dim(); ++d)
    if (equal(extent(a, d), 3)) return cross_product(c, d);
  fail<UserError>("cross: no dimension of the input has size 3");
}

// ---- scalar products ----

// The sum over dim of conj(x) * y. Halves are multiplied and summed in f32, as dot is.
std::vector<Tensor> vector_dot(const CallReader& c) {
  Tensor x = c.tensor("x"), y = c.tensor("y");
  const DType dtype = x.dtype();
  TOROID_USER_CHECK(dtype == y.dtype(), "{}: x is {} and y is {}; expected one dtype, cast one of them", c.op().name, name_of(dtype),
                    name_of(y.dtype()));
  TOROID_USER_CHECK(is_float(dtype) || is_complex(dtype), "{}: elements must be floats or complex numbers, they are {}", c.op().name,
                    name_of(dtype));
  if (is_complex(dtype)) x = call1("conj_physical", {x});
  const Tensor wide_y = cast(y, compute_type(dtype)), products = mul(cast(x, compute_type(dtype)), wide_y);
  return {cast(sum(products, {Expr(normal_dim(c.op(), c.integer("dim"), products.dim()))}), dtype)};
}

// Powers 0 ... n-1 of each number of a vector, as rows.
std::vector<Tensor> vandermonde(const CallReader& c) {
  Tensor x = c.tensor("x");
  if (x.dim() == 0) x = unsqueeze(x, 0);
  int64_t n = c.has("N") ? c.integer("N") : fixed_extent(x, -1);
  TOROID_USER_CHECK(n >= 1 && n < (1 << 24), "linalg_vander: N must be positive, got {}", n);
  Sizes sizes = sizes_of(x);
  sizes.push_back(Expr(1));
  Tensor ones = full(sizes, 1, x.dtype());
  if (n == 1) return {ones};
  sizes.back() = Expr(n - 1);
  return {cat({ones, call1("cumprod", {expand(unsqueeze(x, -1), sizes), Expr(-1)})}, -1)};
}

void add_plain_names(Table& t) {
  auto inverse = [](const CallReader& c) -> std::vector<Tensor> { return {call1("linalg_inv_ex", {c.args()[0], true})}; };
  t.composite("linalg_inv(Tensor A) -> Tensor", inverse);
  t.composite("inverse(Tensor self) -> Tensor", inverse);
  auto det = [](const CallReader& c) -> std::vector<Tensor> { return {call1("_linalg_det", {c.args()[0]})}; };
  t.composite("linalg_det(Tensor A) -> Tensor", det);
  t.composite("det(Tensor self) -> Tensor", det);
  auto slogdet = [](const CallReader& c) {
    auto r = call("_linalg_slogdet", {c.args()[0]});
    return std::vector<Tensor>{r[0], r[1]};
  };
  t.composite("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", slogdet);
  t.composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", slogdet);
  t.composite("logdet(Tensor self) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    auto r = call("_linalg_slogdet", {c.args()[0]});
    return {add(call1("log", {r[0]}), r[1])};
  });
  t.composite("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("_linalg_solve_ex", {c.tensor("A"), c.tensor("B"), c.flag("left"), true})};
  });
  t.composite("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", [](const CallReader& c) {
    auto r = call("linalg_lu_factor_ex", {c.tensor("A"), c.flag("pivot"), true});
    return std::vector<Tensor>{r[0], r[1]};
  });
  t.composite("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", [](const CallReader& c) {
    auto r = call("linalg_lu_factor_ex", {c.tensor("A"), c.flag("pivot")});
    return call("lu_unpack", {r[0], r[1]});
  });
  t.composite("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("linalg_cholesky_ex", {c.tensor("self"), c.flag("upper"), true})};
  });
  t.composite("cholesky(Tensor self, bool upper=False) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("linalg_cholesky_ex", {c.tensor("self"), c.flag("upper"), true})};
  });
  t.composite("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
              [](const CallReader& c) {
                return call("_linalg_svd", {c.tensor("A"), c.flag("full_matrices")});
              });
  t.composite("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call("_linalg_svd", {c.tensor("A"), false, false})[1]};
  });
  t.composite("linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)", [](const CallReader& c) {
    return call("_linalg_eigh", {c.tensor("self"), c.text("UPLO")});
  });
  t.composite("linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("_linalg_eigh", {c.tensor("self"), c.text("UPLO"), false})};
  });
  t.composite("linalg_eigvals(Tensor self) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {call1("linalg_eig", {c.tensor("self")})}; });
  t.composite("matrix_exp(Tensor self) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {call1("linalg_matrix_exp", {c.tensor("self")})}; });
}

}  // namespace

void add_linalg_composite_rows(Table& t) {
  t.composite("linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor", pinv);
  t.composite("linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor", pinv);
  t.composite("linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", pinv_rcond);
  t.composite("linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor", pinv_rcond);
  t.composite("pinverse(Tensor self, float rcond=1e-15) -> Tensor", pinv_rcond);
  t.composite("linalg_matrix_sqrth(Tensor self) -> Tensor", square_root);
  t.composite("linalg_polar(Tensor A) -> (Tensor, Tensor)", polar);
  t.composite("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor l = c.tensor("input2"), b = c.tensor("self");
    if (c.flag("upper")) l = adjoint(l);
    Tensor half = call1("linalg_solve_triangular", {l, b, false});
    return {call1("linalg_solve_triangular", {adjoint(l), half, true})};
  });
  t.composite(
      "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, "
      "Tensor cloned_coefficient)",
      [](const CallReader& c) -> std::vector<Tensor> {
        Tensor a = c.tensor("A");
        bool turned = c.flag("transpose"), upper = c.flag("upper") != turned;
        Tensor x =
            call1("linalg_solve_triangular", {turned ? transpose(a, -2, -1) : a, c.tensor("self"), upper, true, c.flag("unitriangular")});
        return {x, call1("clone", {a})};
      });
  t.composite("linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
              [](const CallReader& c) { return cross_product(c, c.integer("dim")); });
  t.composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", default_cross);
  t.composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor powers = call1("linalg_vander", {c.tensor("x"), c.at("N")});
    return {c.flag("increasing") ? powers : call1("flip", {powers, Sizes{Expr(-1)}})};
  });
  t.composite("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", vandermonde);
  t.composite("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", vector_dot);
  add_plain_names(t);
  add_linalg_norm_rows(t);
}

}  // namespace toroid::ops
