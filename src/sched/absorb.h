// Products that compute the rows of their left operand themselves.
#pragma once

#include "sched/fuse.h"

namespace toroid::sched {

// A loop node whose only reader is a product, as its left operand row by row, becomes the product's producer: no launch of its own, and
// its result never reaches memory. Each thread computes the rows that it needs, so the same row may be computed by several of `threads`:
// done only where that costs less than a launch or a small share of the product. Run after fuse().
choice::Program absorb_producers(choice::Program program, int threads, FusionReport* report = nullptr);

}  // namespace toroid::sched
