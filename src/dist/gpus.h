// What ranks tell each other before something joins their GPUs.
#pragma once

#include <string>
#include <vector>

#include "dist/group.h"
#include "toroid/device.h"

namespace toroid::distributed {

// A GPU by its host and its place there: "HOST BUS", equal for the same GPU alone. EnvironmentError where there is none.
std::string gpu_place(const Device& device);
// "ranks 0 and 2 have the same GPU", "rank 1 is on another host than rank 0"; empty where that is not so. places: of all ranks.
std::string same_gpu(const std::vector<std::string>& places);
std::string other_host(const std::vector<std::string>& places);

// Why some rank cannot take part: "rank 1: ...", of the first that gives a reason, the same text on all ranks; empty where none does.
std::string first_refusal(Group& group, const std::string& own, const std::string& where);

}  // namespace toroid::distributed
