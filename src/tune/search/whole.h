// Whether a program is better off with what was chosen for its regions: what is fastest alone may hold up what runs before and after it.
#pragma once

#include <string>

#include "dist/group.h"
#include "tune/measure/measure.h"
#include "tune/region/caller.h"

namespace toroid::tune {

struct WholeTime {
  double ratio = 0;     // of the tuned program's time to the other's; 0: not known
  double spread = 0;    // half of the interval that it lies in; 0: there were too few rounds for one
  std::string refusal;  // why it is not known
};

// Runs both lowered programs, with all choices made, in turns on generated inputs of the usual sizes (tune/region/sizes.h); what they write
// to is copied first. Constants are those of the programs. It takes wanted_ms, or so long as a few rounds need where runs are long, and at
// most most_ms but for the first two runs of each, which cannot be foreseen.
WholeTime compare_whole(const program::Program& untuned, const program::Program& tuned, const Pipeline& pipeline, double wanted_ms,
                        double most_ms, const Clock& clock = steady_clock());

// The same of programs in which the ranks of a group meet, all of which call it alike: a run takes as long as on the slowest rank, and all
// get the same answer. It takes 5 ms of runs where the program's inputs have up to 16 MB, or so long as 3 rounds need; building the
// programs, and three runs of each, are no part of that.
WholeTime compare_whole_together(const program::Program& untuned, const program::Program& tuned, const Pipeline& pipeline,
                                 distributed::Group& group);

}  // namespace toroid::tune
