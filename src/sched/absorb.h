// Products that compute the rows of their left operand themselves.
#pragma once

#include <string>

#include "sched/fuse.h"

namespace toroid::sched {

// Why threads should not compute rows of a product's left operand, a node with its producer, again: several of them may compute the same
// row, which must cost less than a launch or a small share of the product. Empty when they should.
std::string recompute_refusal(const program::Node& product, int threads);

// A loop node whose only reader is a product, as its left operand row by row, becomes the product's producer where the target does not
// refuse it: no launch of its own, and its result never reaches memory. Run after fuse().
program::Program absorb_producers(program::Program program, const target::Target& target, FusionReport* report = nullptr);

}  // namespace toroid::sched
