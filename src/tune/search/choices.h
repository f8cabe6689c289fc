// The ways to compute a region that are worth a trial.
#pragma once

#include <memory>
#include <vector>

#include "tune/search/search.h"

namespace toroid::tune {

// All choices of a region: the default first, then one a way, then fused ones, then some of two choice nodes at once. Compiles nothing.
std::vector<std::shared_ptr<ChoiceCaller>> choices_of(const Region& region, std::shared_ptr<const Pipeline> pipeline,
                                                      const SearchOptions& options, RegionReport& report);

// Whether the options want it tried: by who computes its nodes, and by its name.
bool is_wanted(const SearchOptions& options, const std::string& name, const Choice& choice);

}  // namespace toroid::tune
