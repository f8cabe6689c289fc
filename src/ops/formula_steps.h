// The steps of a formula, in an order that its writer's compiler has no part in.
#pragma once

#include "ops/op.h"

namespace toroid::ops {

// What f's row computes of f's operands. C++ leaves open in which order the operands of a + b are evaluated, and so in which order a
// formula emits what they are made of. Here each step is emitted when it is first needed, the first operand before the second; what the
// result does not need is not emitted.
S emit_formula(const FormulaCall& f);

}  // namespace toroid::ops
