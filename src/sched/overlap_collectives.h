// The order of a program's nodes around collectives that may run beside others.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Collectives come as soon as what they read is there, before nodes that they do not need; what reads their results comes behind nodes that
// do not, as far as the next collective does not wait for it. All collectives, and all calls, stay in their order, so that ranks with the
// same program meet in the same order. Whether the order is another one.
bool overlap_collectives(program::Program& p);

}  // namespace toroid::sched
