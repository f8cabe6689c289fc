// Times of real executables, as measure() wants them.
#pragma once

#include <memory>
#include <vector>

#include "exec/executable.h"
#include "tune/measure.h"

namespace toroid::tune {

struct SamplerOptions {
  // Between two runs, what lies in the cache is pushed out, as other layers of a large model do: bytes to write for that; 0: nothing.
  size_t flush_bytes = 0;
  // Shorter runs are repeated within one sample until it takes so long, so that the clock's grain and what surrounds a run do not matter.
  double least_us = 50;
};

// Runs executables on the same inputs, on the device that their plans name. candidates[0] decides which device that is. The inputs must be
// of that device, and are not changed (a candidate that writes its inputs sees what it wrote the time before).
// On the CPU a sample is the mean of as many runs as take least_us; on a GPU a recorded graph of several runs, by the device's clock. A
// candidate is recorded, or warmed up, at its first sample.
// Executables must outlive the sample; they may be null for candidates that are never asked for.
Sample time_executables(std::vector<std::shared_ptr<exec::Executable>> candidates, std::vector<Tensor> inputs,
                        const SamplerOptions& options = {});

// Bytes that push out all that the device's caches hold, for flush_bytes.
size_t cache_bytes(const Device& device);

}  // namespace toroid::tune
