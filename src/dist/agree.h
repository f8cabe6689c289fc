// What the ranks of a group tell each other before they act.
#pragma once

#include <string>
#include <vector>

#include "dist/group.h"

namespace toroid::distributed {

// Every rank's bytes, in the order of the ranks.
std::vector<std::string> all_gather_object(Group& group, const std::string& own, const std::string& where = "");

// The greatest of the ranks' numbers.
double greatest(Group& group, double own, const std::string& where = "");

// Returns where all ranks have the same text. UserError on all of them otherwise: "the ranks disagree about <thing>: rank 2 has ..., rank 0
// ...". thing: "the choice for matmul_3".
void agree(Group& group, const std::string& thing, const std::string& own);

}  // namespace toroid::distributed
