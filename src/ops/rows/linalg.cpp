#include "ops/rows/linalg.h"

namespace toroid::ops {

MatrixShape matrix_shape(MetaCall& c, std::string_view name, bool square) {
  const TensorType& t = *c.tensor(name);
  bool field = t.dtype == DType::F32 || t.dtype == DType::F64 || is_complex(t.dtype);
  TOROID_USER_CHECK(field, "{}: \"{}\" must be f32, f64, c64 or c128, got {}", c.op().name, name, to_string(t));
  TOROID_USER_CHECK(t.dim() >= 2, "{}: \"{}\" must have at least 2 dimensions, got {}", c.op().name, name, to_string(t));
  MatrixShape s{{t.sizes.begin(), t.sizes.end() - 2}, t.sizes[t.sizes.size() - 2], t.sizes.back(), t.dtype};
  if (square) c.require_same(s.m, s.n, "{}: \"{}\" must hold square matrices, got {}", c.op().name, name, to_string(t));
  return s;
}

void require_equal(MetaCall& c, const Expr& a, const Expr& b, const char* what) {
  c.require_same(a, b, "{}: {} must be equal, got {} and {}", c.op().name, what, sym::to_string(a), sym::to_string(b));
}

std::vector<int64_t> batch_sizes(const Tensor& t, int64_t core) { return {t.sizes().begin(), t.sizes().end() - core}; }

Tensor broadcast_batch(const Tensor& t, std::span<const int64_t> batch, int64_t core) {
  size_t own = t.sizes().size() - static_cast<size_t>(core);
  TOROID_CHECK(own <= batch.size(), "more batch dimensions than the result has");
  std::vector<int64_t> sizes(batch.begin(), batch.end()), strides(batch.size(), 0);
  for (size_t d = 0; d < own; ++d)
    if (t.sizes()[d] != 1) strides[batch.size() - own + d] = t.strides()[d];
  sizes.insert(sizes.end(), t.sizes().end() - core, t.sizes().end());
  strides.insert(strides.end(), t.strides().end() - core, t.strides().end());
  return t.as_strided(sizes, strides);
}

void check_infos(const KernelCall& c, const std::vector<int64_t>& infos) {
  if (c.op().schema.find("check_errors") < 0 || !c.flag("check_errors")) return;
  for (size_t i = 0; i < infos.size(); ++i)
    TOROID_USER_CHECK(infos[i] == 0, "{}: matrix {} of the batch is singular or not positive definite (info {})", c.op().name, i, infos[i]);
}

void check_pivots(const KernelCall& c, const std::vector<int64_t>& pivots, int64_t n) {
  for (int64_t p : pivots) TOROID_USER_CHECK(p >= 1 && p <= n, "{}: pivot {} is not between 1 and {}", c.op().name, p, n);
}

void add_linalg_rows(Table& t) {
  // What an exported program keeps of the checks of linalg.inv and its like.
  t.primitive(
       "_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()", [](MetaCall&) {},
       [](KernelCall& c) {
         auto infos = c.tensor("info").to_vector();
         for (size_t i = 0; i < infos.size(); ++i)
           TOROID_USER_CHECK(infos[i] == 0, "{}: matrix {} of the batch is singular or not positive definite (info {})", c.text("api_name"),
                             i, infos[i]);
       })
      .effect = true;
  add_linalg_factor_rows(t);
  add_linalg_solve_rows(t);
  add_linalg_spectral_rows(t);
  add_linalg_composite_rows(t);
}

}  // namespace toroid::ops
