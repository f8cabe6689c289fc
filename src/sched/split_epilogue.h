// Cuts the epilogue of a template node in two.
#pragma once

#include <optional>

#include "program/program.h"

namespace toroid::sched {

// Node i keeps its body up to `step` and stores that value in a new buffer, with these strides along the variables of its domain. What
// is left of the body becomes a loop right behind it. rounded: to this type, where the value is of another.
void split_epilogue(program::Program& p, size_t i, int step, const std::vector<Expr>& strides, std::optional<DType> rounded = std::nullopt);

// Leaves in the body of node i, a template's, nothing but the store of its sums, rounded where that is all that is read of them, to memory
// without gaps; a loop behind it does the rest. Does nothing where that is the body already. Sums are rounded to the type of the operands
// alone, as libraries do it. rounded: to this type, whatever is read of them.
void leave_sums(program::Program& p, size_t i, std::optional<DType> rounded = std::nullopt);

}  // namespace toroid::sched
