// Rows that solve systems of linear equations, invert matrices and take determinants.
#include <cmath>

#include "ops/rows/linalg.h"
#include "ops/rows/linalg_dense.h"

namespace toroid::ops {
namespace {

using Ints = std::vector<int64_t>;

// Solves with b on the right side of the factor: X A = B is A^T X^T = B^T (and the same with adjoints where `adjoint`).
template <class T, class Solve>
std::vector<T> solve_side(Batch<T>& b, int64_t i, bool left, Solve solve) {
  std::vector<T> x = left ? b.copy(i) : dense::transposed(b.at(i), b.m, b.n);
  solve(x.data(), left ? b.n : b.m, left ? dense::Form::Plain : dense::Form::Transposed);
  return left ? x : dense::transposed(x.data(), b.n, b.m);
}

// ---- triangular ----

void triangular_meta_of(MetaCall& c, const char* a_name, const char* b_name, bool left) {
  MatrixShape a = matrix_shape(c, a_name, true), b = matrix_shape(c, b_name, false);
  TOROID_USER_CHECK(a.dtype == b.dtype, "{}: both matrices must have one dtype", c.op().name);
  require_equal(c, a.n, left ? b.m : b.n, "the order of the triangular matrix and the side of the other one");
  MatrixShape out{broadcast(c, a.batch, b.batch), b.m, b.n, a.dtype};
  c.result(a.dtype, out.sizes({b.m, b.n}));
}

void triangular_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    auto batch = batch_sizes(c.outputs[0], 2);
    auto a = load_batch<T>(c.tensor("self"), batch), b = load_batch<T>(c.tensor("B"), batch);
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      append(out, solve_side(b, i, c.flag("left"), [&](T* x, int64_t columns, dense::Form form) {
               dense::solve_triangular(a.at(i), a.n, x, columns, c.flag("upper"), c.flag("unitriangular"), form);
             }));
    }
    store_values(c.outputs[0], out);
  });
}

// ---- LU ----

void lu_solve_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "LU", true), b = matrix_shape(c, "B", false);
  const TensorType& p = *c.tensor("pivots");
  TOROID_USER_CHECK(a.dtype == b.dtype && is_int(p.dtype) && p.dim() == static_cast<int64_t>(a.batch.size()) + 1,
                    "linalg_lu_solve: LU and B must have one dtype and pivots must belong to LU");
  require_equal(c, p.sizes.back(), a.n, "the number of pivots and the order of LU");
  require_equal(c, a.n, c.flag("left") ? b.m : b.n, "the order of LU and the side of B");
  for (size_t d = 0; d < a.batch.size(); ++d) require_equal(c, p.sizes[d], a.batch[d], "batch sizes of LU and pivots");
  MatrixShape out{broadcast(c, a.batch, b.batch), b.m, b.n, a.dtype};
  c.result(a.dtype, out.sizes({b.m, b.n}));
}

void lu_solve_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    auto batch = batch_sizes(c.outputs[0], 2);
    auto a = load_batch<T>(c.tensor("LU"), batch), b = load_batch<T>(c.tensor("B"), batch);
    auto p = load_batch<int64_t>(c.tensor("pivots"), batch, 1);
    check_pivots(c, p.data, a.n);
    bool left = c.flag("left"), adjoint = c.flag("adjoint");
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      // X A = B is A^H X^H = B^H, and with the adjoint A X^H = B^H.
      std::vector<T> x = left ? b.copy(i) : dense::adjoint(b.at(i), b.m, b.n);
      dense::lu_solve(a.at(i), p.at(i), a.n, x.data(), left ? b.n : b.m, left == adjoint ? dense::Form::Adjoint : dense::Form::Plain);
      append(out, left ? x : dense::adjoint(x.data(), b.n, b.m));
    }
    store_values(c.outputs[0], out);
  });
}

// B is one vector a matrix: 1-d, or of A's sizes without the last.
template <class Same>
bool is_vector_case(size_t rank_a, size_t rank_b, Same same) {
  if (rank_b == 1) return true;
  if (rank_b + 1 != rank_a) return false;
  for (size_t d = 0; d < rank_b; ++d)
    if (!same(d)) return false;
  return true;
}

void solve_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", true);
  const TensorType &ta = *c.tensor("A"), &tb = *c.tensor("B");
  TOROID_USER_CHECK(tb.dtype == a.dtype && tb.dim() >= 1, "{}: A and B must have one dtype, got {} and {}", c.op().name, to_string(ta),
                    to_string(tb));
  bool vector = is_vector_case(ta.sizes.size(), tb.sizes.size(), [&](size_t d) { return c.same(ta.sizes[d], tb.sizes[d]); });
  if (vector) {
    TOROID_USER_CHECK(c.flag("left"), "{}: a vector B needs left=True", c.op().name);
    require_equal(c, tb.sizes.back(), a.n, "the order of A and the length of B");
    c.result(a.dtype, a.sizes({a.n}));
  } else {
    MatrixShape b = matrix_shape(c, "B", false);
    require_equal(c, a.n, c.flag("left") ? b.m : b.n, "the order of A and the side of B");
    MatrixShape out{broadcast(c, a.batch, b.batch), b.m, b.n, a.dtype};
    c.result(a.dtype, out.sizes({b.m, b.n}));
  }
  c.result(a.dtype, a.sizes({a.m, a.n}));
  c.result(DType::I32, a.sizes({a.n}));
  c.result(DType::I32, a.batch);
}

