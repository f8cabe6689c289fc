// Inputs that candidates are compared and timed on.
#pragma once

#include <span>

#include "exec/sizes.h"
#include "tensor/dispatch.h"

namespace toroid::tune {

// A tensor of this type, sizes and strides as in the type (no strides: row-major), the same for equal types and seeds on every machine:
// floats and complex numbers are normally distributed (nearly: sums of four uniform numbers), half of the Bools are true, and integers lie
// in [0, integers), so that they are indices of any dimension that has so many elements. symbols: sizes that the type leaves open;
// InternalError where one has no value.
Tensor generate_input(const TensorType& type, uint64_t seed, const exec::Symbols& symbols = {}, const Device& device = Device::cpu(),
                      int64_t integers = 2);

// One of each type, seeded by `seed` and their positions.
std::vector<Tensor> generate_inputs(std::span<const TensorType> types, uint64_t seed, const exec::Symbols& symbols = {},
                                    const Device& device = Device::cpu(), int64_t integers = 2);

}  // namespace toroid::tune
