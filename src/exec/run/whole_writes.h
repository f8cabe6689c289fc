// Inputs that a program writes as a whole, by a result that has a buffer of its own: where that buffer may lie in the input's memory.
#pragma once

#include "exec/plan.h"

namespace toroid::exec {

// For each output of the plan whether it takes the place of an input's contents and may be computed into that input's memory: it has the
// input's type, row-major, is given to nobody else, and is written only by steps behind the last one that reads the input. On the CPU:
// kernels of GPUs read what no launch of the plan writes before their predecessors have ended.
std::vector<bool> whole_writes(const Plan& plan);

// Whether bytes of t are those of another among `tensors` (which may hold t itself).
bool overlaps_another(const Tensor& t, std::span<const Tensor> tensors);

}  // namespace toroid::exec
