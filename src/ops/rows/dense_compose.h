// Short names for operations on tensors: what the composite rows of the dense families (matmul, pools, norms, ...) are written with.
#pragma once

#include "ops/table.h"

namespace toroid::ops::compose {

// A tensor, or a number in a tensor's place. Integers are written as Expr(2), other numbers as doubles.
using Operand = Arg<Tensor>;
using Sizes = std::vector<Expr>;
using Ints = std::vector<int64_t>;

Sizes sizes_of(const Tensor& t);
inline Expr extent(const Tensor& t, int64_t dim) { return t.size(dim).expr(); }
// The size as a plain number; a symbolic size becomes fixed by a guard.
inline int64_t fixed_extent(const Tensor& t, int64_t dim) { return static_cast<int64_t>(t.size(dim)); }
// Whether two sizes are equal; a symbolic question becomes a guard.
inline bool equal(const Expr& a, const Expr& b) { return SymInt(a) == SymInt(b); }
Expr product_of(const Sizes& sizes);
Sizes to_sizes(const Ints& values);
// The integers first, first + 1, ..., last - 1 as an argument.
Sizes dims_from(int64_t first, int64_t last);
// Whether a Scalar argument is exactly this real number.
bool is_value(const Operand& scalar, double value);

inline Tensor add(const Operand& a, const Operand& b) { return call1("add.Tensor", {a, b}); }
inline Tensor sub(const Operand& a, const Operand& b) { return call1("sub.Tensor", {a, b}); }
inline Tensor mul(const Operand& a, const Operand& b) { return call1("mul.Tensor", {a, b}); }
inline Tensor div(const Operand& a, const Operand& b) { return call1("div.Tensor", {a, b}); }
// Integer division that rounds down.
Tensor floor_div(const Tensor& a, int64_t b);
inline Tensor remainder(const Tensor& a, int64_t b) { return call1("remainder.Scalar", {a, Expr(b)}); }
inline Tensor rsqrt(const Tensor& a) { return call1("rsqrt", {a}); }
inline Tensor floor(const Tensor& a) { return call1("floor", {a}); }
inline Tensor where(const Tensor& condition, const Operand& a, const Operand& b) { return call1("where.self", {condition, a, b}); }
inline Tensor logical_and(const Tensor& a, const Tensor& b) { return call1("logical_and", {a, b}); }
inline Tensor lt(const Tensor& a, const Operand& scalar) { return call1("lt.Scalar", {a, scalar}); }
inline Tensor le(const Tensor& a, const Operand& scalar) { return call1("le.Scalar", {a, scalar}); }
inline Tensor ge(const Tensor& a, const Operand& scalar) { return call1("ge.Scalar", {a, scalar}); }
// Open sizes are operands: the row of numbers would need them known.
inline Tensor clamp(const Tensor& a, const Operand& lo, const Operand& hi) {
  const auto is_open = [](const Operand& o) {
    const Expr* e = std::get_if<Expr>(&o);
    return e && !e->is_const();
  };
  return call1(is_open(lo) || is_open(hi) ? "clamp.Tensor" : "clamp", {a, lo, hi});
}

// Itself when it has that dtype already.
Tensor cast(const Tensor& t, DType dtype);
inline Tensor reshape(const Tensor& t, const Sizes& sizes) { return call1("reshape", {t, sizes}); }
inline Tensor expand(const Tensor& t, const Sizes& sizes) { return call1("expand", {t, sizes}); }
inline Tensor permute(const Tensor& t, const Ints& dims) { return call1("permute", {t, to_sizes(dims)}); }
inline Tensor transpose(const Tensor& t, int64_t a, int64_t b) { return call1("transpose.int", {t, Expr(a), Expr(b)}); }
inline Tensor unsqueeze(const Tensor& t, int64_t dim) { return call1("unsqueeze", {t, Expr(dim)}); }
inline Tensor squeeze(const Tensor& t, int64_t dim) { return call1("squeeze.dim", {t, Expr(dim)}); }
inline Tensor select(const Tensor& t, int64_t dim, const Expr& index) { return call1("select.int", {t, Expr(dim), index}); }
Tensor slice(const Tensor& t, int64_t dim, const Expr& start, const Expr& end, int64_t step = 1);
inline Tensor cat(std::vector<Tensor> parts, int64_t dim) { return call1("cat", {std::move(parts), Expr(dim)}); }
inline Tensor stack(std::vector<Tensor> parts, int64_t dim) { return call1("stack", {std::move(parts), Expr(dim)}); }
inline Tensor sum(const Tensor& t, const Sizes& dims, bool keep = false) { return call1("sum.dim_IntList", {t, dims, keep}); }
inline Tensor mean(const Tensor& t, const Sizes& dims, bool keep = false) { return call1("mean.dim", {t, dims, keep}); }
// Values 0 .. n-1.
Tensor arange(const Expr& n, DType dtype = DType::I64);
Tensor full(const Sizes& sizes, double value, DType dtype);
inline Tensor index(const Tensor& t, std::vector<Tensor> indices) { return call1("index.Tensor", {t, std::move(indices)}); }
inline Tensor mm(const Tensor& a, const Tensor& b) { return call1("mm", {a, b}); }
inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) { return call1("linear", {x, weight, bias}); }
// A vector laid along dimension `dim` of a tensor of `rank` dimensions (all other sizes 1).
Tensor along(const Tensor& vector, int64_t dim, int64_t rank);

// One number stands for all `n` dimensions; UserError when the count is neither 1 nor n.
Ints spread(const CallReader& c, std::string_view name, size_t n);

}  // namespace toroid::ops::compose
