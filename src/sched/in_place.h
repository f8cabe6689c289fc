// Which nodes may write results over what they read.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Whether the node may compute buffer `result` into the memory of buffer `old`, whose elements nothing else wants: each point reads of it
// only the element that it writes afterwards. Loops, products by templates that read it in their epilogue alone, and opaque calls that
// write to it.
bool may_write_over(const program::Node& n, int old, int result);

}  // namespace toroid::sched
