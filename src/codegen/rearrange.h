// Constants that a program makes of others when it is compiled.
#pragma once

#include <map>

#include "codegen/packing.h"
#include "program/program.h"

namespace toroid::codegen {

// How it is made, and the constants of which, in the order in which its parts name them. constants: by buffer, in the CPU's memory.
std::pair<Packing, std::vector<Tensor>> packing_of(const program::Rearranged& r, DType dtype, int64_t numel,
                                                   const std::map<int, Tensor>& constants);
// See pack(). Parts of at least one element each.
Packed rearrange(const Packing& how, const std::vector<Tensor>& from);

}  // namespace toroid::codegen
