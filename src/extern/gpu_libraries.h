// The libraries of GPUs that programs call.
#pragma once

#include <string>

namespace toroid::external {

// Their versions, "cuBLASLt, cuDNN", "none" for one that is missing: what was measured, and which of their implementations was chosen,
// holds for these alone. Loads them.
std::string gpu_libraries();

}  // namespace toroid::external
