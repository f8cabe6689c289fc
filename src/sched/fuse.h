// Fusion: joins nodes of a lowered program so that values pass between them in registers instead of memory.
#pragma once

#include "choice/program.h"

namespace toroid::sched {

struct FusionReport {
  size_t nodes_before = 0, nodes_after = 0;
  struct Miss {
    std::string first, second, reason;
  };
  std::vector<Miss> misses;  // one a pair that shares memory and was not joined
  struct Unsplit {
    std::string node, reason;
  };
  std::vector<Unsplit> unsplit;  // long reductions with few results that stayed one loop
};

// Greedy: of all pairs that may be joined, the one that saves most memory traffic first (in elements times size, ties by program
// order). Legality: no path between the two through a third node, domains that match, and every element that one reads of the other's
// result is the one that the other computes at the same point.
choice::Program fuse(choice::Program program, FusionReport* report = nullptr);

}  // namespace toroid::sched
