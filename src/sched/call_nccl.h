// Collectives between GPUs by NCCL, in place of a kernel of their own.
#pragma once

#include <string>

#include "program/program.h"

namespace toroid::sched {

inline constexpr const char* kNccl = "nccl";  // the way, see tune::Choice

// Why node `meeting` cannot be a call of NCCL; empty when it can. Whether its group has NCCL is another question.
std::string call_nccl_refusal(const program::Node& meeting);
// Whether NCCL gives the bits of the kernels: what is moved, and sums of two ranks, which have one order.
bool nccl_has_the_same_bits(const program::Meeting& m);
// Makes it one. What else the node did with its result is a loop behind it.
void call_nccl(program::Program& p, size_t meeting);

}  // namespace toroid::sched
