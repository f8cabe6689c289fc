// What pooling over fixed and over adaptive windows share. "Windows" are tensors [lead..., out..., window...] with as many window as
// output dimensions.
#pragma once

#include "ops/rows/dense_compose.h"

namespace toroid::ops {

// What a maximum starts from: -inf, or the smallest integer.
compose::Operand lowest_value(DType t);
// The window dimensions as one.
Tensor flat_windows(const Tensor& windows, int64_t spatial);
// Maximum over the window dimensions.
Tensor trailing_amax(const Tensor& windows, int64_t spatial);
// UserError unless the input has the spatial dimensions, channels and perhaps a batch.
void check_pool_input(const CallReader& c, const Tensor& x, size_t spatial);
// The gradient by the input of a maximum over fixed windows, of `gradient` by its result; c: the call of the pool. indices: where each
// window has its maximum, as max_pool2d_with_indices says. An element takes those of the few windows that it is in, so that nothing is
// scattered.
Tensor max_pool_gradient(const CallReader& c, const Tensor& gradient, const Tensor& indices, size_t spatial);

// Rows of adaptive and fractional pools.
void add_adaptive_pool_rows(Table& t);

}  // namespace toroid::ops
