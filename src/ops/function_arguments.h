// How the user-facing functions turn what they are given into arguments of rows of the op table.
#pragma once

#include <tuple>

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
Arg<Tensor> optional(std::optional<bool> v);
Arg<Tensor> optional(std::optional<DType> v);
Arg<Tensor> optional(std::optional<std::string_view> v);
Arg<Tensor> optional(const std::optional<std::vector<double>>& v);
Arg<Tensor> optional(const std::optional<SymInt>& v);
Arg<Tensor> optional(const std::optional<SizeList>& v);
// None where there are none.
Arg<Tensor> dims_or_none(const Dims& dims);
// For a parameter that must be a number; UserError for a tensor.
Arg<Tensor> number(std::string_view op, std::string_view parameter, const Operand& o);
Arg<Tensor> number(std::string_view op, std::string_view parameter, const std::optional<Operand>& o);
// The same as the number of elements of x's, or the given, dtype: integers are doubles among floats. An open size is fixed.
Arg<Tensor> number_for(const Tensor& x, std::string_view op, std::string_view parameter, const Operand& o);
Arg<Tensor> number_for(DType dtype, std::string_view op, std::string_view parameter, const Operand& o);
// A factor: an integer where it is one.
Arg<Tensor> factor(std::string_view op, std::string_view parameter, const Operand& o);
// Whether it is a tensor, or a size that is not known yet.
bool is_open(const Operand& o);
// UserError unless one of the operands is a tensor.
void need_tensor(std::string_view op, const Operand& a, const Operand& b);
// An integer where v is one: numbers of integer operations must not turn them into floating ones.
Arg<Tensor> whole(double v);
// A number as a tensor of one element of x's dtype, on its device.
Tensor elements_of(const Tensor& x, const Operand& o, std::string_view op, const std::source_location& where);
inline Arg<Tensor> maybe(const Tensor& t) { return t.defined() ? Arg<Tensor>(t) : std::monostate{}; }
// The first two, and the first three, results.
std::pair<Tensor, Tensor> two(const Op& op, CallArgs args, const std::source_location& where);
std::tuple<Tensor, Tensor, Tensor> three(const Op& op, CallArgs args, const std::source_location& where);

}  // namespace toroid::ops::arguments
