// Rewrites of a domain that make addresses simple: variables split at divisions, merged where memory runs on, dropped at extent 1.
#pragma once

#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// For each step, whether its value differs between points of a variable.
std::vector<bool> depends_on_variable(const loop::Domain& d, const loop::Body& b, const Expr& variable);
// Where some address is not linear in the last variable (it is divided, into phases say), whose extent is a multiple of `width`: that
// variable as two, the number of a run of `width` points and the place in it. Divisions by multiples of `width` are the same for a whole
// run then. False when nothing was changed.
bool split_in_runs(loop::Domain& d, loop::Body& b, int64_t width);
// Merges, splits and drops variables. Exact for all bodies.
void simplify(loop::Domain& d, loop::Body& b);

}  // namespace toroid::codegen
