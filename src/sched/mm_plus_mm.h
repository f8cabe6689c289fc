// Sums of two products as one product.
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace toroid::sched {

inline constexpr const char* kMmPlusMm = "mm_plus_mm";  // the way, see tune::Choice

// Nodes of a lowered program whose results are added and are used for nothing else: `first` comes before `second`, both before `sum`.
struct SumOfProducts {
  size_t first = 0, second = 0, sum = 0;
};
// The one that has this node as its second product.
std::optional<SumOfProducts> sum_of_products(const program::Program& p, size_t second);
// Those worth a trial, without a product in common: what is put side by side is not much more than what need not be stored and read.
std::vector<SumOfProducts> sums_of_products(const program::Program& p);

// mm(a, b) + mm(c, d) = mm([a c], [b; d]): the second product becomes that of both, in front of it loops put a and c side by side, and the
// sum loses a term. Constant right operands are put together when the program is compiled. UserError where there is no such sum.
void mm_plus_mm(program::Program& p, size_t second);

}  // namespace toroid::sched
