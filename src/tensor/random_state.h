// The state of random numbers as programs read it.
#pragma once

#include "toroid/tensor.h"

namespace toroid {

// Takes the next `count` numbers of the process's stream for one run: their seed and offset, i64[2].
Tensor take_random_state(int64_t count);

}  // namespace toroid
