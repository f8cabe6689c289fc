// Cuts the epilogue of a template node in two.
#pragma once

#include <optional>

#include "program/program.h"

namespace toroid::sched {

// Node i keeps its body up to `step` and stores that value in a new buffer, with these strides along the variables of its domain. What
// is left of the body becomes a loop right behind it. rounded: to this type, where the value is of another.
void split_epilogue(program::Program& p, size_t i, int step, const std::vector<Expr>& strides, std::optional<DType> rounded = std::nullopt);

}  // namespace toroid::sched
