// Arguments of compiled functions that are not tensors: their values are guarded.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "toroid/compile.h"

namespace toroid::front {

using Scalar = std::variant<int64_t, double, bool, std::string>;

// Values of the arguments that are not tensors; of a list of tensors its length.
std::vector<Scalar> scalars_of(std::span<const detail::ArgumentView> arguments);
// Whether the argument has that value. NaN equals NaN.
bool equal(const detail::ArgumentView& a, const Scalar& s);
std::string text_of(const Scalar& s);

}  // namespace toroid::front
