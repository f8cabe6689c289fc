// A bool is no dimension: `sort(x, true)` would sort along dimension 1. Where a function takes a dimension behind its tensor, a bool in
// that place does not compile; the error shows the line of the call. Included by toroid/ops.h.
#pragma once

#include <concepts>

namespace toroid {

class Tensor;

#define TOROID_BOOL_IS_NO_DIM(name) \
  template <std::same_as<bool> a_bool_is_no_dimension, class... Rest> \
  void name(const Tensor&, a_bool_is_no_dimension, const Rest&...) = delete;

TOROID_BOOL_IS_NO_DIM(aminmax)
TOROID_BOOL_IS_NO_DIM(argmax)
TOROID_BOOL_IS_NO_DIM(argmin)
TOROID_BOOL_IS_NO_DIM(argsort)
TOROID_BOOL_IS_NO_DIM(count_nonzero)
TOROID_BOOL_IS_NO_DIM(cummax)
TOROID_BOOL_IS_NO_DIM(cummin)
TOROID_BOOL_IS_NO_DIM(cumprod)
TOROID_BOOL_IS_NO_DIM(cumprod_)
TOROID_BOOL_IS_NO_DIM(cumsum)
TOROID_BOOL_IS_NO_DIM(cumsum_)
TOROID_BOOL_IS_NO_DIM(flatten)
TOROID_BOOL_IS_NO_DIM(gather)
TOROID_BOOL_IS_NO_DIM(glu)
TOROID_BOOL_IS_NO_DIM(index_add)
TOROID_BOOL_IS_NO_DIM(index_add_)
TOROID_BOOL_IS_NO_DIM(index_copy)
TOROID_BOOL_IS_NO_DIM(index_copy_)
TOROID_BOOL_IS_NO_DIM(index_fill)
TOROID_BOOL_IS_NO_DIM(index_fill_)
TOROID_BOOL_IS_NO_DIM(index_reduce)
TOROID_BOOL_IS_NO_DIM(index_reduce_)
TOROID_BOOL_IS_NO_DIM(index_select)
TOROID_BOOL_IS_NO_DIM(log_softmax)
TOROID_BOOL_IS_NO_DIM(logcumsumexp)
TOROID_BOOL_IS_NO_DIM(max)
TOROID_BOOL_IS_NO_DIM(median)
TOROID_BOOL_IS_NO_DIM(min)
TOROID_BOOL_IS_NO_DIM(mode)
TOROID_BOOL_IS_NO_DIM(nanmedian)
TOROID_BOOL_IS_NO_DIM(movedim)
TOROID_BOOL_IS_NO_DIM(moveaxis)
TOROID_BOOL_IS_NO_DIM(narrow)
TOROID_BOOL_IS_NO_DIM(prod)
TOROID_BOOL_IS_NO_DIM(scatter)
TOROID_BOOL_IS_NO_DIM(scatter_)
TOROID_BOOL_IS_NO_DIM(scatter_add)
TOROID_BOOL_IS_NO_DIM(scatter_add_)
TOROID_BOOL_IS_NO_DIM(scatter_reduce)
TOROID_BOOL_IS_NO_DIM(scatter_reduce_)
TOROID_BOOL_IS_NO_DIM(select)
TOROID_BOOL_IS_NO_DIM(slice)
TOROID_BOOL_IS_NO_DIM(softmax)
TOROID_BOOL_IS_NO_DIM(softmin)
TOROID_BOOL_IS_NO_DIM(special_log_softmax)
TOROID_BOOL_IS_NO_DIM(special_softmax)
TOROID_BOOL_IS_NO_DIM(swapaxes)
TOROID_BOOL_IS_NO_DIM(swapdims)
TOROID_BOOL_IS_NO_DIM(unbind)
TOROID_BOOL_IS_NO_DIM(unflatten)
TOROID_BOOL_IS_NO_DIM(unfold)
TOROID_BOOL_IS_NO_DIM(unique_dim)
TOROID_BOOL_IS_NO_DIM(unsqueeze)
#undef TOROID_BOOL_IS_NO_DIM

// With all of its arguments sort takes a bool in this place, which says whether it is stable: sort(x, true, 0, false).
template <std::same_as<bool> a_bool_is_no_dimension, class... Rest>
requires(sizeof...(Rest) < 2) void sort(const Tensor&, a_bool_is_no_dimension, const Rest&...) = delete;

}  // namespace toroid
