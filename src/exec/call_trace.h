// Which activities of a GPU were which steps of a call.
#pragma once

#include <span>
#include <vector>

#include "device/cuda/cupti.h"
#include "exec/plan.h"

namespace toroid::exec {

// Of each activity the launch of the plan that it was; -1 where it was none: kernels of a library's call, copies, fills. By names: of equal
// names the first to begin is the first of the plan's. Empty where some launch is missing, or ran more often than the plan says.
std::vector<int> steps_of(const Plan& plan, std::span<const device::cuda::Activity> call);

// Nanoseconds that each adds to the call: of its time, what is after the end of all that began before it. A kernel that overlaps its
// predecessor, and waits for it, is charged for what it takes longer than that. call: by start.
std::vector<int64_t> added_ns(std::span<const device::cuda::Activity> call);

}  // namespace toroid::exec
