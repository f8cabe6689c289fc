// Sums of products, without the factors that all their terms share.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// In loops of backward passes: the sum of a[r] * c over r becomes c times the sum of a[r], wherever the factors stand in a chain of
// products, so that sums that differ in such factors alone become one: of the four that differentiation makes of a normalisation (scale,
// shift, mean, variance) two are left, as in the formulas that are written by hand. Sums of a forward pass, computed again or not, keep
// their bits, and so do sums that may be of nothing. As where numbers are multiplied in another order, products of three factors and more
// may overflow where they did not. Run after fuse(). Whether there was such a sum.
bool factor_sums(program::Program& p);

}  // namespace toroid::sched
