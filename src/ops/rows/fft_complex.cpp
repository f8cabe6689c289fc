// Complex numbers and Fourier transforms.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/rows/fft_composite.h"
#include "ops/rows/fft_transform.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

using Numbers = std::vector<C128>;

DType complex_of(const Op& op, DType t) {
  if (is_complex(t)) return t;
  TOROID_USER_CHECK(t == DType::F32 || t == DType::F64, "{}: expected f32, f64 or complex numbers, got {}", op.name, name_of(t));
  return t == DType::F64 ? DType::C128 : DType::C64;
}

DType real_of(const Op& op, DType t) {
  TOROID_USER_CHECK(is_complex(t), "{}: expected complex numbers, got {}", op.name, name_of(t));
  return t == DType::C128 ? DType::F64 : DType::F32;
}

// Elements in row-major order.
Numbers load(const Tensor& t) {
  Tensor x = t.contiguous();
  Numbers out(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (x.dtype() == DType::C64)
      out[i] = {x.data<float>()[2 * i], x.data<float>()[2 * i + 1]};
    else if (x.dtype() == DType::C128)
      out[i] = {x.data<double>()[2 * i], x.data<double>()[2 * i + 1]};
    else
      out[i] = load_number(x.raw_data() + i * size_of(x.dtype()), x.dtype()).as_double();
  }
  return out;
}

void store(Tensor& t, size_t i, C128 v) {
  if (t.dtype() == DType::C64) {
    t.data<float>()[2 * i] = static_cast<float>(v.real());
    t.data<float>()[2 * i + 1] = static_cast<float>(v.imag());
  } else if (t.dtype() == DType::C128) {
    t.data<double>()[2 * i] = v.real();
    t.data<double>()[2 * i + 1] = v.imag();
  } else {
    store_number(t.raw_data() + i * size_of(t.dtype()), t.dtype(), Number::of(v.real()));
  }
}

// Row-major copy of t, broadcast to `sizes`.
Tensor broadcast_to(const Tensor& t, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  size_t lead = sizes.size() - t.sizes().size();
  for (size_t d = lead; d < sizes.size(); ++d) strides[d] = t.sizes()[d - lead] == 1 ? 0 : t.strides()[d - lead];
  return t.as_strided(sizes, strides).contiguous();
}

void complex_meta(MetaCall& c) {
  const TensorType &re = *c.tensor("real"), &im = *c.tensor("imag");
  TOROID_USER_CHECK(re.dtype == im.dtype && is_float(re.dtype), "complex: expected two tensors of one float dtype, got {} and {}",
                    name_of(re.dtype), name_of(im.dtype));
  c.result(complex_of(c.op(), re.dtype), broadcast(c, re.sizes, im.sizes));
}

void complex_kernel(KernelCall& c) {
  Tensor& out = c.outputs[0];
  Numbers re = load(broadcast_to(c.tensor("real"), out.sizes())), im = load(broadcast_to(c.tensor("imag"), out.sizes()));
  for (size_t i = 0; i < re.size(); ++i) store(out, i, {re[i].real(), im[i].real()});
}

void view_as_real_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  auto sizes = x.sizes;
  sizes.push_back(2);
  c.result(real_of(c.op(), x.dtype), std::move(sizes));
}

void view_as_complex_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  TOROID_USER_CHECK(is_float(x.dtype) && !x.sizes.empty(), "{}: expected a float tensor whose last dimension has the size 2", c.op().name);
  c.require_same(x.sizes.back(), 2, "{}: the last dimension must have the size 2, it has {}", c.op().name, sym::to_string(x.sizes.back()));
  auto sizes = x.sizes;
  sizes.pop_back();
  c.result(complex_of(c.op(), x.dtype), std::move(sizes));
}

// Complex numbers lie in memory as pairs of real ones.
void same_bytes(KernelCall& c) {
  Tensor x = c.tensor("self").contiguous();
  if (x.numel() > 0) std::memcpy(c.outputs[0].raw_data(), x.raw_data(), static_cast<size_t>(x.numel()) * size_of(x.dtype()));
}

// Part 0 or 1 of the pairs.
Tensor part(const Tensor& x, int64_t which) { return call1("select.int", {call1("view_as_real", {x}), Expr(-1), Expr(which)}); }

S negated(F f) {
  refuse_bool(f);
  return -f[0];
}

