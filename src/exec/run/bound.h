// A plan with its sizes known.
#pragma once

#include <atomic>
#include <memory>

#include "exec/load.h"
#include "exec/run/sizes.h"

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
  std::vector<size_t> ends;  // of steps that run beside what follows (overlap.h): before which step they end; 0: of others
  std::vector<std::vector<int64_t>> output_sizes, input_strides;
  bool takes_donated = false;  // it is for calls that give up their donated inputs
  struct Donated {
    int buffer, input;  // a temporary or a result in the memory of an input
    int64_t offset;     // bytes
  };
  std::vector<Donated> donated;
  mutable std::atomic<int64_t> warmups{0};  // runs at these sizes that were made to warm up
};

// donated: for calls that give up the memory of all donated inputs. UserError when the sizes are outside of what the plan was compiled for.
std::shared_ptr<const Bound> bind(const Plan& plan, const Loaded& loaded, const Symbols& symbols, bool donated = false);

// What of a launch follows from the sizes, but for its place in memory.
BoundStep bind_launch(const Plan& plan, const Launch& l, const KernelCode& kernel, const Symbols& symbols);
// Bytes of scratch memory that the bound launch takes, and of counters, which begin where the plan's so far (`before` bytes) end.
int64_t scratch_of(const Launch& l, const BoundStep& s, const Symbols& symbols);
struct CounterRange {
  int64_t at = -1, end = 0;  // at: -1 for none
};
CounterRange counters_of(const Launch& l, const Symbols& symbols, int64_t before);

// Threads that a launch of a program with these options has at most, as things are now. What is bound keeps the number that its memory is
// for.
int threads_of(const CompileOptions& options);

// Bytes of what a kernel on a GPU takes a pointer to: some, where it takes one at all.
int64_t bytes_of(const Expr& e, int64_t unit, const Symbols& symbols);
// Bytes of a buffer of the plan.
int64_t bytes_of(const BufferPlan& buffer, const Symbols& symbols);

}  // namespace toroid::exec
