// Messages that MPI carries.
#pragma once

#include <memory>

#include "dist/messages/transport.h"

namespace toroid::distributed::mpi {

// Joins this process to those that mpirun started with it; all of them call it, within `timeout` seconds (0: any time). EnvironmentError
// where MPI is not installed (what to install) or does not start, and for ranks that do not come: their numbers, where `toroid launch`
// has started them. A process calls it once: MPI does not start a second time.
std::unique_ptr<messages::Transport> start(double timeout);

// The library, its version and where libtoroid_mpi.so was found, a line. EnvironmentError as of `start` where there is none.
std::string describe_library();

}  // namespace toroid::distributed::mpi
