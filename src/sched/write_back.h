// Results that replace the contents of an input are written where that input lies.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Afterwards no output that mutates an input has a buffer of its own. A result is computed into the input's memory where nothing reads the
// old contents later: where all reads come before, or in the loop that writes it, of the element that the same point writes. Other results
// are copied by loops at the end. Inputs must not overlap each other. Returns how many results changed their memory.
int write_back(program::Program& program);

}  // namespace toroid::sched
