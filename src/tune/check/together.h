// Times what the ranks of a group compute together, so that all of them see the same times.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"
#include "tune/check/equivalence.h"
#include "tune/measure/measure.h"
#include "tune/region/caller.h"
#include "tune/region/regions.h"

namespace toroid::tune {

// The group whose ranks meet in a program: null where none do. refusal: why it cannot be tuned where several groups do, or this rank is no
// member.
distributed::Group* meeting_group(const program::Program& p, std::string& refusal);

// Every rank calls these alike, and with the same choices.
struct Together {
  // A sample of callers[i]: the ranks begin together, and the time is that of the slowest. The first sample of each compares what it
  // computes with what callers[0] does, at the region's sizes and at other ones; each rank has inputs of its own. UserError on all ranks,
  // with the rank, where a rank cannot load it, or gets something else. EnvironmentError where the group fails.
  Sample sample;
  // What samples have taken so far, on the slowest ranks; comparing, loading, and the first one of each candidate, are no part of it. Equal
  // on all ranks.
  Clock clock;
};
// Nanoseconds that `work` takes on the slowest rank, where all begin it at once. label: what it is, for errors.
double slowest_ns(distributed::Group& group, const Device& device, const std::string& label, const std::function<void()>& work);

Together time_together(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                       distributed::Group& group, Equivalence equivalence);

}  // namespace toroid::tune
