// Views of ordinary tensors: other sizes and strides on the same memory, in constant time.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

// Results of a view operation. They share memory with the first argument wherever strides can express the view; a copy is made elsewhere.
std::vector<Tensor> strided_view(const Op& op, const CallArgs& args);

}  // namespace toroid::ops
