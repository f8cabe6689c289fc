// Temporaries that take the memory of what they are computed from.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Where the last reader of a large temporary writes another one, or an output, of its dtype and size, element by element, the one lies over
// the other: without it both would be there at once. Returns how many there were.
int reuse_temporaries(program::Program& p);

}  // namespace toroid::sched
