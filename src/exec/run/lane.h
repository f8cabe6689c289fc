// The memory of a run.
#pragma once

#include <span>
#include <thread>

#include "device/cuda/side_stream.h"
#include "device/index_faults.h"
#include "device/memory.h"
#include "exec/record/shared_results.h"
#include "exec/run/bound.h"

namespace toroid::exec {

// Memory that one run at a time uses, kept for the next: temporaries, counters that are zero between launches, and results that later
// calls may overwrite.
struct Lane {
  std::shared_ptr<Storage> arena, zeros;
  SharedResults results;
  std::thread::id owner;                           // whose results they are
  device::StreamKey stream = nullptr;              // the only one whose work uses it: its order keeps runs apart
  std::unique_ptr<device::cuda::SideStream> side;  // for collectives between GPUs; made where one needs it
};

// The stream that the calling thread's work on a device goes to.
device::StreamKey stream_key(const Device& device);

// The lane gets at least so many bytes of temporaries and counters. What was in them is lost.
void grow(Lane& lane, int64_t arena, int64_t zeros, const Device& device);

// Where the plan's buffers are in one run, and the tensors that are the memory of some of them. A recording keeps its own from call to
// call, so that only what moves is placed again.
struct Workspace {
  std::vector<void*> at;
  std::vector<Tensor> held;
  std::vector<size_t> holding;                       // the buffers with a tensor
  const std::byte* arena = nullptr;                  // of the lane, where `at` has it
  std::shared_ptr<device::IndexFaultRecord> faults;  // of plans that check indices

  void hold(size_t buffer, Tensor t) {
    at[buffer] = t.raw_data();
    held[buffer] = std::move(t);
    holding.push_back(buffer);
  }
  void let_go() {
    for (size_t i : holding) held[i] = {};
    holding.clear();
  }
};

// What launches work in: the addresses of the plan's buffers, and the lane.
struct Memory {
  const Lane& lane;
  std::span<void* const> at;
};

// Where a launch's arguments are: its buffers, then scratch memory (on the CPU always) and counters.
std::vector<void*> pointers_of(const Plan& plan, const Launch& l, const BoundStep& s, const Memory& memory);

}  // namespace toroid::exec