void add_complex_rows(Table& t) {
  t.primitive("complex(Tensor real, Tensor imag) -> Tensor", complex_meta, complex_kernel);
  t.primitive("view_as_real(Tensor(a) self) -> Tensor(a)", view_as_real_meta, same_bytes).write_back =
      [](const CallReader&, size_t, const Tensor& pairs) { return call1("view_as_complex", {pairs}); };
  t.primitive("view_as_real_copy(Tensor self) -> Tensor", view_as_real_meta, same_bytes);
  t.primitive("view_as_complex(Tensor(a) self) -> Tensor(a)", view_as_complex_meta, same_bytes).write_back =
      [](const CallReader&, size_t, const Tensor& numbers) { return call1("view_as_real", {numbers}); };
  t.primitive("view_as_complex_copy(Tensor self) -> Tensor", view_as_complex_meta, same_bytes);
  t.composite("real(Tensor(a) self) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    return {is_complex(x.dtype()) ? part(x, 0) : x};
  });
  t.composite("imag(Tensor(a) self) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    TOROID_USER_CHECK(is_complex(x.dtype()), "imag: expected complex numbers, got {}", name_of(x.dtype()));
    return {part(x, 1)};
  });
  unary_rows(
      t, {"_conj", "_conj_physical", "_conj_copy"}, Promote::KeepFirst, [](F f) { return f[0]; }, [](Z z) { return std::conj(z[0]); });
  // Real numbers are their conjugates: the tensor itself.
  for (const char* schema : {"conj(Tensor(a) self) -> Tensor(a)", "conj_physical(Tensor self) -> Tensor"})
    t.composite(schema, [](const CallReader& c) -> std::vector<Tensor> {
       Tensor x = c.tensor("self");
       return {is_complex(x.dtype()) ? call1("_conj_physical", {x}) : x};
     }).may_alias = true;
  for (const char* name : {"resolve_conj", "resolve_neg"})
    t.composite(fmt::format("{}(Tensor(a) self) -> Tensor(a)", name),
                [](const CallReader& c) -> std::vector<Tensor> { return {c.tensor("self")}; });
  unary_rows(t, {"_neg_view", "_neg_view_copy"}, Promote::KeepFirst, negated, [](Z z) { return -z[0]; });
  t.composite("polar(Tensor abs, Tensor angle) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor r = c.tensor("abs"), a = c.tensor("angle");
    return {call1("complex", {call1("mul.Tensor", {r, call1("cos", {a})}), call1("mul.Tensor", {r, call1("sin", {a})})})};
  });
}

std::vector<size_t> transform_dims(const auto& c, int64_t rank) {
  std::vector<size_t> dims;
  for (int64_t d : c.integers("dim")) {
    auto n = static_cast<size_t>(normal_dim(c.op(), d, rank));
    TOROID_USER_CHECK(rank > 0 && std::find(dims.begin(), dims.end(), n) == dims.end(),
                      "{}: dimension {} of {} is given twice or does not exist", c.op().name, d, rank);
    dims.push_back(n);
  }
  return dims;
}

// A transform has at least one number.
void refuse_nothing(MetaCall& c, const std::vector<Expr>& sizes, const std::vector<size_t>& dims) {
  for (size_t d : dims)
    c.require({sym::Rel::Ge, sizes[d], 1}, "{}: dimension {} has {} numbers; a transform needs at least one", c.op().name, d,
              sym::to_string(sizes[d]));
}

int64_t range_product(std::span<const int64_t> sizes, size_t from, size_t to) { return product(sizes.subspan(from, to - from)); }

void transform(Numbers& data, const std::vector<int64_t>& sizes, size_t dim, int sign) {
  fourier_transform(data, range_product(sizes, 0, dim), sizes[dim], range_product(sizes, dim + 1, sizes.size()), sign);
}

// The factor of normalization mode 0 (none), 1 (by the root of the number of elements) or 2 (by that number).
double normalization(const KernelCall& c, const std::vector<int64_t>& sizes, const std::vector<size_t>& dims) {
  int64_t mode = c.integer("normalization");
  TOROID_USER_CHECK(mode >= 0 && mode <= 2, "{}: normalization is {}; expected 0, 1 or 2", c.op().name, mode);
  double n = 1;
  for (size_t d : dims) n *= static_cast<double>(sizes[d]);
  return mode == 0 ? 1 : mode == 1 ? 1 / std::sqrt(n) : 1 / n;
}

