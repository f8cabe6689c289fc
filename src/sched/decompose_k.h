// Products whose sums are long and whose results are few, cut along the sum.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Why a product cannot be cut into so many parts; empty when it can.
std::string decompose_k_refusal(const program::Node& product, int64_t splits);
// Node i becomes a batch of `splits` products over equal parts of k, and a loop behind it that adds up what they give and does the rest
// of its work. UserError with the refusal's reason where that cannot be.
void decompose_k(program::Program& p, size_t i, int64_t splits);

// Counts worth a trial, powers of two first, at most `most`: parts have 128 steps or more. As PyTorch's decompose_k where sums are
// `threshold` times as long as there are rows and columns; and besides where the product has fewer tiles than there are `processors`.
std::vector<int64_t> decompose_k_splits(const program::Node& product, int processors, int64_t threshold = 32, size_t most = 6);

}  // namespace toroid::sched
