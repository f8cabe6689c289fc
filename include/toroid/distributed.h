// Process groups: ranks that run the same program, each on a part of the data, and exchange tensors by collectives (toroid/collectives.h).
//
//   distributed::run_local(4, [] {
//     Tensor mine = full({8}, distributed::rank());
//     Tensor sum = distributed::all_reduce(mine, "sum");
//   });
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace toroid::distributed {

// Runs body once for each of `ranks` ranks (1 to 1024), side by side, each in a thread of its own, and returns when all have ended. The
// first error that one ends with is thrown; others that wait for a rank that failed or has ended get an EnvironmentError that names it.
void run_local(int ranks, const std::function<void()>& body);

// Of the calling thread, in the group of all ranks, "world". UserError outside of a world.
int rank();
int size();

// Makes a group of some ranks; every rank of the world calls it alike, members or not. A member's rank in it is its place in `members`.
// UserError on all ranks for a name that is taken, members that are no ranks or come twice, and ranks that ask for different members.
void new_group(const std::string& name, const std::vector<int>& members);

}  // namespace toroid::distributed
