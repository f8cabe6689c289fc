// Products whose columns are read in pairs: a gate, and what it opens.
#pragma once

#include <functional>
#include <string>

#include "sched/fuse.h"

namespace toroid::sched {

// Why a product should not have two right operands, as such a node; empty when it should.
using PairRule = std::function<std::string(const choice::Node& product)>;

// A product with constant sizes whose result is only read by one loop, at columns n and n + N / 2 of each row, becomes a product with two
// right operands and half the columns, and the loop its epilogue: the product's own result never reaches memory. Run after fuse().
choice::Program pair_products(choice::Program program, const PairRule& refusal, FusionReport* report = nullptr);

}  // namespace toroid::sched
