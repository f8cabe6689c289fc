// Stable sorts of rows and selections of their first elements on GPUs.
#pragma once

#include "codegen/kernel_text.h"
#include "program/program.h"

namespace toroid::codegen {

// All dtypes but complex ones.
bool cuda_supports(const program::Sort& s);
// A block a row. Rows that fit shared memory are sorted there; of longer ones the few first elements are selected by the bytes of their
// keys, and others are sorted by them, in scratch memory.
KernelText generate_cuda_sort(const program::Sort& s);

}  // namespace toroid::codegen