void solve_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor ta = c.tensor("A"), tb = c.tensor("B");
    bool vector = is_vector_case(ta.sizes().size(), tb.sizes().size(), [&](size_t d) { return ta.sizes()[d] == tb.sizes()[d]; });
    auto lu = load_batch<T>(ta, batch_sizes(ta, 2));
    Ints pivots(static_cast<size_t>(lu.count * lu.n)), infos;
    for (int64_t i = 0; i < lu.count; ++i) infos.push_back(dense::lu_factor(lu.at(i), lu.n, lu.n, pivots.data() + i * lu.n, true));
    check_infos(c, infos);
    store_values(c.outputs[1], lu.data);
    store_values(c.outputs[2], pivots);
    store_values(c.outputs[3], infos);
    // From here on the factors as stored, repeated to the batch of the result.
    int64_t core = vector ? 1 : 2;
    auto batch = batch_sizes(c.outputs[0], core);
    auto b = load_batch<T>(tb, batch, core);
    std::vector<int64_t> index;  // which factor serves item i
    {
      Tensor order = Tensor::empty(batch_sizes(ta, 2), DType::I64);
      for (int64_t i = 0; i < lu.count; ++i) order.data<int64_t>()[i] = i;
      index = load_values<int64_t>(broadcast_batch(order, batch, 0));
    }
    std::vector<T> out;
    for (int64_t i = 0; i < b.count; ++i) {
      int64_t f = index[static_cast<size_t>(i)];
      append(out, solve_side(b, i, vector || c.flag("left"), [&](T* x, int64_t columns, dense::Form form) {
               dense::lu_solve(lu.at(f), pivots.data() + f * lu.n, lu.n, x, columns, form);
             }));
    }
    store_values(c.outputs[0], out);
  });
}

void inverse_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    Ints pivots(static_cast<size_t>(a.n)), infos;
    std::vector<T> out;
    for (int64_t i = 0; i < a.count; ++i) {
      infos.push_back(dense::lu_factor(a.at(i), a.n, a.n, pivots.data(), true));
      std::vector<T> x(static_cast<size_t>(a.n * a.n));
      for (int64_t r = 0; r < a.n; ++r) x[static_cast<size_t>(r * a.n + r)] = T(1);
      dense::lu_solve(a.at(i), pivots.data(), a.n, x.data(), a.n, dense::Form::Plain);
      append(out, x);
    }
    check_infos(c, infos);
    store_values(c.outputs[0], out);
    store_values(c.outputs[1], infos);
  });
}

// ---- determinants ----

template <bool kLog>
void determinant_meta(MetaCall& c) {
  MatrixShape a = matrix_shape(c, "A", true);
  c.result(a.dtype, a.batch);
  DType real = a.dtype == DType::C64 ? DType::F32 : a.dtype == DType::C128 ? DType::F64 : a.dtype;
  if (kLog) c.result(real, a.batch);
  c.result(a.dtype, a.sizes({a.m, a.n}));
  c.result(DType::I32, a.sizes({a.n}));
}

template <bool kLog>
void determinant_kernel(KernelCall& c) {
  with_field(c.outputs[0].dtype(), [&]<class T>(T) {
    Tensor in = c.tensor("A");
    auto a = load_batch<T>(in, batch_sizes(in, 2));
    Ints pivots(static_cast<size_t>(a.count * a.n));
    std::vector<T> first;
    std::vector<double> logs;
    for (int64_t i = 0; i < a.count; ++i) {
      int64_t* p = pivots.data() + i * a.n;
      dense::lu_factor(a.at(i), a.n, a.n, p, true);
      T value(1);
      double log = 0;
      for (int64_t k = 0; k < a.n; ++k) {
        T d = a.at(i)[k * a.n + k];
        if (p[k] != k + 1) value = -value;
        double size = std::abs(d);
        if (!kLog)
          value *= d;
        else
          value *= size == 0 ? T(0) : d / size;
        log += std::log(size);
      }
      first.push_back(value);
      logs.push_back(log);
    }
    store_values(c.outputs[0], first);
    if (kLog) store_values(c.outputs[1], logs);
    store_values(c.outputs[kLog ? 2 : 1], a.data);
    store_values(c.outputs[kLog ? 3 : 2], pivots);
  });
}

}  // namespace

void add_linalg_solve_rows(Table& t) {
  t.primitive(
      "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
      [](MetaCall& c) { triangular_meta_of(c, "self", "B", c.flag("left")); }, triangular_kernel);
  t.primitive("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor", lu_solve_meta,
              lu_solve_kernel);
  t.primitive(
      "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor LU, Tensor pivots, "
      "Tensor info)",
      solve_meta, solve_kernel);
  t.primitive(
      "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
      [](MetaCall& c) {
        MatrixShape a = matrix_shape(c, "A", true);
        c.result(a.dtype, a.sizes({a.m, a.n}));
        c.result(DType::I32, a.batch);
      },
      inverse_kernel);
  t.primitive("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", determinant_meta<false>, determinant_kernel<false>);
  t.primitive("_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", determinant_meta<true>,
              determinant_kernel<true>);
}

}  // namespace toroid::ops
