// One launch for the updates of many inputs, and one for what is narrowed of them.
#pragma once

#include "program/program.h"
#include "target/target.h"

namespace toroid::sched {

// Loops that write inputs, and differ from each other in memory and sizes alone as the target sees it, become one node, the others beside
// the first of them: the parameters of an optimizer. So do loops that narrow inputs which the program writes, and bring what they
// made into other orders: the weights of a step that computes in bf16, all of which are in memory from the first of these loops on. A loop
// joins the latest such node that it can be moved to, past what it neither needs nor disturbs. Run behind write_back.
program::Program join_updates(program::Program program, const target::Target& target);

}  // namespace toroid::sched
