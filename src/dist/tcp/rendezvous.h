// How processes that were started apart from each other become ranks: each ends up with a connection to each other.
//
// Rank 0 listens. The others connect to it and say who they are; what is no rank of this job is passed over. When all have come, rank 0
// tells everyone where the others listen and a secret of this world, and they connect to each other.
#pragma once

#include <vector>

#include "dist/tcp/place.h"
#include "dist/tcp/socket.h"

namespace toroid::distributed::tcp {

// By rank; the own one is empty. timeout: seconds, 0: any time. UserError, on all that have come, for ranks that disagree about their
// number or of which two have the same; EnvironmentError, on all that have come, for ranks that run another version, and for those that
// do not come in time: their numbers.
std::vector<Socket> meet(const Place& place, double timeout);

}  // namespace toroid::distributed::tcp
