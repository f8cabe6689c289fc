// Rewrites of a domain that make addresses simple: variables split at divisions, merged where memory runs on, dropped at extent 1.
#pragma once

#include <vector>

#include "loop/node.h"

namespace toroid::codegen {

// For each step, whether its value differs between points of a variable.
std::vector<bool> depends_on_variable(const loop::Domain& d, const loop::Body& b, const Expr& variable);
// Merges, splits and drops variables. Exact for all bodies.
void simplify(loop::Domain& d, loop::Body& b);

}  // namespace toroid::codegen
