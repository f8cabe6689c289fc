// Loops over the rows and over the columns of the same elements as one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "target/target.h"

namespace toroid::sched {

// The gradient of a norm folds rows (for the gradient of what is normed) and columns (for those of its scale and shift) of the same
// elements; the gradients of what is around it, a residual sum, dropout, the bias of a product, are columns and elements again. Here one
// loop over rows takes over what meets it at each element:
//   a loop over columns, before it in the program or behind it: what that computes of an element it computes, too, and it leaves parts of
//   the sums of columns (loop::StoreMode::Sum), one of each for each worker of the target, to which rows are dealt out one by one. The loop
//   over columns is then one over these parts;
//   behind that, other loops over the same rows, and loops over elements alone whose arithmetic is light.
// Each element is read once, and what one of them stored for another one stays in registers. Only the order of the additions is another
// one, and the same in each run. The target says whether a kernel does that (target::Target::sums_refusal). Run when all that joins loops
// has run. least_bytes: of what need not be read again. A line for each loop that is taken over, or that the target refuses.
constexpr int64_t kLeastSharedBytes = 1 << 20, kLeastRowsOfWorker = 8;
std::vector<std::string> rows_and_columns(program::Program& p, const target::Target& target, int64_t least_bytes = kLeastSharedBytes,
                                          int64_t least_rows_of_worker = kLeastRowsOfWorker);

}  // namespace toroid::sched
