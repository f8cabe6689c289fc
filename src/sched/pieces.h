// Products of matrices and the collectives before or behind them, in pieces of which one moves while the next is multiplied.
#pragma once

#include "sched/fuse.h"

namespace toroid::sched {

// An all_gather of rows that a product alone reads as its left operand, or a product that a reduce_scatter of its rows alone reads, becomes
// one program::Meeting with the product, where the target does not refuse it. What is fused with the later of the two becomes a loop
// behind.
program::Program overlap_products(program::Program program, const target::Target& target, FusionReport* report = nullptr);

}  // namespace toroid::sched
