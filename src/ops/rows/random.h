// The reference's source of random numbers.
#pragma once

#include <cstdint>

namespace toroid::ops {

// Starts the process-wide sequence of random numbers of the reference kernels anew: equal seeds give equal sequences.
void set_reference_seed(int64_t seed);

}  // namespace toroid::ops
