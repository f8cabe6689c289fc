// Numbers that operations write into elements as they are: full's, masked_fill's, the factors of sums.
#pragma once

#include <span>

#include "ops/op.h"

namespace toroid::ops {

// UserError that names number and dtype where the elements have no room for one, or where a factor of integers is no integer.
void check_stored_numbers(const Op& op, std::span<const Arg<Tensor>> args);

}  // namespace toroid::ops
