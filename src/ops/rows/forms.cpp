#include "ops/rows/forms.h"

namespace toroid::ops::forms {

Sizes sizes_of(const Tensor& t) {
  Sizes out;
  for (auto& s : t.sym_sizes()) out.push_back(s.expr());
  return out;
}

Expr product_of(const Sizes& sizes) {
  Expr n = 1;
  for (auto& s : sizes) n = n * s;
  return n;
}

Expr numel_of(const Tensor& t) { return product_of(sizes_of(t)); }

bool same_sizes(const Sizes& a, const Sizes& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (!(a[d] == b[d])) return false;
  return true;
}

Tensor cast_to(const Tensor& t, DType dtype) { return t.dtype() == dtype ? t : call1("_to_copy", {t, dtype}); }

Tensor iota(const Expr& count, const Expr& start) { return call1("arange.start_step", {start, start + count, num(1), DType::I64}); }

Tensor iota_along(const Expr& count, int64_t dim, int64_t rank, const Expr& start) {
  Sizes sizes(static_cast<size_t>(rank), Expr(1));
  sizes[static_cast<size_t>(dim)] = count;
  return view(iota(count, start), sizes);
}

Arg<Tensor> operand(const Expr& size) {
  if (size.is_const()) return size;
  return view(iota(1, size), {});
}

Tensor full(const Sizes& sizes, double value, DType dtype) {
  if (is_float(dtype) || is_complex(dtype)) return full_number(sizes, value, dtype);
  return full_number(sizes, num(static_cast<int64_t>(value)), dtype);
}

Tensor expand(const Tensor& t, const Sizes& sizes) { return same_sizes(sizes_of(t), sizes) ? t : call1("expand", {t, sizes}); }

Tensor pad_dim(const Tensor& t, int64_t dim, const Expr& before, const Expr& after, double value) {
  if (before == Expr(0) && after == Expr(0)) return t;
  Sizes pad(static_cast<size_t>(2 * (t.dim() - dim)), Expr(0));
  pad[pad.size() - 2] = before;
  pad[pad.size() - 1] = after;
  return call1("constant_pad_nd", {t, pad, value});
}

Tensor sum(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim) { return call1("sum.dim_IntList", {t, nums(dims), keepdim}); }
Tensor amax(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim) { return call1("amax", {t, nums(dims), keepdim}); }
Tensor amin(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim) { return call1("amin", {t, nums(dims), keepdim}); }
Tensor amax_or_lowest(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim) {
  return call1("amax", {t, nums(dims), keepdim, true});
}

Expr count_of(const Tensor& t, const std::vector<int64_t>& dims) {
  if (dims.empty()) return numel_of(t);
  Expr n = 1;
  if (t.dim() == 0) return n;
  for (int64_t d : dims) n = n * size_at(t, d);
  return n;
}

std::vector<Tensor> index_list(int64_t dim, const Tensor& index) {
  std::vector<Tensor> list(static_cast<size_t>(dim) + 1);
  list.back() = index;
  return list;
}

Arg<Tensor> degrees_of_freedom(const Expr& n, double correction, DType dtype) {
  if (n.is_const()) return std::max(0.0, static_cast<double>(n.constant()) - correction);
  return call1("clamp_min", {sub(cast_to(view(iota(1, n), {}), dtype), correction), num(0)});
}

double correction_of(const CallReader& c) {
  if (c.op().schema.find("unbiased") >= 0) return c.flag("unbiased") ? 1 : 0;
  return c.has("correction") ? c.real("correction") : 1;
}

Tensor checked_index(const CallReader& c, const Tensor& index, const Expr& size, int64_t dim, bool wraps) {
  if (!is_int(index.dtype())) return index;  // who takes it says what it must be
  return call1("_check_index", {index, size, c.op().name.substr(0, c.op().name.find('.')), num(dim), wraps});
}

Tensor pick(const Tensor& t, int64_t dim, const Tensor& index) { return call1("index.Tensor", {t, index_list(dim, index)}); }

Sizes broadcast_sizes(const Tensor& a, const Tensor& b) {
  Sizes x = sizes_of(a), y = sizes_of(b);
  if (x.size() < y.size()) std::swap(x, y);
  size_t lead = x.size() - y.size();
  for (size_t d = 0; d < y.size(); ++d)
    if (x[lead + d] == Expr(1)) x[lead + d] = y[d];
  return x;
}

int64_t dim_of(const CallReader& c, std::string_view param, const Tensor& t) { return normal_dim(c.op(), c.integer(param), t.dim()); }

std::vector<int64_t> dims_of(const CallReader& c, std::string_view param, const Tensor& t) {
  std::vector<int64_t> out = c.integers(param);
  for (auto& d : out) d = normal_dim(c.op(), d, t.dim());
  return out;
}

}  // namespace toroid::ops::forms
