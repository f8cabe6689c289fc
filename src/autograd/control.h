// Gradients of operations that run sub-graphs.
#pragma once

#include <vector>

#include "graph/recorder.h"

namespace toroid::autograd {

// The gradients of a cond node's operands: another cond node, recorded, whose regions compute the joint graphs of those of `n` and give
// their gradients. `args` are the node's as they are now, `cotangents` those of its results (undefined: 0), `wanted` says of which operands
// gradients are wanted; others are undefined in the result.
//
// UserError where a region draws random numbers, as those of its gradient would be others, or has no gradient.
std::vector<Tensor> cond_gradients(graph::Recorder& recorder, const graph::Node& n, const CallArgs& args,
                                   const std::vector<Tensor>& cotangents, const std::vector<bool>& wanted);

// The same of a scan, of init, xs and extra in that order: a scan from the last step to the first one, which computes each step again from
// what was carried into it.
std::vector<Tensor> scan_gradients(graph::Recorder& recorder, const graph::Node& n, const CallArgs& args,
                                   const std::vector<Tensor>& cotangents, const std::vector<bool>& wanted);

}  // namespace toroid::autograd
