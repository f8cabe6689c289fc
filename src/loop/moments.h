// A mean and the squares of the distances to it, which one walk over a reduction can fold.
#pragma once

#include <map>
#include <vector>

#include "loop/node.h"

namespace toroid::loop {

// The sum of x, and the sum of (x - m)^2 where m is that sum divided by the number of points. Numbers of steps: two Reduces, and their x.
struct Moments {
  int sum, squares, x;
};

// All of f32. Both sums have points of a number that is known.
std::vector<Moments> find_moments(const Domain& d, const Body& b);

// The same as pass_of(), where each Reduce that is a key of `with` is folded in the pass of the Reduce that is its value.
std::vector<int> pass_of(const Body& b, const std::map<int, int>& with);

}  // namespace toroid::loop
