// Sums of columns, begun by the loop that folds the rows of the same elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "target/target.h"

namespace toroid::sched {

// The gradient of a norm folds rows (for the gradient of what is normed) and columns (for those of its scale and shift) of the same
// elements. Here the loop over rows takes the other one over: what that computes of an element it computes, too, and it leaves sums of the
// columns of neighbouring rows (loop::StoreMode::Sum), as many sums as the target has workers. The loop over columns is then one over these
// sums. Each element is read once, and numbers of a row need not be stored for the other loop. Only the order of the additions is another
// one, and the same in each run. The target says whether a kernel does that (target::Target::sums_refusal). Run when all that joins loops
// has run. least_bytes: of what need not be read again. A line for each loop over columns.
constexpr int64_t kLeastSharedBytes = 1 << 20, kLeastRowsOfWorker = 8;
std::vector<std::string> rows_and_columns(program::Program& p, const target::Target& target, int64_t least_bytes = kLeastSharedBytes,
                                          int64_t least_rows_of_worker = kLeastRowsOfWorker);

}  // namespace toroid::sched
