// Searches around what won a region for configurations that no template lists.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tune/isolate/vet.h"
#include "tune/search/search.h"

namespace toroid::tune {

// What refine() begins with.
struct Refinement {
  const Region& region;
  std::shared_ptr<ChoiceCaller> original, start;
  std::shared_ptr<const Pipeline> pipeline;
  const SearchOptions& options;
  MeasureOptions how;
  Vet* vet;                       // what runs candidates elsewhere first, or null
  std::set<std::string> refused;  // choices that failed when they were timed, or are known to fail
};

// Steps from `start` in the configuration of one node after the other (descend(), tune/search/descent.h), each candidate compared with what
// `original` computes, within how.budget_ms, compiling included. What was tried becomes rows of the report. Null where nothing is surely
// faster than the start; ratio: of its time to the start's.
std::shared_ptr<ChoiceCaller> refine(Refinement from, RegionReport& report, double& ratio);

}  // namespace toroid::tune
