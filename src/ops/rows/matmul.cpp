// Rows of matrix products: two primitives (mm, bmm), and everything that is written with them.
#include <cmath>

#include "base/check.h"
#include "ops/rows/dense_compose.h"
#include "ops/rows/dense_values.h"
#include "ops/rows/linear_loss.h"
#include "ops/rows/matmul_einsum.h"

namespace toroid::ops {
namespace {

using namespace compose;

void check_operands(MetaCall& c, const TensorType& a, const TensorType& b, int64_t rank) {
  TOROID_USER_CHECK(a.dim() == rank && b.dim() == rank, "{}: both operands must have {} dimensions, got {} and {}", c.op().name, rank,
                    to_string(a), to_string(b));
  TOROID_USER_CHECK(a.dtype == b.dtype, "{}: operands must have one dtype, got {} and {}", c.op().name, to_string(a), to_string(b));
  TOROID_USER_CHECK(!is_bool(a.dtype), "{}: Bool operands are not supported; convert them to an integer or float dtype", c.op().name);
}

void mm_meta(MetaCall& c) {
  const TensorType &a = *c.tensor("self"), &b = *c.tensor("mat2");
  check_operands(c, a, b, 2);
  c.require_same(a.sizes[1], b.sizes[0], "{}: columns of the first matrix {} must equal rows of the second {}", c.op().name, to_string(a),
                 to_string(b));
  c.result(a.dtype, {a.sizes[0], b.sizes[1]});
}

void bmm_meta(MetaCall& c) {
  const TensorType &a = *c.tensor("self"), &b = *c.tensor("mat2");
  check_operands(c, a, b, 3);
  c.require_same(a.sizes[0], b.sizes[0], "{}: batch sizes of {} and {} differ", c.op().name, to_string(a), to_string(b));
  c.require_same(a.sizes[2], b.sizes[1], "{}: columns of the first matrices {} must equal rows of the second {}", c.op().name, to_string(a),
                 to_string(b));
  c.result(a.dtype, {a.sizes[0], a.sizes[1], b.sizes[2]});
}

// The dtype of a product that is asked for: that of its operands, or f32, in which halves are summed.
void as_out_dtype(MetaCall& c) {
  const DType own = c.tensor("self")->dtype, out = *c.dtype("out_dtype");
  TOROID_USER_CHECK(out == own || (out == DType::F32 && is_half(own)),
                    "{}: out_dtype is {}, and the operands are {}; expected {}{}. Convert the result with to() where it is to be another",
                    c.op().name, name_of(out), name_of(own), name_of(own), is_half(own) ? " or f32" : "");
  c.results[0].dtype = out;
}

void mm_dtype_meta(MetaCall& c) {
  mm_meta(c);
  as_out_dtype(c);
}

void bmm_dtype_meta(MetaCall& c) {
  bmm_meta(c);
  as_out_dtype(c);
}

void int_mm_meta(MetaCall& c) {
  const TensorType &a = *c.tensor("self"), &b = *c.tensor("mat2");
  TOROID_USER_CHECK(a.dim() == 2 && b.dim() == 2, "_int_mm: both operands must have 2 dimensions, got {} and {}", to_string(a),
                    to_string(b));
  TOROID_USER_CHECK((a.dtype == DType::I8 || a.dtype == DType::U8) && b.dtype == DType::I8,
                    "_int_mm: operands must be int8 (the first may be uint8), got {} and {}", to_string(a), to_string(b));
  c.require_same(a.sizes[1], b.sizes[0], "_int_mm: columns of the first matrix {} must equal rows of the second {}", to_string(a),
                 to_string(b));
  c.result(DType::I32, {a.sizes[0], b.sizes[1]});
}

template <class T>
void multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  size_t shift = a.dim() == 3 ? 1 : 0;
  auto size = [&](const Tensor& t, size_t d) { return static_cast<size_t>(t.sizes()[d + shift]); };
  size_t batch = shift ? static_cast<size_t>(a.sizes()[0]) : 1, m = size(a, 0), k = size(a, 1), n = size(b, 1);
  std::vector<T> x = load_values<T>(a), y = load_values<T>(b), z(batch * m * n);
  for (size_t i = 0; i < batch * m; ++i) {
    T* row = z.data() + i * n;
    const T* left = x.data() + i * k;
    const T* right = y.data() + (i / m) * k * n;
    for (size_t p = 0; p < k; ++p) {
      T factor = left[p];
      for (size_t j = 0; j < n; ++j) row[j] += factor * right[p * n + j];
    }
  }
  store_values<T>(out, z);
}

void product_kernel(KernelCall& c) {
  with_accumulator(c.outputs[0].dtype(), [&]<class T>(T) { multiply<T>(c.tensor("self"), c.tensor("mat2"), c.outputs[0]); });
}

Tensor scaled(const Tensor& t, const Operand& factor) { return is_value(factor, 1) ? t : call1("mul.Scalar", {t, factor}); }

// alpha or beta. The result has the dtype of the product: among integers, what follows the point of a factor is cut off first.
Operand factor(const CallReader& c, const char* name, DType dtype) {
  Operand given = c.at(name);
  const double* real = std::get_if<double>(&given);
  if (!real || !is_int(dtype)) return given;
  TOROID_USER_CHECK(c.op().name != "addr", "addr: {} is {}, and the tensors hold {}; give an integer", name, *real, name_of(dtype));
  TOROID_USER_CHECK(std::abs(*real) < 0x1p63, "{}: {} is {}, which is not within the range of {}", c.op().name, name, *real,
                    name_of(dtype));
  return Expr(static_cast<int64_t>(*real));
}

// beta * self + alpha * product; a beta of 0 leaves self out, NaN or not.
Tensor blend(const CallReader& c, const Tensor& product) {
  const Operand alpha = factor(c, "alpha", product.dtype()), beta = factor(c, "beta", product.dtype());
  Tensor p = scaled(product, alpha), self = c.tensor("self");
  if (is_value(beta, 0)) return p;
  return add(scaled(self, beta), p);
}

// Products of two matrices and of batches of them, stored as `as`.
Tensor mm_as(const Tensor& a, const Tensor& b, DType as) { return a.dtype() == as ? mm(a, b) : call1("mm.dtype", {a, b, as}); }
Tensor bmm(const Tensor& a, const Tensor& b) { return call1("bmm", {a, b}); }
Tensor bmm_as(const Tensor& a, const Tensor& b, DType as) { return a.dtype() == as ? bmm(a, b) : call1("bmm.dtype", {a, b, as}); }

Tensor column(const Tensor& vector) { return unsqueeze(vector, 1); }

Tensor matrix_vector(const Tensor& m, const Tensor& v, DType as) { return squeeze(mm_as(m, column(v), as), 1); }
Tensor matrix_vector(const Tensor& m, const Tensor& v) { return matrix_vector(m, v, m.dtype()); }

// Sizes of the batch dimensions after broadcasting.
Sizes broadcast_batch(std::string_view name, const Sizes& a, const Sizes& b) {
  size_t n = std::max(a.size(), b.size());
  Sizes out(n);
  for (size_t i = 0; i < n; ++i) {
    Expr x = i < a.size() ? a[a.size() - 1 - i] : Expr(1), y = i < b.size() ? b[b.size() - 1 - i] : Expr(1);
    Expr& r = out[n - 1 - i];
    if (x == y || y == Expr(1))
      r = x;
    else if (x == Expr(1))
      r = y;
    else if (equal(x, y))
      r = x.is_const() ? x : y;
    else if (equal(x, 1))
      r = y;
    else {
      require({sym::Rel::Eq, y, 1}, "{}: batch sizes {} and {} neither are equal nor is one of them 1", name, sym::to_string(x),
              sym::to_string(y));
      r = x;
    }
  }
  return out;
}

Tensor expand_to_batches(const Tensor& t, const Sizes& batch) {
  int64_t rank = t.dim();
  Sizes full = batch, flat{product_of(batch), extent(t, rank - 2), extent(t, rank - 1)};
  full.push_back(flat[1]);
  full.push_back(flat[2]);
  Tensor e = sizes_of(t) == full ? t : expand(t, full);
  return full.size() == 3 ? e : reshape(e, flat);
}

Tensor matmul(std::string_view name, const Tensor& a, const Tensor& b, DType as) {
  int64_t ra = a.dim(), rb = b.dim();
  TOROID_USER_CHECK(ra >= 1 && rb >= 1, "{}: both operands must have at least one dimension, got {} and {}", name, ra, rb);
  if (ra == 1 && rb == 1) {
    const Tensor right = column(b);
    return squeeze(squeeze(mm_as(unsqueeze(a, 0), right, as), 1), 0);
  }
  if (ra == 2 && rb == 1) return matrix_vector(a, b, as);
  if (ra == 1 && rb == 2) return squeeze(mm_as(unsqueeze(a, 0), b, as), 0);
  if (ra == 2 && rb == 2) return mm_as(a, b, as);
  if (rb <= 2) {  // rows of all batches at once
    Sizes sizes = sizes_of(a);
    Expr k = sizes.back();
    sizes.pop_back();
    Tensor flat = reshape(a, {product_of(sizes), k});
    Tensor r = rb == 2 ? mm_as(flat, b, as) : matrix_vector(flat, b, as);
    if (rb == 2) sizes.push_back(extent(b, 1));
    return reshape(r, sizes);
  }
  Tensor x = ra == 1 ? unsqueeze(a, 0) : a;
  Sizes sa = sizes_of(x), sb = sizes_of(b);
  Sizes batch = broadcast_batch(name, Sizes(sa.begin(), sa.end() - 2), Sizes(sb.begin(), sb.end() - 2));
  const Tensor right = expand_to_batches(b, batch);
  Tensor r = bmm_as(expand_to_batches(x, batch), right, as);
  Sizes out = batch;
  if (ra != 1) out.push_back(sa[sa.size() - 2]);
  out.push_back(sb.back());
  return out.size() == 3 && ra != 1 ? r : reshape(r, out);
}

Tensor matmul(const CallReader& c, const Tensor& a, const Tensor& b) { return matmul(c.op().name, a, b, a.dtype()); }

std::vector<Tensor> linear_rule(const CallReader& c) {
  Tensor x = c.tensor("input"), w = c.tensor("weight"), bias = c.opt_tensor("bias");
  TOROID_USER_CHECK(w.dim() == 1 || w.dim() == 2, "linear: the weight must have 1 or 2 dimensions, it has {}", w.dim());
  TOROID_USER_CHECK(x.dim() >= 1, "linear: the input must have at least one dimension");
  Tensor wt = w.dim() == 2 ? permute(w, {1, 0}) : w;
  auto with_bias = [&](const Tensor& y) { return bias.defined() ? add(y, bias) : y; };
  if (w.dim() == 1 || x.dim() == 2) return {with_bias(matmul(c, x, wt))};
  // One matrix of all rows; the bias is added to it while it is one, where it can be the product's epilogue.
  Sizes sizes = sizes_of(x);
  Expr k = sizes.back();
  sizes.back() = extent(w, 0);
  Sizes rows(sizes.begin(), sizes.end() - 1);
  return {reshape(with_bias(mm(reshape(x, {product_of(rows), k}), wt)), sizes)};
}

// sum over sumdim of the broadcast product of three tensors, each first given size-1 dimensions at the positions in expandN.
std::vector<Tensor> trilinear(const CallReader& c) {
  Tensor product;
  int64_t rank = 0;
  for (int i = 1; i <= 3; ++i) {
    Tensor t = c.tensor("i" + std::to_string(i));
    for (int64_t d : c.integers("expand" + std::to_string(i))) t = unsqueeze(t, d);
    TOROID_USER_CHECK(i == 1 || t.dim() == rank, "_trilinear: expanded operands must have equally many dimensions");
    rank = t.dim();
    product = i == 1 ? t : mul(product, t);
  }
  Ints dims = c.integers("sumdim");
  return {dims.empty() ? product : sum(product, to_sizes(dims))};
}

std::vector<Tensor> bilinear(const CallReader& c) {
  Tensor a = c.tensor("input1"), b = c.tensor("input2"), w = c.tensor("weight"), bias = c.opt_tensor("bias");
  TOROID_USER_CHECK(w.dim() == 3 && a.dim() == b.dim() && a.dim() >= 1,
                    "bilinear: expected a weight of 3 dimensions and inputs of equally many, got {}, {} and {}", w.dim(), a.dim(), b.dim());
  Sizes out = sizes_of(a);
  out.pop_back();
  Expr rows = product_of(out), in1 = extent(w, 1), in2 = extent(w, 2), n = extent(w, 0);
  // (rows, in1) x (in1, n * in2), then contracted with the second input.
  const Tensor weight = reshape(permute(w, {1, 0, 2}), {in1, n * in2});
  Tensor half = reshape(mm(reshape(a, {rows, in1}), weight), {rows, n, in2});
  Tensor y = squeeze(bmm(half, unsqueeze(reshape(b, {rows, in2}), 2)), 2);
  out.push_back(n);
  y = reshape(y, out);
  return {bias.defined() ? add(y, bias) : y};
}

Tensor kron(Tensor a, Tensor b) {
  while (a.dim() < b.dim()) a = unsqueeze(a, 0);
  while (b.dim() < a.dim()) b = unsqueeze(b, 0);
  Sizes x, y, out;
  for (int64_t d = 0; d < a.dim(); ++d) {
    x.insert(x.end(), {extent(a, d), Expr(1)});
    y.insert(y.end(), {Expr(1), extent(b, d)});
    out.push_back(extent(a, d) * extent(b, d));
  }
  const Tensor right = reshape(b, y);
  return reshape(mul(reshape(a, x), right), out);
}

Tensor chain(const CallReader& c, std::string_view name) {
  auto matrices = c.tensors(name);
  TOROID_USER_CHECK(!matrices.empty(), "{}: needs at least one matrix", c.op().name);
  Tensor r = matrices[0];
  for (size_t i = 1; i < matrices.size(); ++i) r = matmul(c, r, matrices[i]);
  return r;
}

Tensor conjugated(const Tensor& t) { return is_complex(t.dtype()) ? call1("conj_physical", {t}) : t; }

Tensor vector_dot(const CallReader& c, const Tensor& a, const Tensor& b) {
  TOROID_USER_CHECK(a.dim() == 1 && b.dim() == 1, "{}: both operands must have one dimension, got {} and {}", c.op().name, a.dim(),
                    b.dim());
  return matmul(c, a, b);
}

void add_blended_rows(Table& t) {
  t.composite("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {blend(c, mm(c.tensor("mat1"), c.tensor("mat2")))}; });
  t.composite("baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {blend(c, bmm(c.tensor("batch1"), c.tensor("batch2")))}; });
  // The batches side by side are one long inner dimension.
  t.composite("addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> {
                Tensor products = bmm(c.tensor("batch1"), c.tensor("batch2"));
                return {blend(c, cast(sum(products, {Expr(0)}), products.dtype()))};  // sums of integers are i64
              });
  t.composite("addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {blend(c, matrix_vector(c.tensor("mat"), c.tensor("vec")))}; });
  t.composite("addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {blend(c, mul(column(c.tensor("vec1")), c.tensor("vec2")))}; });
}

}  // namespace

Tensor compose_matmul(const CallReader& c, const Tensor& a, const Tensor& b) { return matmul(c, a, b); }

Tensor compose_matmul(std::string_view name, const Tensor& a, const Tensor& b, DType as) { return matmul(name, a, b, as); }

void add_matmul_rows(Table& t) {
  t.primitive("mm(Tensor self, Tensor mat2) -> Tensor", mm_meta, product_kernel);
  t.primitive("_int_mm(Tensor self, Tensor mat2) -> Tensor", int_mm_meta, product_kernel);
  t.primitive("bmm(Tensor self, Tensor mat2) -> Tensor", bmm_meta, product_kernel);
  t.primitive("mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", mm_dtype_meta, product_kernel);
  t.primitive("bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor", bmm_dtype_meta, product_kernel);
  add_blended_rows(t);
  t.composite("mv(Tensor self, Tensor vec) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {matrix_vector(c.tensor("self"), c.tensor("vec"))}; });
  t.composite("dot(Tensor self, Tensor tensor) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {vector_dot(c, c.tensor("self"), c.tensor("tensor"))}; });
  t.composite("vdot(Tensor self, Tensor other) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {vector_dot(c, conjugated(c.tensor("self")), c.tensor("other"))}; });
  auto product = [](const CallReader& c) -> std::vector<Tensor> { return {matmul(c, c.tensor("self"), c.tensor("other"))}; };
  t.composite("matmul(Tensor self, Tensor other) -> Tensor", product);
  t.composite("__matmul__(Tensor self, Tensor other) -> Tensor", product);
  t.composite("linalg_matmul(Tensor self, Tensor other) -> Tensor", product);
  t.composite("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear_rule);
  t.composite(
      "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor",
      trilinear);
  t.composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear);
  auto outer = [](const CallReader& c) -> std::vector<Tensor> { return {mul(column(c.tensor("self")), c.tensor("vec2"))}; };
  t.composite("outer(Tensor self, Tensor vec2) -> Tensor", outer);
  t.composite("ger(Tensor self, Tensor vec2) -> Tensor", outer);
  t.composite("inner(Tensor self, Tensor other) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor a = c.tensor("self"), b = c.tensor("other");
    if (a.dim() == 0 || b.dim() == 0) return {mul(a, b)};
    Sizes sizes = sizes_of(a), rest = sizes_of(b);
    Expr k = sizes.back();
    sizes.pop_back();
    rest.pop_back();
    const Tensor right = permute(reshape(b, {product_of(rest), extent(b, -1)}), {1, 0});
    Tensor r = mm(reshape(a, {product_of(sizes), k}), right);
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    return {reshape(r, sizes)};
  });
  t.composite("kron(Tensor self, Tensor other) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {kron(c.tensor("self"), c.tensor("other"))}; });
  t.composite("chain_matmul(Tensor[] matrices) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {chain(c, "matrices")}; });
  t.composite("linalg_multi_dot(Tensor[] tensors) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {chain(c, "tensors")}; });
  t.composite("linalg_matrix_power(Tensor self, int n) -> Tensor", matrix_power);
  t.composite("matrix_power(Tensor self, int n) -> Tensor", matrix_power);
  t.composite("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot);
  t.composite("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum);
  add_linear_loss_rows(t);
  add_linear_cross_entropy_rows(t);
}

}  // namespace toroid::ops
