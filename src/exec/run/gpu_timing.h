// What a launch on a GPU costs where others run before and after it.
#pragma once

#include "device/cuda/gpu.h"

namespace toroid::exec {

// Nanoseconds that the GPU spends on what `work` starts, which can be recorded and repeated: the mean of several runs in a row, as in a
// replayed call. weights: bytes that other launches have pushed out of the cache by the time of the next call; where they would fit
// there, so is done between the runs.
int64_t time_repeatedly(device::cuda::Gpu& gpu, const std::function<void()>& work, int64_t weights);

}  // namespace toroid::exec