void r2c_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  auto dims = transform_dims(c, x.dim());
  auto sizes = x.sizes;
  TOROID_USER_CHECK(!is_complex(x.dtype), "{}: expected real numbers, got {}", c.op().name, name_of(x.dtype));
  refuse_nothing(c, sizes, dims);
  if (c.flag("onesided") && !dims.empty()) sizes[dims.back()] = sym::floor_div(sizes[dims.back()], 2) + 1;
  c.result(complex_of(c.op(), x.dtype), std::move(sizes));
}

void r2c_kernel(KernelCall& c) {
  Tensor x = c.tensor("self");
  Tensor& out = c.outputs[0];
  auto dims = transform_dims(c, x.dim());
  Numbers data = load(x);
  for (size_t d : dims) transform(data, x.sizes(), d, -1);
  double scale = normalization(c, x.sizes(), dims);
  // Of the last transformed dimension a part is kept when one-sided.
  size_t i = 0;
  auto strides = contiguous_strides(x.sizes());
  for_each_index(out.sizes(), [&](std::span<const int64_t> index) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += index[d] * strides[d];
    store(out, i++, data[static_cast<size_t>(from)] * scale);
  });
}

void c2c_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  refuse_nothing(c, x.sizes, transform_dims(c, x.dim()));
  real_of(c.op(), x.dtype);
  c.result(x.dtype, x.sizes);
}

void c2c_kernel(KernelCall& c) {
  Tensor x = c.tensor("self");
  auto dims = transform_dims(c, x.dim());
  Numbers data = load(x);
  for (size_t d : dims) transform(data, x.sizes(), d, c.flag("forward") ? -1 : 1);
  double scale = normalization(c, x.sizes(), dims);
  for (size_t i = 0; i < data.size(); ++i) store(c.outputs[0], i, data[i] * scale);
}

void c2r_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  auto dims = transform_dims(c, x.dim());
  auto sizes = x.sizes;
  if (!dims.empty()) {
    Expr n = c.expr("last_dim_size"), needed = sym::floor_div(n, 2) + 1;
    for (const auto& fits : {sym::Relation{sym::Rel::Ge, sizes[dims.back()], needed}, sym::Relation{sym::Rel::Ge, n, 1}})
      c.require(fits, "{}: {} results need {} inputs in dimension {}, there are {}", c.op().name, sym::to_string(n), sym::to_string(needed),
                dims.back(), sym::to_string(sizes[dims.back()]));
    sizes[dims.back()] = n;
  }
  c.result(real_of(c.op(), x.dtype), std::move(sizes));
}

void c2r_kernel(KernelCall& c) {
  Tensor x = c.tensor("self");
  Tensor& out = c.outputs[0];
  auto dims = transform_dims(c, x.dim());
  Numbers half = load(x);
  if (dims.empty()) {
    for (size_t i = 0; i < half.size(); ++i) store(out, i, half[i]);
    return;
  }
  size_t last = dims.back();
  for (size_t d : dims)
    if (d != last) transform(half, x.sizes(), d, 1);
  // The other half of the last dimension is the conjugate, by symmetry.
  int64_t n = out.sizes()[last];
  Numbers full;
  full.reserve(static_cast<size_t>(out.numel()));
  auto strides = contiguous_strides(x.sizes());
  for_each_index(out.sizes(), [&](std::span<const int64_t> index) {
    bool mirrored = index[last] > n / 2;
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += (d == last && mirrored ? n - index[d] : index[d]) * strides[d];
    C128 v = half[static_cast<size_t>(from)];
    full.push_back(mirrored ? std::conj(v) : v);
  });
  transform(full, out.sizes(), last, 1);
  double scale = normalization(c, out.sizes(), dims);
  for (size_t i = 0; i < full.size(); ++i) store(out, i, full[i] * scale);
}

void add_fft_rows(Table& t) {
  t.primitive("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", r2c_meta, r2c_kernel);
  t.primitive("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", c2c_meta, c2c_kernel);
  t.primitive("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", c2r_meta, c2r_kernel);
}

}  // namespace

void add_fft_complex_rows(Table& t) {
  add_complex_rows(t);
  add_fft_rows(t);
  add_fft_composite_rows(t);
}

}  // namespace toroid::ops
