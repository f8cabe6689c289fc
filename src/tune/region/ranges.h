// Calls whose implementation a size decides when the program runs (program::Open with split points): each range of that size is a problem
// of its own.
#pragma once

#include <optional>
#include <vector>

#include "tune/region/choice.h"
#include "tune/region/regions.h"

namespace toroid::tune {

struct RangedCall {
  size_t node = 0;  // position in the lowered program
  // One a range: the call alone, with guards that keep its size within the range, and at the size to time. None where the size never lies
  // in the range.
  std::vector<std::optional<Region>> regions;
};
std::vector<RangedCall> find_ranged_calls(const program::Program& lowered);

// The choice for such a call: alternative *winners[i] for range i; that of a neighbour where there is none. Neighbours of equal content are
// one.
Choice choice_by_size(const program::Open& open, const std::vector<std::optional<size_t>>& winners);

// Number of the alternative that a choice names for the only node of its region; the first where it names none.
size_t alternative_of(const program::Open& open, const Choice& d);

}  // namespace toroid::tune
