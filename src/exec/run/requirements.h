// What a program says of the sizes that it runs for.
#pragma once

#include "exec/plan.h"
#include "exec/run/sizes.h"

namespace toroid::exec {

// Checks the guards all of whose sizes have values and, where `newest` is given, that depend on it: a size that the run has just
// determined. UserError: the operation's own, where one requires it, else what the program was compiled for.
void check_guards(const Plan& plan, const Symbols& symbols, const Expr* newest = nullptr);

}  // namespace toroid::exec
