// The best choice for a range of sizes, of which only one is timed at length.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tune/measure/measure.h"

namespace toroid::tune {

// A choice's time to the default's, at some sizes.
struct RatioAt {
  std::string sizes;
  double ratio = 1;
};
// Of candidate `best` at other sizes of the range; none where there is no time for that. Infinite where it does not compute what the
// default does.
using RatiosAcross = std::function<std::vector<RatioAt>(size_t best)>;

// A candidate wins by the geometric mean of its ratios over the range, which becomes its ratio, where that is below least_ratio; else the
// next best of those that may, up to three, or the default, candidate 0. Others keep their ratios. Returns how a winner was judged.
std::string judge_across(Verdict& v, double least_ratio, const RatiosAcross& ratios);

}  // namespace toroid::tune
