// Derivatives of pointwise rows, which are pointwise rows themselves: "grad.mul.Tensor.other" is the gradient of mul.Tensor's parameter
// "other". They are made of the row's formula when they are first asked for, so that derivatives have derivatives, too.
#pragma once

#include <optional>

#include "ops/op.h"

namespace toroid::ops {

inline constexpr std::string_view kDerivativeSpace = "grad.";

// The row of the derivative of op, which is pointwise, by its parameter number `param`, a tensor:
//
//   grad.<op>.<parameter>(Tensor grad, Tensor? result, <the tensors of op>?, <the other parameters of op>) -> Tensor
//
// Its result has the sizes and dtype of grad, which are those of op's result; operands that op broadcasts want it summed afterwards. The
// result of op and tensors that the derivative does not depend on are left out of calls.
const Op& derivative_row(const Op& op, size_t param);
// The row of that name; nullptr where there is none.
const Op* find_derivative(std::string_view name);

// The arguments of derivative_row(c.op(), param) for a call of op that returned `result`: only what the derivative depends on, and the
// result where that makes other tensors needless. nullopt: the derivative is 0 everywhere. UserError where op has none.
std::optional<CallArgs> derivative_arguments(const CallReader& c, size_t param, const Tensor& result, const Tensor& grad);

}  // namespace toroid::ops
