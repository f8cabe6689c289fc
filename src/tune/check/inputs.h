// Inputs that candidates are compared and timed on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/run/sizes.h"
#include "tensor/dispatch.h"

namespace toroid::tune {

// What integers are drawn from.
struct Integers {
  int64_t low = 0, high = 1;  // inclusive
  // Where there are no more elements than high - low + 1, no two are equal; else no two of so many neighbours along a dimension.
  bool distinct = false;
  std::vector<int64_t> strides = {};  // of these dimensions in memory, in elements, the largest first; empty: there is one, of stride 1
  bool operator==(const Integers&) const = default;
};

// A tensor of this type, sizes and strides as in the type (no strides: row-major), the same for equal types and seeds on every machine:
// floats and complex numbers are normally distributed (nearly: sums of four uniform numbers), half of the Bools are true, and integers are
// uniform over `integers`. symbols: sizes that the type leaves open; InternalError where one has no value.
Tensor generate_input(const TensorType& type, uint64_t seed, const exec::Symbols& symbols = {}, const Device& device = Device::cpu(),
                      const Integers& integers = {});

// One of each type, seeded by `seed` and their positions.
std::vector<Tensor> generate_inputs(std::span<const TensorType> types, uint64_t seed, const exec::Symbols& symbols = {},
                                    const Device& device = Device::cpu(), const Integers& integers = {});

}  // namespace toroid::tune
