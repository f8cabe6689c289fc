// Plans of loops over rows that sum columns as well.
#pragma once

#include <string>

#include "codegen/cuda/plan.h"

namespace toroid::codegen {

// Finds stores of sums (loop::StoreMode::Sum): how many there are of a column, one for each block, and what a thread stores of a row from
// now on, an element of its column. Before anything else is planned.
void take_row_sums(CudaPlan& p);
// As many blocks as there are multiprocessors take rows in turn. Threads own columns, whose sums they keep in registers to
// the end. Gives why that should not be; empty when the plan is made.
std::string plan_row_sums(CudaPlan& p, const CudaLoopTarget& target);
// Whether shared memory needs a row no longer than the first walk over it takes.
bool reads_rows_once(const CudaPlan& p);
// Bytes of a streamed row in shared memory, and of all that a group of threads has under way.
int64_t streamed_bytes(const CudaPlan& p, int load);
int64_t stage_bytes(const CudaPlan& p);

}  // namespace toroid::codegen
