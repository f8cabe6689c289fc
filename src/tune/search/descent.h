// Searches around a configuration for a faster one, a step at a time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "program/config.h"
#include "tune/measure/measure.h"

namespace toroid::tune {

using Neighbours = std::function<std::vector<program::Config>(const program::Config&)>;
// A verdict on configurations, the first of which is the default: compiles, checks and measures them within options.budget_ms.
using MeasureConfigs = std::function<Verdict(std::span<const program::Config> configs, const MeasureOptions& options)>;

// The values that each field of a form may have, ascending; fields that are not named stay as they are.
using ConfigSpace = std::vector<std::pair<std::string, std::vector<int64_t>>>;
// The next value up and down of each field; a value that is not in the list has the nearest ones as neighbours.
std::vector<program::Config> one_step(const program::Config& c, const ConfigSpace& space);
// Two fields at once, one step each.
std::vector<program::Config> two_steps(const program::Config& c, const ConfigSpace& space);

struct DescentOptions {
  MeasureOptions measure;  // of each step; its budget is that of the whole search
  size_t most_steps = 20;
  Neighbours further;  // if given: asked where no neighbour is faster, before the search ends
};

struct Descent {
  program::Config best;
  double ratio = 1;  // of the time of the best to that of the start
  struct Tried {
    program::Config config;
    double ratio = 0;    // to the best one of its step; 0: not known
    std::string status;  // as in Measured
    size_t step = 0;
  };
  std::vector<Tried> tried;
  size_t steps = 0;  // that found something faster
  bool out_of_budget = false;
};

// Goes to the fastest neighbour that is surely faster, until none is (coordinate descent; no configuration is tried twice). What it finds
// is measured once more against the start alone, and the start is kept unless that confirms it: the result is never worse than the start.
Descent descend(const program::Config& start, const Neighbours& neighbours, const MeasureConfigs& measure,
                const DescentOptions& options = {}, const Clock& clock = steady_clock());

}  // namespace toroid::tune
