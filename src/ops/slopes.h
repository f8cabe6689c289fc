// Derivatives of pointwise rows that are not those of their formulas: at points where a formula has none, or one that PyTorch defines
// otherwise.
#pragma once

#include "ops/op.h"

namespace toroid::ops {

// The derivative by the tensor parameter `by` of a call whose formula gave `result`; an S without builder is 0.
using Slope = S (*)(const FormulaCall& f, std::string_view by, S result);

// nullptr: the formula's own derivative holds.
Slope find_slope(const Op& op);

}  // namespace toroid::ops
