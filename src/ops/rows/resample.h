// What interpolation on fixed grids and sampling at given coordinates share.
#pragma once

#include <array>

#include "ops/rows/dense_compose.h"

namespace toroid::ops {

// Weights of the four neighbours of a point that lies `t` (0 to 1) behind the second one: cubic convolution with parameter -0.75.
std::array<Tensor, 4> cubic_weights(const Tensor& t);

// Rows of torchvision's detectors.
void add_detection_rows(Table& t);

// Rows of grid_sampler and affine_grid_generator.
void add_grid_sample_rows(Table& t);

}  // namespace toroid::ops
