// Long reductions with few results, in two stages.
#pragma once

#include "sched/fuse.h"

namespace toroid::sched {

// A loop that folds long rows into fewer results than `threads` need to be busy becomes two: the first folds parts of the rows, the second
// folds those results and does the rest of the body. Run after fuse(): a split loop takes no further part in it.
program::Program split_reductions(program::Program program, int threads, FusionReport* report = nullptr);

}  // namespace toroid::sched
