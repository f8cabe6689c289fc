// Collectives of all kinds, dtypes and operations, with inputs that each rank knows of all others.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"

namespace toroid::test {

struct Case {
  std::string group;
  distributed::Collective c;  // without memory; counts and splits are a rank's own
  uint64_t seed = 0;
};

// What the rank of the groups of current_world() does in its order. Sizes: 0, 1, 7, 1000 and 100003 elements.
std::vector<Case> cases_of_this_rank();
// Makes the groups that the cases speak of, "some" and "other".
void make_groups();
std::string to_string(const Case& c);

// The bits of the result on this rank; empty where it is no member of the group.
std::string result_of(const Case& c);

}  // namespace toroid::test
