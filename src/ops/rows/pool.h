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
// Of each window of a maximum over fixed windows, the number of the element that is its first maximum: [lead..., out...], i64. c: the call
// of the pool.
Tensor max_pool_best(const CallReader& c, size_t spatial);
// The gradient by the input of that maximum, of `gradient` by its result. An element takes those of the few windows that it is in, so that
// nothing is scattered.
Tensor max_pool_gradient(const CallReader& c, const Tensor& gradient, const Tensor& best, size_t spatial);

// Rows of adaptive and fractional pools.
void add_adaptive_pool_rows(Table& t);

}  // namespace toroid::ops
