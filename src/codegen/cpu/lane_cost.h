// What a vector of a CPU's loop costs, by the variable along which its lanes run.
#pragma once

#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// Costs about as much as ten multiplications or more.
bool is_heavy_step(const loop::Statement& s);

// What an extent counts as when variables are compared.
double extent_guess(const Expr& e);

// Blocks of `lanes` points of a space variable: squares of the loads in `staged`, whose lanes lie far apart but which run on along the
// variable, are transposed in registers.
struct Tile {
  int var = -1;  // -1: none
  std::vector<int> staged;
  std::vector<bool> on;  // the value of a step differs between points of the variable
};

// The tile with most staged loads when the lanes run along variable c. serial: see KernelPlan.
Tile tile_for(const loop::Domain& d, const loop::Body& b, size_t c, int lanes, bool serial);

// Estimated cycles for one element when the lanes run along variable c.
double cost_along(const loop::Domain& d, const loop::Body& b, size_t c, int lanes, bool serial);

}  // namespace toroid::codegen
