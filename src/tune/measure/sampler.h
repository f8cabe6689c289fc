// Times of real executables, as measure() wants them.
#pragma once

#include <memory>
#include <vector>

#include "exec/run/executable.h"
#include "tune/measure/measure.h"

namespace toroid::tune {

struct SamplerOptions {
  // Between two runs, what lies in the cache is pushed out, as other layers of a large model do: bytes to write for that; 0: nothing.
  size_t flush_bytes = 0;
  // Shorter runs are repeated within one sample until it takes so long, so that the clock's grain and what surrounds a run do not matter.
  double least_us = 50;
  // How many places the inputs of small programs are copied to (on the CPU at most eight). Where they lie, and what lies beside a
  // recording, changes the time of a kernel by up to a tenth, and not that of each candidate alike: samples go through all of them in turn.
  size_t most_places = 16;
  // Sizes that the executables take as given; see exec::Executable::run.
  exec::Symbols symbols = {};
};

// Runs executables of one device on the same inputs, or copies of them in other places, which are there and are not changed (a candidate
// that writes its inputs sees what it wrote the time before). candidates: the i-th of `count`, asked for at its first sample; it stays
// where it is. On the CPU a sample is the mean of as many runs as take least_us; on a GPU a recorded graph of several runs, by the device's
// clock. A candidate is recorded, or warmed up, at its first sample.
using Executables = std::function<exec::Executable&(size_t)>;
Sample time_executables(Executables candidates, size_t count, const Device& device, std::vector<Tensor> inputs,
                        const SamplerOptions& options = {});

// Bytes that push out all that the device's caches hold, for flush_bytes.
size_t cache_bytes(const Device& device);

}  // namespace toroid::tune
