#include "ops/rows/dense_compose.h"

#include "base/check.h"

namespace toroid::ops::compose {

Sizes sizes_of(const Tensor& t) {
  Sizes out;
  for (auto& s : t.sym_sizes()) out.push_back(s.expr());
  return out;
}

Expr product_of(const Sizes& sizes) {
  Expr p(1);
  for (auto& s : sizes) p *= s;
  return p;
}

Sizes to_sizes(const Ints& values) { return Sizes(values.begin(), values.end()); }

Sizes dims_from(int64_t first, int64_t last) {
  Sizes out;
  for (int64_t d = first; d < last; ++d) out.emplace_back(d);
  return out;
}

bool is_value(const Operand& scalar, double value) {
  if (auto* e = std::get_if<Expr>(&scalar)) return e->is_const() && static_cast<double>(e->constant()) == value;
  if (auto* d = std::get_if<double>(&scalar)) return *d == value;
  if (auto* b = std::get_if<bool>(&scalar)) return static_cast<double>(*b) == value;
  if (auto* z = std::get_if<std::complex<double>>(&scalar)) return *z == value;
  return false;
}

Tensor floor_div(const Tensor& a, int64_t b) {
  if (b == 1) return a;
  return call1("div.Tensor_mode", {a, Expr(b), std::string("floor")});
}

Tensor cast(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : call1("_to_copy", {t, dtype}); }

Tensor slice(const Tensor& t, int64_t dim, const Expr& start, const Expr& end, int64_t step) {
  return call1("slice.Tensor", {t, Expr(dim), start, end, Expr(step)});
}

Tensor arange(const Expr& n, DType dtype) { return call1("arange.start_step", {Expr(0), n, Expr(1), dtype}); }

Tensor full(const Sizes& sizes, double value, DType dtype) {
  Operand number = value;
  if (is_int(dtype)) number = Expr(static_cast<int64_t>(value));
  return call1("full", {sizes, number, dtype});
}

Tensor along(const Tensor& vector, int64_t dim, int64_t rank) {
  TOROID_USER_CHECK(dim < rank && vector.dim() == 1,
                    "{} dimensions laid along dimension {} of {}; a vector, and more dimensions, are expected", vector.dim(), dim, rank);
  Sizes sizes(static_cast<size_t>(rank), Expr(1));
  sizes[static_cast<size_t>(dim)] = extent(vector, 0);
  return reshape(vector, sizes);
}

Ints spread(const CallReader& c, std::string_view name, size_t n) {
  Ints v = c.integers(name);
  if (v.size() == 1) v.resize(n, v[0]);
  TOROID_USER_CHECK(v.size() == n, "{}: argument \"{}\" must have {} numbers (or one), it has {}", c.op().name, name, n, v.size());
  return v;
}

}  // namespace toroid::ops::compose
