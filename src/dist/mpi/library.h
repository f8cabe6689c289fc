// libtoroid_mpi.so, opened when the first world of processes is asked for.
#pragma once

#include <string>

#include "dist/mpi/plugin.h"

namespace toroid::distributed::mpi {

// EnvironmentError that says what to install, where it is missing, cannot be loaded, or belongs to another version of Toroid.
const ToroidMpi& library();
const std::string& library_path();  // of the same

// A code of its functions in words.
std::string describe(const ToroidMpi& mpi, int32_t code);

}  // namespace toroid::distributed::mpi
