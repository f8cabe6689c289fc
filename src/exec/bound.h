// A plan with its sizes known, and the memory of a run.
#pragma once

#include <atomic>
#include <thread>

#include "device/memory.h"
#include "exec/load.h"
#include "exec/shared_results.h"
#include "exec/sizes.h"

namespace toroid::exec {

// What only depends on the sizes: of a step, and of all.
struct BoundStep {
  std::vector<int64_t> params;
  int64_t tasks = 0;
  int64_t scratch = -1;                // offset in the arena
  int64_t scratch_bytes = 0;           // a thread
  int64_t counters = -1;               // GPU: offset in the lane's zeros
  const KernelCode* kernel = nullptr;  // of a launch; the executable has it
  bool alone = false;                  // too little work to share between threads
  int threads = 1;                     // CPU: at most so many, which have scratch memory
};

struct Bound : std::enable_shared_from_this<Bound> {
  Symbols symbols;
  std::vector<int64_t> bytes;    // per buffer
  std::vector<int64_t> offsets;  // per buffer, in the arena; -1: not there
  int64_t arena = 0, zeros = 0;  // bytes
  std::vector<BoundStep> steps;
  std::vector<std::vector<int64_t>> output_sizes, input_strides;
  mutable std::atomic<int64_t> warmups{0};  // runs at these sizes that were made to warm up
};

// UserError when the sizes are outside of what the plan was compiled for.
std::shared_ptr<const Bound> bind(const Plan& plan, const Loaded& loaded, const Symbols& symbols);

// Memory that one run at a time uses, kept for the next: temporaries, counters that are zero between launches, and results that later
// calls may overwrite.
struct Lane {
  std::shared_ptr<Storage> arena, zeros;
  SharedResults results;
  std::thread::id owner;               // whose results they are
  device::StreamKey stream = nullptr;  // the only one whose work uses it: its order keeps runs apart
};

// The stream that the calling thread's work on a device goes to.
device::StreamKey stream_key(const Device& device);

// What of a launch follows from the sizes, but for its place in the arena; alone where its kernel asks for that.
BoundStep bind_launch(const Plan& plan, const Launch& l, const Symbols& symbols);

// Threads that a launch of a program with these options has at most, as things are now. What is bound keeps the number that its memory is
// for.
int threads_of(const CompileOptions& options);

// Bytes of what a kernel on a GPU takes a pointer to: some, where it takes one at all.
int64_t bytes_of(const Expr& e, int64_t unit, const Symbols& symbols);

// Where a launch's arguments are: its buffers (`at` has the address of each of the plan), then scratch memory (on the CPU always) and
// counters.
std::vector<void*> pointers_of(const Plan& plan, const Launch& l, const BoundStep& s, const Lane& lane, std::span<void* const> at);

}  // namespace toroid::exec
