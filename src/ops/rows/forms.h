// Short forms in which compositions of operations are written: each calls a row of the op table through the dispatch hook.
#pragma once

#include "base/index_fault.h"
#include "ops/table.h"

namespace toroid::ops::forms {

using Sizes = std::vector<Expr>;

// Sizes of a tensor as expressions.
Sizes sizes_of(const Tensor& t);
inline Expr size_at(const Tensor& t, int64_t d) { return t.size(d).expr(); }
Expr numel_of(const Tensor& t);
Expr product_of(const Sizes& sizes);
bool same_sizes(const Sizes& a, const Sizes& b);  // structurally

// An integer argument, and a list of them.
inline Arg<Tensor> num(int64_t v) { return Expr(v); }
inline Arg<Tensor> nums(const std::vector<int64_t>& v) { return Sizes(v.begin(), v.end()); }

// The tensor itself when it has the dtype already.
Tensor cast_to(const Tensor& t, DType dtype);
// I64 numbers start, start + 1, ... (count of them); either may be symbolic.
Tensor iota(const Expr& count, const Expr& start = 0);
// iota along dimension `dim` of a tensor of `rank` dimensions: size 1 in the others.
Tensor iota_along(const Expr& count, int64_t dim, int64_t rank, const Expr& start = 0);
// A size as operand of a pointwise operation: a number, or a 0-d I64 tensor when it is symbolic.
Arg<Tensor> operand(const Expr& size);
Tensor full(const Sizes& sizes, double value, DType dtype);
inline Tensor full_number(const Sizes& sizes, const Arg<Tensor>& value, DType dtype) { return call1("full", {sizes, value, dtype}); }

inline Tensor view(const Tensor& t, Sizes sizes) { return call1("view", {t, std::move(sizes)}); }
inline Tensor flat(const Tensor& t) { return call1("view", {t, Sizes{numel_of(t)}}); }
Tensor expand(const Tensor& t, const Sizes& sizes);
inline Tensor permute(const Tensor& t, const std::vector<int64_t>& dims) { return call1("permute", {t, nums(dims)}); }
inline Tensor unsqueeze(const Tensor& t, int64_t dim) { return call1("unsqueeze", {t, num(dim)}); }
inline Tensor select(const Tensor& t, int64_t dim, Expr index) { return call1("select.int", {t, num(dim), std::move(index)}); }
inline Tensor slice(const Tensor& t, int64_t dim, Expr start, Expr end) {
  return call1("slice.Tensor", {t, num(dim), std::move(start), std::move(end)});
}
// Pads (or crops, where negative) one dimension.
Tensor pad_dim(const Tensor& t, int64_t dim, const Expr& before, const Expr& after, double value = 0);
inline Tensor clone(const Tensor& t) { return call1("clone", {t}); }

inline Tensor unary(std::string_view name, const Tensor& a) { return call1(name, {a}); }
inline Tensor add(const Tensor& a, Arg<Tensor> b) { return call1("add.Tensor", {a, std::move(b)}); }
inline Tensor sub(const Tensor& a, Arg<Tensor> b) { return call1("sub.Tensor", {a, std::move(b)}); }
inline Tensor mul(const Tensor& a, Arg<Tensor> b) { return call1("mul.Tensor", {a, std::move(b)}); }
inline Tensor div(const Tensor& a, Arg<Tensor> b) { return call1("div.Tensor", {a, std::move(b)}); }
inline Tensor minimum(const Tensor& a, Arg<Tensor> b) { return call1("minimum", {a, std::move(b)}); }
inline Tensor maximum(const Tensor& a, Arg<Tensor> b) { return call1("maximum", {a, std::move(b)}); }
inline Tensor where(const Tensor& condition, Arg<Tensor> a, Arg<Tensor> b) {
  return call1("where.self", {condition, std::move(a), std::move(b)});
}
inline Tensor pow(const Tensor& a, double exponent) { return call1("pow.Tensor_Scalar", {a, exponent}); }
inline Tensor abs(const Tensor& a) { return unary("abs", a); }
inline Tensor exp(const Tensor& a) { return unary("exp", a); }
inline Tensor log(const Tensor& a) { return unary("log", a); }
inline Tensor sqrt(const Tensor& a) { return unary("sqrt", a); }
// Comparison with a tensor: "eq", "ne", "lt", "le", "gt", "ge".
inline Tensor compare(std::string_view relation, const Tensor& a, const Tensor& b) {
  return call1(std::string(relation) + ".Tensor", {a, b});
}
inline Tensor compare(std::string_view relation, const Tensor& a, double b) { return call1(std::string(relation) + ".Scalar", {a, b}); }
inline Tensor compare_int(std::string_view relation, const Tensor& a, int64_t b) {
  return call1(std::string(relation) + ".Scalar", {a, num(b)});
}

// Reductions over `dims` (all when empty).
Tensor sum(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim);
Tensor amax(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim);
Tensor amin(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim);
// amax that gives the lowest value of the dtype for rows without elements: for composites that are right then, too (softmax of no elements
// has none).
Tensor amax_or_lowest(const Tensor& t, const std::vector<int64_t>& dims, bool keepdim);
// Number of elements that a reduction over `dims` of t joins.
Expr count_of(const Tensor& t, const std::vector<int64_t>& dims);
// What the sum of n squared differences from a mean is divided by: n - correction, and not less than 0.
Arg<Tensor> degrees_of_freedom(const Expr& n, double correction, DType dtype);
// The correction of a variance: its parameter, or 1; unbiased says 1 or 0.
double correction_of(const CallReader& c);

// A composite's operand of indices into a dimension of `size`, made I64 and looked at when it is used: an index out of range is a UserError
// that names the composite. wraps: negative ones count from the end, and come back as what they stand for. dim: -1 for all elements.
Tensor checked_index(const CallReader& c, const Tensor& index, const Expr& size, int64_t dim, bool wraps = false);
// self, once the elements of `of` (of sizes that broadcast to those of self) have been looked at: those that are not as the rule wants are
// a UserError. subject: what they are, "bernoulli: a probability". bound: of rules that have one.
Tensor checked_values(const Tensor& self, const Tensor& of, const std::string& subject, ValueRule rule, const Expr& bound = 0);
inline Tensor checked_values(const Tensor& self, const std::string& subject, ValueRule rule) {
  return checked_values(self, self, subject, rule);
}
// Elements of t picked along `dim` by an I64 index tensor of one dimension.
Tensor pick(const Tensor& t, int64_t dim, const Tensor& index);
// A list of indices for index.Tensor / index_put: `index` at position `dim`, holes before it.
std::vector<Tensor> index_list(int64_t dim, const Tensor& index);
// Broadcasts t against b (sizes of the common shape).
Sizes broadcast_sizes(const Tensor& a, const Tensor& b);
int64_t dim_of(const CallReader& c, std::string_view param, const Tensor& t);
// Normalised list of dimensions; empty stays empty.
std::vector<int64_t> dims_of(const CallReader& c, std::string_view param, const Tensor& t);

}  // namespace toroid::ops::forms
