// Compares the tensors that a model gave with those that were expected.
#pragma once

#include <optional>
#include <string>

#include "toroid/tensor.h"

namespace toroid::cli {

struct Tolerance {
  // Allowed error of f32 results as a part of the output's range; the other float types scale with it.
  double f32 = 1e-4;
};

// UserError for one that is negative or no number.
void check_tolerance(double tolerance);

// What differs, for people: dtype, sizes, or the first element that is too far off with its position, both values and the error.
// Nothing when all agree: integers and Bool exactly, floats within the tolerance of the expected tensor's range, NaN and infinities
// in the same places.
std::optional<std::string> compare_tensors(const Tensor& got, const Tensor& expected, const Tolerance& tolerance);

// Allowed difference of each element: absolute + relative * |expected|.
struct ElementTolerance {
  double relative = 0, absolute = 0;
};

// The same with a tolerance that follows from each expected element. Integers and Bool must agree exactly here, too.
std::optional<std::string> compare_elements(const Tensor& got, const Tensor& expected, const ElementTolerance& tolerance);

// The dtype and sizes part of it.
std::optional<std::string> compare_types(const Tensor& got, const Tensor& expected);

}  // namespace toroid::cli
