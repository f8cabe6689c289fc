// Which collectives of a plan run beside the steps that follow.
#pragma once

#include "exec/plan.h"
#include "exec/run/sizes.h"

namespace toroid::exec {

// Of each step: for one in which ranks give each other something (a CollectiveCall, or a kernel that does it) the number of the first later
// step that needs its result, or its memory, or that may meet other ranks by itself; the number of steps where there is none. It may run
// until that step begins. 0 for other steps, and where the next step waits for it. None overlaps where the option disable_passes names
// overlap_collectives.
std::vector<size_t> ends_of(const Plan& plan);

// The same with sizes known, without those beside which there is less work than it takes to hand a collective to another thread or stream.
// Products count for no work beside what gains nothing there: kernels by which GPUs meet (0.96 to 1.08 of the time in sequence), and NCCL
// in calls that are not recorded (0.86 to 1.07; recorded 0.93 to 0.97).
std::vector<size_t> worthwhile_ends(const Plan& plan, const Symbols& symbols);

}  // namespace toroid::exec
