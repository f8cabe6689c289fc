// Fusion: joins nodes of a lowered program so that values pass between them in registers instead of memory.
#pragma once

#include "program/program.h"
#include "target/program_pass.h"

namespace toroid::sched {

using target::FusionReport;

// Greedy: of all pairs that may be joined, the one that saves most memory traffic first (in elements times size, ties by program
// order). Legality: no path between the two through a third node, domains that match, and every element that one reads of the other's
// result is the one that the other computes at the same point.
program::Program fuse(program::Program program, FusionReport* report = nullptr);

}  // namespace toroid::sched
