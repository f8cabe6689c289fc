// Losses whose scores are too large to be kept.
#pragma once

#include "graph/graph.h"

namespace toroid::autograd {

// Scores of so many bytes are computed by parts of at most as many as kPartOfScores.
inline constexpr int64_t kLargeScores = int64_t{512} << 20, kPartOfScores = int64_t{1} << 30;

// The graph with prims.linear_cross_entropy, whose gradient is computed beside each part of the scores, in the place of each mean or sum
// of cross_entropy_loss over classes that are numbers, of the product of a matrix and constant sizes that only it reads, where the scores
// have kLargeScores bytes or more. Sizes that are not known stay as they are. nullptr: there is none.
std::unique_ptr<graph::Graph> with_projected_losses(const graph::Graph& g);

}  // namespace toroid::autograd
