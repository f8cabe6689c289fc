// Faults on demand, for tests of what the other ranks are told.
#pragma once

#include <string_view>

#include "dist/collective.h"

namespace toroid::distributed::messages {

// Does what the environment variable TOROID_FAULT says, where it speaks of this rank of the world and of its collective of this number
// (from 0, over all groups). TOROID_FAULT=WHAT:RANK:NUMBER, or sleep:RANK:NUMBER:MS, where WHAT is
//   die       the process kills itself (SIGKILL) before the others hear of the collective
//   break     the same, when all have agreed and the data is to move
//   exit      the process ends with exit code 3, before the others hear of it
//   throw     an EnvironmentError is thrown
//   sleep     the rank comes MS milliseconds late
//   mismatch  the others are told of one element more
// Ranks that meet at an address or by a file have two moments before that, which stand in place of NUMBER: hello (nobody knows this rank
// yet) and connect (all have come, and are to be connected). There is one more fault, version:RANK:hello: the rank claims another version.
// UserError where the variable has another form.
void apply_fault(int rank, int64_t number, bool is_moving, Collective& told);
void apply_fault_at_start(int rank, std::string_view moment);
bool is_fault_at_start(std::string_view what, int rank, std::string_view moment);

}  // namespace toroid::distributed::messages
