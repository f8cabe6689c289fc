// Rows of direct factorisations: LU, Cholesky, QR and their products.
#include "ops/rows/linalg.h"
#include "ops/rows/linalg_dense.h"

namespace toroid::ops {
namespace {

using Ints = std::vector<int64_t>;

// ---- LU ----

void lu_factor_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", false);
  c.result(a.dtype, a.sizes({a.m, a.n}));
  c.result(DType::I32, a.sizes({sym::min(a.m, a.n)}));
  c.result(DType::I32, a.batch);
}

void lu_factor_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    int64_t k = std::min(a.m, a.n);
    Ints pivots(static_cast<size_t>(a.count * k)), infos;
    for (int64_t i = 0; i < a.count; ++i) infos.push_back(dense::lu_factor(a.at(i), a.m, a.n, pivots.data() + i * k, c.flag("pivot")));
    check_infos(c, infos);
    store_values(c.outputs[0], a.data);
    store_values(c.outputs[1], pivots);
    store_values(c.outputs[2], infos);
  });
}

void lu_unpack_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "LU_data", false);
  const TensorType& p = *c.tensor("LU_pivots");
  TOROID_USER_CHECK(p.dim() == static_cast<int64_t>(a.batch.size()) + 1 && is_int(p.dtype),
                    "lu_unpack: pivots {} do not belong to the factors", to_string(p));
  Expr k = sym::min(a.m, a.n);
  if (c.flag("unpack_pivots")) require_equal(c, p.sizes.back(), k, "the number of pivots and the rank");
  for (size_t d = 0; d < a.batch.size(); ++d) require_equal(c, p.sizes[d], a.batch[d], "batch sizes of factors and pivots");
  bool data = c.flag("unpack_data");
  std::vector<Expr> none{Expr(0)};
  c.result(a.dtype, c.flag("unpack_pivots") ? a.sizes({a.m, a.m}) : none);
  c.result(a.dtype, data ? a.sizes({a.m, k}) : none);
  c.result(a.dtype, data ? a.sizes({k, a.n}) : none);
}

void lu_unpack_kernel(KernelCall& c) {
  with_field(c.tensor("LU_data").dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("LU_data");
    auto batch = batch_sizes(in, 2);
    auto a = load_batch<T>(in, batch);
    auto pivots = load_batch<int64_t>(c.tensor("LU_pivots"), batch, 1);
    int64_t m = a.m, n = a.n, k = std::min(m, n);
    std::vector<T> p, l, u;
    if (c.flag("unpack_pivots")) check_pivots(c, pivots.data, m);
    for (int64_t i = 0; i < a.count; ++i) {
      std::vector<T> eye(static_cast<size_t>(m * m));
      for (int64_t r = 0; r < m; ++r) eye[static_cast<size_t>(r * m + r)] = T(1);
      if (c.flag("unpack_pivots")) dense::swap_rows(eye.data(), m, pivots.at(i), k, false);
      append(p, eye);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t s = 0; s < k; ++s) l.push_back(r > s ? a.at(i)[r * n + s] : T(r == s ? 1 : 0));
      for (int64_t r = 0; r < k; ++r)
        for (int64_t s = 0; s < n; ++s) u.push_back(r <= s ? a.at(i)[r * n + s] : T(0));
    }
    if (c.flag("unpack_pivots")) store_values(c.outputs[0], p);
    if (c.flag("unpack_data")) {
      store_values(c.outputs[1], l);
      store_values(c.outputs[2], u);
    }
  });
}

// ---- Cholesky ----

void cholesky_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", true);
  c.result(a.dtype, a.sizes({a.m, a.n}));
  c.result(DType::I32, a.batch);
}

