// What tuning a program found, as data and as text.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "tune/measure/measure.h"
#include "tune/memory/lock_file.h"
#include "tune/region/caller.h"

namespace toroid::tune {

// One choice of a region and what became of it.
struct ChoiceRow {
  std::string name;
  CallerKind kind = CallerKind::Default;
  std::string text;  // of its choice
  Measured measured;
  double compile_ms = 0;  // 0: it was not compiled
};

// Where there was no time for a region: the default stands, and nothing was decided.
inline constexpr const char* kNotReached = "not tuned: the budget was used";

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
// Parts that were not tuned since a size was never seen (region/sizes.h).
struct UnseenSizes {
  size_t parts = 0;
  bool nothing_tuned = false;  // nor was any other part
  std::string why = {};        // of the first of them: "nothing says what the size batch usually is"
};
UnseenSizes unseen_sizes(const TuneReport& r);
// Takes what was found for a block of the program: a part that is compiled by itself.
void add(TuneReport& to, TuneReport block);
// A table for each region whose label has `part` in it, fastest first, with at most so many rows (0: all), and a line for the whole. Rows
// have their places in RegionReport::rows as numbers, from 1 on, by which remarks call them.
std::string to_string(const TuneReport& r, const std::string& part = "", size_t most = 0);

}  // namespace toroid::tune
