// Arguments that kernels and functions of users' write over on a GPU, brought to where they write.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// What computes an opaque operation on a GPU changes memory. Where the new contents of an argument do not lie in its own memory, a copy of
// the old ones is made where they do, before the call. Returns the number of copies. After it no pass may move results of calls.
int bring_old_contents(program::Program& p);

}  // namespace toroid::sched
