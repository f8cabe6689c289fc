// Rows of iterative factorisations (singular values, eigenvalues, L D L^T) and the matrix exponential.
#include "ops/rows/linalg.h"
#include "ops/rows/linalg_dense.h"
#include "ops/rows/linalg_lapack.h"

namespace toroid::ops {
namespace {

DType real_of(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }
DType complex_of(DType t) { return real_of(t) == DType::F64 ? DType::C128 : DType::C64; }

template <class T>
std::vector<T> identity(int64_t n) {
  std::vector<T> out(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) out[static_cast<size_t>(i * n + i)] = T(1);
  return out;
}

void svd_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", false);
  Expr k = sym::min(a.m, a.n);
  bool full = c.flag("full_matrices"), vectors = c.flag("compute_uv");
  std::vector<Expr> none{Expr(0)};
  c.result(a.dtype, vectors ? a.sizes({a.m, full ? a.m : k}) : none);
  c.result(real_of(a.dtype), a.sizes({k}));
  c.result(a.dtype, vectors ? a.sizes({full ? a.n : k, a.n}) : none);
}

void svd_kernel(KernelCall& c) {
  with_field(c.tensor("A").dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    bool full = c.flag("full_matrices"), vectors = c.flag("compute_uv");
    std::vector<T> u, vh;
    std::vector<double> s;
    for (int64_t i = 0; i < a.count; ++i) {
      if (a.m == 0 || a.n == 0) {
        if (full) append(a.m == 0 ? vh : u, identity<T>(std::max(a.m, a.n)));
        continue;
      }
      auto r = lapack::svd<T>(c.op().name, a.copy(i), a.m, a.n, full);
      append(u, r.u);
      append(s, r.s);
      append(vh, r.vh);
    }
    store_values(c.outputs[1], s);
    if (!vectors) return;
    store_values(c.outputs[0], u);
    store_values(c.outputs[2], vh);
  });
}

void eigh_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", true);
  std::string triangle = c.text("UPLO");
  TOROID_USER_CHECK(triangle == "L" || triangle == "U" || triangle == "l" || triangle == "u", "{}: UPLO must be \"L\" or \"U\", got \"{}\"",
                    c.op().name, triangle);
  c.result(real_of(a.dtype), a.sizes({a.n}));
  c.result(a.dtype, c.flag("compute_v") ? a.sizes({a.n, a.n}) : std::vector<Expr>{Expr(0)});
}

void eigh_kernel(KernelCall& c) {
  with_field(c.tensor("A").dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    std::string triangle = c.text("UPLO");
    std::vector<double> values;
    std::vector<T> vectors;
    for (int64_t i = 0; i < a.count && a.n > 0; ++i) {
      auto r = lapack::eigh<T>(c.op().name, a.copy(i), a.n, triangle == "U" || triangle == "u");
      append(values, r.values);
      append(vectors, r.vectors);
    }
    store_values(c.outputs[0], values);
    if (c.flag("compute_v")) store_values(c.outputs[1], vectors);
  });
}

void eig_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", true);
  c.result(complex_of(a.dtype), a.sizes({a.n}));
  c.result(complex_of(a.dtype), a.sizes({a.n, a.n}));
}

void eig_kernel(KernelCall& c) {
  with_field(c.tensor("self").dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    std::vector<std::complex<double>> values, vectors;
    for (int64_t i = 0; i < a.count && a.n > 0; ++i) {
      auto r = lapack::eig<T>(c.op().name, a.copy(i), a.n);
      append(values, r.values);
      append(vectors, r.vectors);
    }
    store_values(c.outputs[0], values);
    store_values(c.outputs[1], vectors);
  });
}

void ldl_factor_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", true);
  c.result(a.dtype, a.sizes({a.n, a.n}));
  c.result(DType::I32, a.sizes({a.n}));
  c.result(DType::I32, a.batch);
}

void ldl_factor_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    std::vector<T> out;
    std::vector<int64_t> pivots, infos;
    for (int64_t i = 0; i < a.count; ++i) {
      std::vector<T> x = a.copy(i);
      std::vector<int64_t> p;
      infos.push_back(a.n == 0 ? 0 : lapack::ldl_factor<T>(c.op().name, x, p, a.n, c.flag("hermitian")));
      for (int64_t r = 0; r < a.n; ++r)
        for (int64_t s = r + 1; s < a.n; ++s) x[static_cast<size_t>(r * a.n + s)] = T(0);
      append(out, x);
      append(pivots, p);
    }
    check_infos(c, infos);
    store_values(c.outputs[0], out);
    store_values(c.outputs[1], pivots);
    store_values(c.outputs[2], infos);
  });
}

void ldl_solve_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "LD", true), b = matrix_shape(c, "B", false);
  const TensorType& p = *c.tensor("pivots");
  TOROID_USER_CHECK(a.dtype == b.dtype && is_int(p.dtype) && p.dim() == static_cast<int64_t>(a.batch.size()) + 1,
                    "linalg_ldl_solve: LD and B must have one dtype and pivots must belong to LD");
  require_equal(c, a.n, b.m, "the order of LD and the rows of B");
  require_equal(c, a.n, p.sizes.back(), "the order of LD and the number of pivots");
  for (size_t d = 0; d < a.batch.size(); ++d) require_equal(c, p.sizes[d], a.batch[d], "batch sizes of LD and pivots");
  MatrixShape out{broadcast(c, a.batch, b.batch), b.m, b.n, a.dtype};
  c.result(a.dtype, out.sizes({b.m, b.n}));
}

void ldl_solve_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    auto batch = batch_sizes(c.outputs[0], 2);
    auto a = load_batch<T>(c.tensor("LD"), batch), b = load_batch<T>(c.tensor("B"), batch);
    auto p = load_batch<int64_t>(c.tensor("pivots"), batch, 1);
    std::vector<T> out;
    for (int64_t i = 0; i < a.count && b.m > 0 && b.n > 0; ++i) {
      std::vector<T> x = b.copy(i);
      lapack::ldl_solve<T>(c.op().name, a.copy(i), p.copy(i), x, a.n, b.n, c.flag("hermitian"));
      append(out, x);
    }
    store_values(c.outputs[0], out);
  });
}

void exponential_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("self");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) append(out, dense::exponential(a.at(i), a.n));
    store_values(c.outputs[0], out);
  });
}

void exponential_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "self", true);
  c.result(a.dtype, a.sizes({a.n, a.n}));
}

}  // namespace

void add_linalg_spectral_rows(Table& t) {
  t.primitive(
      "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
      svd_meta, svd_kernel);
  t.primitive("_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)", eigh_meta,
              eigh_kernel);
  t.primitive("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", eig_meta, eig_kernel);
  t.primitive(
      "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
      ldl_factor_meta, ldl_factor_kernel);
  t.primitive("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", ldl_solve_meta, ldl_solve_kernel);
  t.primitive("linalg_matrix_exp(Tensor self) -> Tensor", exponential_meta, exponential_kernel);
}

}  // namespace toroid::ops
