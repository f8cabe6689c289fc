// Small sums of columns in one launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace toroid::sched {

// A loop that folds columns of few bytes takes as long as its threads take to find each other: the gradients of biases and norms, with
// their updates. Loops over as many columns of as many rows that do not need each other become one, where the first of them was.
// most_bytes: of what one of them reads. A line for each that joins another one.
constexpr int64_t kMostColumnBytes = 16 << 20;
std::vector<std::string> join_columns(program::Program& p, int64_t most_bytes = kMostColumnBytes);

}  // namespace toroid::sched
