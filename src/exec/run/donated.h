// Memory that a call gives up (Storage::donated) as memory of temporaries and results.
#pragma once

#include <span>
#include <vector>

#include "exec/run/arena.h"

namespace toroid::exec {

// A place in memory that is given up. region: its number; -1: none.
struct DonatedPlace {
  int region = -1;
  int64_t offset = 0;  // bytes
};

// What wants memory: live ranges, and whether each must have a region to itself from its first byte and be as large, as results must,
// which outlive the run with all of the memory that they lie in.
struct Wish {
  LiveRange range;
  bool whole = false;
};

// regions: in steps, when each is read (-1, -1: never); it may be written over behind its last step. A place for each wish that finds one;
// no two that are alive at once overlap. The largest are placed first, each in the smallest region that takes it.
std::vector<DonatedPlace> place_in(const std::vector<LiveRange>& regions, const std::vector<Wish>& wishes);

}  // namespace toroid::exec
