// Sums of the columns of a product or a convolution, begun where its template has them in registers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"
#include "target/target.h"

namespace toroid::sched {

// A loop that sums the columns of what a template stores (the statistics of a batch norm behind a convolution, the gradients of its scale
// and shift behind the convolution that computes the gradient of its result, the gradient of a bias) reads one f32 for each 64 rows in
// place of all rows: the template's epilogue stores the sums of each 64 rows (program::sums_place(), loop::StoreMode::Sum) beside its
// result. What is summed may be made of other memory that is there before the template runs: elements at the same point, numbers of
// columns. It is what the loop would have read, rounding included; only the order of the additions is another one, and the same in each
// run. The mean and the squares of the distances to it (loop::Moments) follow from the sums of x and of x * x where x was rounded to a
// half: its square is exact in f32, sums of 64 of them round in the last place, and the rest is added in f64, so that the error is below
// that of the halves themselves. The target says whether a node's template does that (target::Target::sums_refusal). Run when it is decided
// who computes products, and when all that joins loops has run. least_bytes: of a result that is worth it. A line for each loop.
constexpr int64_t kLeastSummedBytes = 1 << 22, kLeastSummedRows = 1 << 11;
std::vector<std::string> sum_columns(program::Program& p, const target::Target& target, int64_t least_bytes = kLeastSummedBytes,
                                     int64_t least_rows = kLeastSummedRows);

}  // namespace toroid::sched
