// Fusion: joins nodes of a lowered program so that values pass between them in registers instead of memory.
#pragma once

#include "program/program.h"
#include "target/program_pass.h"

namespace toroid::sched {

using target::FusionReport;

// Greedy: of all pairs that may be joined, the one that saves most memory traffic first (in elements times size, ties by program
// order). What is computed again for a backward pass (graph::Pass) joins nothing of the forward pass, which would bring it back to where it
// was not kept. Legality: no path between the two through a third node, domains that match, and every element that one
// reads of the other's result is the one that the other computes at the same point. workers: of a target that divides a reduction of one
// pass among them, but not one of several passes: these stay apart where one loop would leave most workers idle, as for the statistics of a
// batch over few channels. 0: the target does not.
program::Program fuse(program::Program program, FusionReport* report = nullptr, int workers = 0);

}  // namespace toroid::sched
