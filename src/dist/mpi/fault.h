// Faults on demand, for tests of what the other ranks are told.
#pragma once

#include "dist/collective.h"

namespace toroid::distributed::mpi {

// Does what the environment variable TOROID_FAULT says, where it speaks of this rank of the world and of its collective of this number
// (from 0, over all groups). TOROID_FAULT=WHAT:RANK:NUMBER, or sleep:RANK:NUMBER:MS, where WHAT is
//   die       the process kills itself (SIGKILL) before the others hear of the collective
//   break     the same, when all have agreed and the data is to move
//   exit      the process ends with exit code 3, before the others hear of it
//   throw     an EnvironmentError is thrown
//   sleep     the rank comes MS milliseconds late
//   mismatch  the others are told of one element more
// UserError where the variable has another form.
void apply_fault(int rank, int64_t number, bool is_moving, Collective& told);

}  // namespace toroid::distributed::mpi
