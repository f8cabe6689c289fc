// What one compile did, for people: the stages write it, and none reads it.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "base/pass_runner.h"
#include "compile/memory.h"
#include "target/program_pass.h"
#include "tune/search/search.h"

namespace toroid::compiler {

struct StageTime {
  const char* stage;
  double ms;
};

struct CompileReport {
  std::vector<StageTime> stages;  // in their order, and last the loading of the plan
  double total_ms = 0;
  PassReport passes;       // of the graph
  double compiler_ms = 0;  // of NVRTC or Clang, summed over the kernels, which are compiled side by side
  // Of weights, packed or brought to a GPU by threads that begin before the kernels are compiled there, and go on when the compile has
  // ended: milliseconds. The first run waits for it. Not valid where there were none.
  std::shared_future<double> packing;
  // Kernels that are compiled before the program of all layers is there; whoever asks for one of them waits for it.
  std::shared_future<void> early_kernels;
  size_t uploaded_bytes = 0;    // to a GPU, by those threads
  size_t graph_nodes = 0;       // after the passes
  size_t kernels_unfused = 0;   // nodes before fusion
  size_t kernels = 0;           // launches a run, those of blocks of control flow aside
  size_t host_calls = 0;        // library and reference calls a run, those of blocks aside
  size_t blocks = 0;            // blocks that branches and loops run, nested ones included
  size_t kernels_compiled = 0;  // distinct texts that were not in a cache
  std::string layers;           // of a graph with many equal ones: whether they were compiled once, or why not; else empty
  std::string partition;        // of a graph with gradients: what it saves and computes again (autograd/partition); else empty
  MemoryNeed memory;
  tune::TuneReport tuning;  // in modes that tune
  target::ScheduleReport schedule;
};

// Where the time went, in one line: "passes 1.2 ms, lowering ..."; waits for the weights.
std::string time_text(const CompileReport& report);
// All of it but what tuning found, as members of a JSON object, without its braces.
std::string json_members(const CompileReport& report);

}  // namespace toroid::compiler