void cholesky_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    bool upper = c.flag("upper");
    Ints infos;
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      std::vector<T> x = upper ? dense::adjoint(a.at(i), a.n, a.n) : a.copy(i);
      infos.push_back(dense::cholesky(x.data(), a.n));
      append(out, upper ? dense::adjoint(x.data(), a.n, a.n) : x);
    }
    check_infos(c, infos);
    store_values(c.outputs[0], out);
    store_values(c.outputs[1], infos);
  });
}

void cholesky_inverse_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    bool upper = c.flag("upper");
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      std::vector<T> x(static_cast<size_t>(a.n * a.n));
      for (int64_t r = 0; r < a.n; ++r) x[static_cast<size_t>(r * a.n + r)] = T(1);
      dense::solve_triangular(a.at(i), a.n, x.data(), a.n, upper, false, upper ? dense::Form::Adjoint : dense::Form::Plain);
      dense::solve_triangular(a.at(i), a.n, x.data(), a.n, upper, false, upper ? dense::Form::Plain : dense::Form::Adjoint);
      append(out, x);
    }
    store_values(c.outputs[0], out);
  });
}

// ---- QR ----

void qr_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", false);
  std::string mode = c.text("mode");
  TOROID_USER_CHECK(mode == "reduced" || mode == "complete" || mode == "r",
                    "linalg_qr: mode must be \"reduced\", \"complete\" or \"r\", got \"{}\"", mode);
  Expr k = sym::min(a.m, a.n);
  if (mode == "r")
    c.result(a.dtype, {Expr(0)});
  else
    c.result(a.dtype, a.sizes({a.m, mode == "complete" ? a.m : k}));
  c.result(a.dtype, a.sizes({mode == "complete" ? a.m : k, a.n}));
}

void qr_kernel(KernelCall& c) {
  with_field(c.outputs[1].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    std::string mode = c.text("mode");
    int64_t k = std::min(a.m, a.n), rows = mode == "complete" ? a.m : k;
    std::vector<T> q, r, tau(static_cast<size_t>(k));
    for (int64_t i = 0; i < a.count; ++i) {
      dense::qr_factor(a.at(i), a.m, a.n, tau.data());
      if (mode != "r") append(q, dense::reflector_product(a.at(i), a.m, a.n, tau.data(), k, rows));
      for (int64_t s = 0; s < rows; ++s)
        for (int64_t j = 0; j < a.n; ++j) r.push_back(s <= j ? a.at(i)[s * a.n + j] : T(0));
    }
    if (mode != "r") store_values(c.outputs[0], q);
    store_values(c.outputs[1], r);
  });
}

void geqrf_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", false);
  c.result(a.dtype, a.sizes({a.m, a.n}));
  c.result(a.dtype, a.sizes({sym::min(a.m, a.n)}));
}

void geqrf_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    int64_t k = std::min(a.m, a.n);
    std::vector<T> tau(static_cast<size_t>(a.count * k));
    for (int64_t i = 0; i < a.count; ++i) dense::qr_factor(a.at(i), a.m, a.n, tau.data() + i * k);
    store_values(c.outputs[0], a.data);
    store_values(c.outputs[1], tau);
  });
}

// Reflectors and tau of one batch.
void check_reflectors(MetaCall& c, const MatrixShape& a, std::string_view tau_name) {
  const TensorType& tau = *c.tensor(tau_name);
  TOROID_USER_CHECK(tau.dtype == a.dtype && tau.dim() == static_cast<int64_t>(a.batch.size()) + 1,
                    "{}: tau {} does not belong to the reflectors", c.op().name, to_string(tau));
  for (size_t d = 0; d < a.batch.size(); ++d) require_equal(c, tau.sizes[d], a.batch[d], "batch sizes of reflectors and tau");
  for (const auto& fits : {sym::Relation{sym::Rel::Ge, a.n, tau.sizes.back()}, sym::Relation{sym::Rel::Ge, a.m, a.n}})
    c.require(fits, "{}: expected rows >= columns >= number of taus, got {}, {} and {}", c.op().name, sym::to_string(a.m),
              sym::to_string(a.n), sym::to_string(tau.sizes.back()));
}

