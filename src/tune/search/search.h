// Tunes a program: finds its regions, makes the ways to compute each, compiles them side by side, times those that are the same function,
// and decides.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tune/check/equivalence.h"
#include "tune/isolate/worker.h"
#include "tune/measure/measure.h"
#include "tune/memory/memory.h"
#include "tune/region/caller.h"
#include "tune/region/regions.h"
#include "tune/report/tune_report.h"
#include "tune/search/whole.h"

namespace toroid::tune {

// How far tuning a program has come.
struct TuneProgress {
  size_t decided = 0, regions = 0;
  size_t compiled = 0, choices = 0;
  double spent_ms = 0, budget_ms = 0;  // budget 0: none
};

struct SearchOptions {
  double budget_ms = 0;     // of everything that tuning a program does; 0: none
  double region_ms = 1000;  // of timing one region
  double whole_ms = 1500;   // of timing the whole program with and without the choices; 0: that is not done
  int fusion_depth = 3;     // nodes that join a choice node, at most
  FusionKinds fusion = {};
  double fusion_speedup = 1.0;  // how many times as fast as the best unfused choice a fused one must be
  size_t most_choices = 48;     // of one region
  int workers = 0;              // threads that compile; 0: option compile_threads
  double compile_ms = 0;        // that compiling a choice may take, but for the default; 0: no limit
  bool descent = false;         // from the winner on, step by step (refine())
  bool check_lock = false;      // compile what a lock file chose, for TuneReport::now
  // Choices of a program for each thread that compiles, up to which all are tried; where there are more, those that the first ones leave
  // some hope for (Frontier), as waiting for what the first ones show takes time, too.
  size_t all_tried = 16;
  bool precompile = true;  // all choices before the first is timed; otherwise each when its turn comes
  bool pipelined = false;  // with precompile: only a region's own choices before it is timed. For clocks that compiling does not disturb
  Equivalence equivalence = Equivalence::Fast;  // to the default
  // Beside the default: of ways to compute a node those by these alone (as option tune_backends), and choices in whose name the regular
  // expression finds something.
  std::vector<std::string> backends = {"template", "subgraph", "onednn", "cublaslt", "cudnn"};
  std::string names = "";
  bool isolated = false;      // kernels run in a process of their own first; see tune/isolate/vet.h
  WorkerOptions worker = {};  // that process
  // Told of each step, on the thread that makes it; never two at once.
  std::function<void(const TuneProgress&)> progress = {};
  // Makes the clock of some callers that compute a region; for tests. Empty: their executables on generated inputs.
  std::function<Sample(std::span<const std::shared_ptr<ChoiceCaller>>)> clock = {};
  // Compares the whole program without choices and with them; for tests. Empty: compare_whole().
  std::function<WholeTime(const program::Program& untuned, const program::Program& tuned)> whole_clock = {};
};

// The lowered program with every choice made; scheduling and code are the caller's. `memory` may be null.
program::Program tune(program::Program lowered, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory,
                      TuneReport& report);

}  // namespace toroid::tune
