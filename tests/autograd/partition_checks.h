// Checks of the partition: of cuts against all cuts there are, of random graphs with gradients against themselves. Each says what is
// wrong, or nothing: "".
#pragma once

#include <cstdint>
#include <string>

namespace toroid::autograd {

// A random network of at most 8 inner vertices: its cut, against every set of vertices.
std::string wrong_cut(uint64_t seed);
// A random forward pass and what reads it, of at most 12 nodes: the saved bytes, against every set of values that could be saved; and by
// several budgets.
std::string wrong_partition(uint64_t seed);
// A random graph with gradients by several budgets: results are the same bits, marks say what is computed again, and no output of the
// forward pass is of those.
std::string wrong_recomputation(uint64_t seed);
// Values of checkpoints.
std::string wrong_checkpoint();
// A random graph with gradients as two programs, by several budgets: the same bits, whatever the order of its inputs and outputs.
std::string wrong_division(uint64_t seed);
// Two programs that draw random numbers, of a function that writes to an input, and of gradients that are 0.
std::string wrong_divided_effects();

}  // namespace toroid::autograd
