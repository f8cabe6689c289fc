// Short forms in which gradient rules are written, beyond those of compositions (ops/rows/forms.h).
#pragma once

#include "autograd/rule.h"
#include "ops/rows/forms.h"

namespace toroid::autograd {

using ops::forms::Sizes;

Tensor zeros(const Sizes& sizes, DType dtype);
Tensor zeros_like(const Tensor& t);
Tensor ones_like(const Tensor& t);
// Whether t is the ones that gradients begin with.
bool is_plain_seed(const Tensor& t);
// t summed over the dimensions in which `sizes` was broadcast to t's sizes.
Tensor sum_to(const Tensor& t, const Sizes& sizes);
// The result t of a reduction of `of` over `dims` (all when empty), with its dimensions of size 1 put back unless they are there.
Tensor with_reduced_dims(const Tensor& t, const Tensor& of, const std::vector<int64_t>& dims, bool keepdim);
Tensor flip(const Tensor& t, int64_t dim);
// Products of matrices, and matrices with rows for columns, as they are: no conjugates.
Tensor product(const Tensor& a, const Tensor& b);
Tensor flipped(const Tensor& t);
// The complex conjugate; t itself where it is real.
Tensor conjugate(const Tensor& t);
// Whether each element is 0, and t with ones in its place there.
Tensor is_zero(const Tensor& t);
Tensor one_for_zero(const Tensor& t);
// Tensor `into` plus `values` at the positions `index` along `dim`.
Tensor scatter_add(const Tensor& into, int64_t dim, const Tensor& index, const Tensor& values);
// t with each dimension cut, or padded with zeros at its end, to the sizes. Another rank is that of an index without elements, which gives
// zeros, or of one element beside none of its dimensions.
Tensor fit(const Tensor& t, const Sizes& sizes);

}  // namespace toroid::autograd
