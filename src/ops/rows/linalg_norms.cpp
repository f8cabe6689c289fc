// Norms of matrices, and of what may be a vector or a matrix.
#include <cmath>

#include "ops/rows/dense_compose.h"
#include "ops/rows/linalg.h"

namespace toroid::ops {

using namespace compose;

namespace {

struct Matrix {
  Tensor x;
  int64_t rows, columns;  // dimensions
  bool keep;
};

Matrix matrix_of(const CallReader& c, const Ints& dims) {
  Tensor x = c.tensor("self");
  if (auto dtype = c.dtype("dtype")) x = cast(x, *dtype);
  TOROID_USER_CHECK(dims.size() == 2 && x.dim() >= 2, "{}: expected two dimensions of a tensor that has them, got {} of {}", c.op().name,
                    dims.size(), to_string(x));
  TOROID_USER_CHECK(is_float(x.dtype()) || is_complex(x.dtype()), "{}: elements must be floats, they are {}", c.op().name,
                    name_of(x.dtype()));
  Matrix m{x, normal_dim(c.op(), dims[0], x.dim()), normal_dim(c.op(), dims[1], x.dim()), c.flag("keepdim")};
  TOROID_USER_CHECK(m.rows != m.columns, "{}: the two dimensions are one, {}", c.op().name, m.rows);
  return m;
}

Tensor without_kept(const Matrix& m, Tensor norm) {
  return m.keep ? norm : call1("squeeze.dims", {norm, Sizes{Expr(m.rows), Expr(m.columns)}});
}

// Of the singular values of each matrix: "sum.dim_IntList", "amax" or "amin".
Tensor of_singular_values(const Matrix& m, const char* reduce) {
  Tensor last = call1("movedim.intlist", {m.x, Sizes{Expr(m.rows), Expr(m.columns)}, Sizes{Expr(-2), Expr(-1)}});
  Tensor norm = call1(reduce, {call1("linalg_svdvals", {last}), Sizes{Expr(-1)}});
  if (!m.keep) return norm;
  for (int64_t d : {std::min(m.rows, m.columns), std::max(m.rows, m.columns)}) norm = unsqueeze(norm, d);
  return norm;
}

Tensor matrix_norm(const CallReader& c, double order, const Ints& dims) {
  Matrix m = matrix_of(c, dims);
  const double size = std::fabs(order);
  const char* extreme = order > 0 ? "amax" : "amin";
  if (size == 2) return of_singular_values(m, extreme);
  TOROID_USER_CHECK(size == 1 || std::isinf(size), "{}: order {} is none of a matrix norm: 1, 2, inf and their negatives", c.op().name,
                    order);
  const int64_t summed = size == 1 ? m.rows : m.columns, kept = size == 1 ? m.columns : m.rows;
  return without_kept(m, call1(extreme, {sum(call1("abs", {m.x}), {Expr(summed)}, true), Sizes{Expr(kept)}, true}));
}

Tensor named_norm(const CallReader& c, const Ints& dims) {
  Matrix m = matrix_of(c, dims);
  const std::string order = c.text("ord");
  if (order == "fro") return call1("linalg_vector_norm", {m.x, 2.0, Sizes{Expr(m.rows), Expr(m.columns)}, m.keep});
  TOROID_USER_CHECK(order == "nuc", "{}: the name of a norm is \"fro\" or \"nuc\", not \"{}\"", c.op().name, order);
  return of_singular_values(m, "sum.dim_IntList");
}

Ints dims_or_both(const CallReader& c) { return c.has("dim") ? c.integers("dim") : Ints{-2, -1}; }

std::vector<Tensor> norm(const CallReader& c) {
  TOROID_USER_CHECK(!c.has("ord") || c.has("dim") || c.tensor("self").dim() <= 2,
                    "{}: ord without dim is for vectors and matrices, the input has {} dimensions", c.op().name, c.tensor("self").dim());
  const bool of_matrix = c.has("dim") ? c.integers("dim").size() == 2 : c.tensor("self").dim() == 2;
  if (c.has("ord") && of_matrix) return {matrix_norm(c, c.real("ord"), dims_or_both(c))};
  return {call1("linalg_vector_norm", {c.tensor("self"), c.has("ord") ? c.real("ord") : 2.0, c.at("dim"), c.at("keepdim"), c.at("dtype")})};
}

}  // namespace

void add_linalg_norm_rows(Table& t) {
  const std::string any = "int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
  const std::string two = "int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
  t.composite("linalg_norm(Tensor self, Scalar? ord=None, " + any, norm);
  t.composite("linalg_norm.ord_str(Tensor self, str ord, " + any, [](const CallReader& c) -> std::vector<Tensor> {
    TOROID_USER_CHECK(c.has("dim") || c.tensor("self").dim() == 2, "{}: ord without dim is for matrices, the input has {} dimensions",
                      c.op().name, c.tensor("self").dim());
    return {named_norm(c, dims_or_both(c))};
  });
  t.composite("linalg_matrix_norm(Tensor self, Scalar ord, " + two,
              [](const CallReader& c) -> std::vector<Tensor> { return {matrix_norm(c, c.real("ord"), c.integers("dim"))}; });
  t.composite("linalg_matrix_norm.str_ord(Tensor self, str ord=\"fro\", " + two,
              [](const CallReader& c) -> std::vector<Tensor> { return {named_norm(c, c.integers("dim"))}; });
}

}  // namespace toroid::ops
