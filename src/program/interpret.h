// Runs a program node by node: the definition of what a program means.
#pragma once

#include <span>

#include "program/program.h"

namespace toroid::program {

// Checks the inputs (UserError), runs the nodes in order, writes what the program writes to inputs into their tensors, and returns the
// other outputs in order (undefined for literals). All tensors are on the CPU. Loops are those of loop::interpret, problems are their
// formulas with sums in double (in 64-bit integers where they accumulate integers), calls run the kernel of the operation's row, and of an
// undecided choice the first implementation runs. Memory that nothing has written holds NaN, or integers that no program means.
std::vector<Tensor> interpret(const Program& p, std::span<const Tensor> user_inputs);

}  // namespace toroid::program
