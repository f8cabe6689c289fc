// Numbers computed from sizes that are no whole numbers, as 0-d tensors computed in the graph.
#pragma once

#include "import/sym_values.h"

namespace toroid::import {

// A 0-d f64 tensor (Bool for a condition) that computes the expression with operations of the current dispatcher. UserError for a
// function that Toroid does not have.
Tensor number_tensor(const SymAst& ast, const SymValues& symbols);

}  // namespace toroid::import
