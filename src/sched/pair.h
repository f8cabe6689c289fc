// Products whose columns are read in pairs: a gate, and what it opens.
#pragma once

#include "sched/fuse.h"

namespace toroid::sched {

// A product with constant sizes whose result is only read by one loop, at columns n and n + N / 2 of each row, becomes a product with two
// right operands and half the columns, and the loop its epilogue, where the target does not refuse it: the product's own result never
// reaches memory. Run after fuse().
program::Program pair_products(program::Program program, const target::Target& target, FusionReport* report = nullptr);

}  // namespace toroid::sched
