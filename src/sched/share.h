// Launches shared by small independent loops.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Loops that follow each other and touch nothing of each other's results run in one launch, their tasks side by side: one start and one
// end for all threads in place of several. Loops with reductions or scatters keep theirs. Run last: nodes keep their order.
program::Program share_launches(program::Program program);

}  // namespace toroid::sched
