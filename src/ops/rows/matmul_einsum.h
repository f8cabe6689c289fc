// Products of matrices that need a plan: Einstein sums and matrix powers.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

// matmul with all its rank rules; `c` names the operation in messages.
Tensor compose_matmul(const CallReader& c, const Tensor& a, const Tensor& b);
// The same with a result of the dtype `as`: that of the operands, or f32 where they are halves.
Tensor compose_matmul(std::string_view name, const Tensor& a, const Tensor& b, DType as);
// Rule of einsum(equation, tensors).
std::vector<Tensor> einsum(const CallReader& c);
// Rule of tensordot(self, other, dims_self, dims_other).
std::vector<Tensor> tensordot(const CallReader& c);
// Rule of matrix_power(self, n); negative powers need linalg_inv_ex.
std::vector<Tensor> matrix_power(const CallReader& c);

}  // namespace toroid::ops
