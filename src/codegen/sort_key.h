// The order of sorting as the order of unsigned integers.
#pragma once

#include <string>

#include "toroid/dtype.h"

namespace toroid::codegen {

// Statements of a function in C (and CUDA C++) that gives a number whose unsigned order is the order of sorting, of the bits x of an
// element: of `type`, an unsigned integer of its size or a vector of those. Floats (after M. Herf, "Radix tricks", 2001): all bits of
// negative numbers flip, the sign of others; zeros are equal, and so are NaNs, the largest.
std::string sort_key_text(DType t, bool descending, const std::string& type, const std::string& signed_type);

}  // namespace toroid::codegen
