// Products whose sums are added up over the ranks of a group.
#pragma once

#include "sched/fuse.h"

namespace toroid::sched {

// A product whose result is only read by an all-reduce of kernels, as it is, becomes what that brings to the other ranks
// (program::Meeting::product), where the target does not refuse it: a block sends its sums while others still multiply, and the result
// never reaches memory. The bits stay the same. Run after absorb_producers().
program::Program bring_products(program::Program program, const target::Target& target, FusionReport* report = nullptr);

}  // namespace toroid::sched
