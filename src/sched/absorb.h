// Products that compute the rows of their left operand themselves.
#pragma once

#include <functional>
#include <string>

#include "sched/fuse.h"

namespace toroid::sched {

// Why a product, as a node with its producer, should not compute rows of its left operand itself; empty when it should.
using ProducerRule = std::function<std::string(const choice::Node& product)>;
// On the CPU: several of `threads` may compute the same row, which must cost less than a launch or a small share of the product.
ProducerRule producers_on_threads(int threads);

// A loop node whose only reader is a product, as its left operand row by row, becomes the product's producer: no launch of its own, and
// its result never reaches memory. Run after fuse().
choice::Program absorb_producers(choice::Program program, const ProducerRule& refusal, FusionReport* report = nullptr);

}  // namespace toroid::sched
