// Values that are computed again where they are read, instead of being kept in memory.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace toroid::sched {

// A large temporary that a loop stores, and that loops alone read, is computed in each reader from what it was made of, where that is cheap
// (a few steps of arithmetic), exact (the same steps, rounding included; what the loop stores elsewhere is read back), moves less memory
// than storing and reading it, and keeps no more memory alive: x - mean of a normalisation, a gradient in bf16 times the numbers of a row.
// Rows of the same sums need not be kept to be read by their reduction and by what follows it: the sums are, where they are few. The idea
// is that of rematerialization in compilers for processors (Briggs, Cooper, Torczon 1992), as loops have no registers to keep a tensor in.
// Run after fuse(): values that pass within a node are in no memory. least_bytes: of a temporary that is worth it. A line for each
// temporary.
std::vector<std::string> recompute(program::Program& p, int64_t least_bytes = 1 << 12);

}  // namespace toroid::sched