template <const char* const* kNames>
void householder_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, kNames[0], false);
  check_reflectors(c, a, kNames[1]);
  c.result(a.dtype, a.sizes({a.m, a.n}));
}

template <const char* const* kNames>
void householder_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor(kNames[0]);
    auto batch = batch_sizes(in, 2);
    auto a = load_batch<T>(in, batch);
    auto tau = load_batch<T>(c.tensor(kNames[1]), batch, 1);
    std::vector<T> q;
    for (int64_t i = 0; i < a.count; ++i) append(q, dense::reflector_product(a.at(i), a.m, a.n, tau.at(i), tau.m, a.n));
    store_values(c.outputs[0], q);
  });
}

constexpr const char* kHouseholderNames[] = {"input", "tau"};
constexpr const char* kOrgqrNames[] = {"self", "input2"};

void ormqr_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", false), b = matrix_shape(c, "input3", false);
  const TensorType& tau = *c.tensor("input2");
  TOROID_USER_CHECK(a.dtype == b.dtype && tau.dtype == a.dtype && a.batch.size() == b.batch.size() &&
                        tau.dim() == static_cast<int64_t>(a.batch.size()) + 1,
                    "ormqr: reflectors, tau and matrix must have one dtype and one batch");
  for (size_t d = 0; d < a.batch.size(); ++d) {
    require_equal(c, a.batch[d], b.batch[d], "batch sizes of reflectors and matrix");
    require_equal(c, a.batch[d], tau.sizes[d], "batch sizes of reflectors and tau");
  }
  require_equal(c, a.m, c.flag("left") ? b.m : b.n, "the length of the reflectors and the side of the matrix");
  for (const Expr& reflectors : {a.n, a.m})
    c.require({sym::Rel::Ge, reflectors, tau.sizes.back()}, "ormqr: there are more taus than reflectors");
  c.result(b.dtype, b.sizes({b.m, b.n}));
}

void ormqr_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    auto batch = batch_sizes(c.tensor("self"), 2);
    auto a = load_batch<T>(c.tensor("self"), batch), b = load_batch<T>(c.tensor("input3"), batch);
    auto tau = load_batch<T>(c.tensor("input2"), batch, 1);
    bool left = c.flag("left"), adjoint = c.flag("transpose");
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      // C Q = (Q^H C^H)^H
      std::vector<T> x = left ? b.copy(i) : dense::adjoint(b.at(i), b.m, b.n);
      dense::apply_reflectors(a.at(i), a.n, tau.at(i), tau.m, x.data(), a.m, left ? b.n : b.m, left ? adjoint : !adjoint);
      append(out, left ? x : dense::adjoint(x.data(), b.n, b.m));
    }
    store_values(c.outputs[0], out);
  });
}

}  // namespace

void add_linalg_factor_rows(Table& t) {
  t.primitive("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
              lu_factor_meta, lu_factor_kernel);
  t.primitive(
      "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
      lu_unpack_meta, lu_unpack_kernel);
  t.primitive("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)", cholesky_meta,
              cholesky_kernel);
  t.primitive(
      "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
      [](MetaCall& c) {
        MatrixShape a = matrix_shape(c, "self", true);
        c.result(a.dtype, a.sizes({a.m, a.n}));
      },
      cholesky_inverse_kernel);
  t.primitive("linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", qr_meta, qr_kernel);
  t.primitive("geqrf(Tensor self) -> (Tensor a, Tensor tau)", geqrf_meta, geqrf_kernel);
  t.primitive("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", householder_meta<kHouseholderNames>,
              householder_kernel<kHouseholderNames>);
  t.primitive("orgqr(Tensor self, Tensor input2) -> Tensor", householder_meta<kOrgqrNames>, householder_kernel<kOrgqrNames>);
  t.primitive("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", ormqr_meta, ormqr_kernel);
}

}  // namespace toroid::ops
