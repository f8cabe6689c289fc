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
  std::function<WholeTime(const choice::Program& untuned, const choice::Program& tuned)> whole_clock = {};
};

// One choice of a region and what became of it.
struct ChoiceRow {
  std::string name;
  CallerKind kind = CallerKind::Default;
  std::string text;  // of its choice
  Measured measured;
  double compile_ms = 0;  // 0: it was not compiled
};

struct RegionReport {
  std::string label;
  Hash128 key;
  size_t places = 0;   // of the program that this region stands for: equal parts are tuned once
  std::string source;  // "timed", or where the choice is from, or why the default stands
  std::vector<ChoiceRow> rows;
  size_t winner = 0;                // in rows
  size_t originals = 0, fused = 0;  // choices: one a way, and those fused with neighbours
  size_t untried = 0;               // beyond most_choices, where nobody asks whether they are legal, or equal others
  size_t unwanted = 0;              // that SearchOptions leaves out, some of which may equal others
  size_t passed_over = 0;           // as those before them in their template's order were far behind
  double noise = 0, flip = 0, regret = 0, spent_ms = 0;
  std::string kernels;  // hash of the winner's kernel texts; empty where it is not known
  double ratio = 1;     // of the winner's time to the default's
  std::string chosen;   // text of the winner's choice
  std::string drift;    // what a lock file says that is not so any more
};

struct TuneReport {
  std::vector<RegionReport> regions;
  size_t compiled = 0;  // choices
  double precompile_ms = 0, time_ms = 0, total_ms = 0;
  bool out_of_budget = false;
  std::string whole;               // how the whole program does with the choices, and what was put back for that
  std::vector<LockFile::Now> now;  // of option check_lock: for LockFile::drift
  LockFile decided;                // all choices, wherever they are from
  std::string problem;             // of the memory
};
// Takes what was found for a block of the program: a part that is compiled by itself.
void add(TuneReport& to, TuneReport block);
// A table for each region whose label has `part` in it, fastest first, with at most so many rows (0: all), and a line for the whole. Rows
// have their places in RegionReport::rows as numbers, from 1 on, by which remarks call them.
std::string to_string(const TuneReport& r, const std::string& part = "", size_t most = 0);

// The lowered program with every choice made; scheduling and code are the caller's. `memory` may be null.
choice::Program tune(choice::Program lowered, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, Memory* memory,
                     TuneReport& report);

}  // namespace toroid::tune
