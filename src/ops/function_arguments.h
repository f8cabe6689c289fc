// How the user-facing functions turn what they are given into arguments of rows of the op table.
#pragma once

#include "ops/table.h"
#include "toroid/ops.h"

namespace toroid::ops::arguments {

// A symbolic size becomes a 0-d I64 tensor.
Arg<Tensor> argument(const Operand& o);
std::vector<Expr> exprs(const SizeList& sizes);
std::vector<Expr> numbers(const Dims& dims);
// The dimensions, or all those of x when there are none.
std::vector<Expr> every_if_empty(const Tensor& x, const Dims& dims);
Arg<Tensor> optional(std::optional<double> v);
Arg<Tensor> optional(std::optional<int64_t> v);
// An integer where v is one: numbers of integer operations must not turn them into floating ones.
Arg<Tensor> whole(double v);
// A limit for clamp: an integer for integer tensors.
Arg<Tensor> bound(const Tensor& x, std::optional<double> v);
inline Arg<Tensor> maybe(const Tensor& t) { return t.defined() ? Arg<Tensor>(t) : std::monostate{}; }
// The first two results.
std::pair<Tensor, Tensor> two(const Op& op, CallArgs args, const std::source_location& where);

}  // namespace toroid::ops::arguments
