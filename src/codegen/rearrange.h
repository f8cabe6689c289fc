// Constants that a program makes of others when it is compiled.
#pragma once

#include <map>

#include "program/program.h"

namespace toroid::codegen {

// In the CPU's memory. constants: by buffer, those that it is made of, there too.
Tensor rearranged(const program::Rearranged& r, DType dtype, int64_t numel, const std::map<int, Tensor>& constants);

}  // namespace toroid::codegen
