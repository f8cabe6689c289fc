// Which dimensions of a reshape belong together.
#pragma once

#include <span>
#include <utility>

#include "toroid/sym_expr.h"

namespace toroid::ops {

// How many of the first dimensions on both sides are the shortest runs that hold equally many elements; all where none are known to.
std::pair<size_t, size_t> equal_runs(std::span<const Expr> from, std::span<const Expr> to);

}  // namespace toroid::ops
