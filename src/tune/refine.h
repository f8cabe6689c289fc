// Searches around what won a region for configurations that no template lists.
#pragma once

#include <memory>

#include "tune/search.h"
#include "tune/vet.h"

namespace toroid::tune {

// Steps from `start` in the configuration of one node after the other (descend(), tune/descent.h), each candidate compared with what
// `original` computes, within how.budget_ms, compiling included. What was tried becomes rows of the report. Null where nothing is surely
// faster than the start; ratio: of its time to the start's. vet: what runs candidates elsewhere first, or null.
std::shared_ptr<ChoiceCaller> refine(const Region& region, const std::shared_ptr<ChoiceCaller>& original,
                                     const std::shared_ptr<ChoiceCaller>& start, std::shared_ptr<const Pipeline> pipeline,
                                     const SearchOptions& options, MeasureOptions how, Vet* vet, RegionReport& report, double& ratio);

}  // namespace toroid::tune
