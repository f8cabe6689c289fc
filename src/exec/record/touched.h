// What orders the launches of a recording.
#pragma once

#include <functional>

#include "exec/record/order.h"
#include "exec/run/bound.h"
#include "exec/run/lane.h"

namespace toroid::exec {

// Memory that the launches of these steps of the plan use, and with it what else orders them: no replay may be given memory for which the
// order is wrong, and nothing of the caller's is updated before a launch that finds a fault. moves: whether a later replay finds a buffer
// of the plan elsewhere, if that is not the lane's memory.
std::vector<std::vector<Touched>> touched_by(const Plan& plan, const Bound& bound, std::span<const size_t> steps, const Memory& memory,
                                             const std::function<bool(int buffer)>& moves);

}  // namespace toroid::exec
