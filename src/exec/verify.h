// What holds for every plan, as a list of rules:
//   buffers-in-range    numbers of buffers are those of the plan
//   buffer-sizes        numbers of elements are not negative
//   roles               a buffer has a constant's name where it is constant alone; inputs are where buffers of that role are
//   inputs-bound        each input comes from the caller, from a constant, or is drawn; the caller's are numbered without gaps
//   symbols-declared    expressions speak of sizes that the plan declares, each once
//   symbols-bound       steps use sizes that the run determines behind the call that determines them
//   views-inside        views have a stride for each size, and lie within their buffers where that is known
//   launch-arguments    a launch names a kernel, says of each buffer whether it writes it, and has the shape that its device takes
//   writes              no step writes a constant, or an input that is not mutated
//   read-before-write   no step reads memory that nobody wrote
//   outputs-defined     what a run returns is written by a step, given, or constant
//   mutations           an output that mutates names an input that says so, and which is not drawn
//   host-calls          a call has an operation, an argument for each parameter, and its tensors
//   library-calls       the library is one of the device, and gets as many buffers as its problem has; a constant operand is named
//   blocks              control flow has the blocks that it chooses from, each with the operands and results of the step, on its device
//   faults              checks of indices have their sites, and one buffer at most
#pragma once

#include <string>
#include <vector>

#include "exec/plan.h"

namespace toroid::exec {

struct PlanFault {
  std::string rule, what;  // a name of above; for people
};
// Everything that is wrong with the plan, blocks included; empty: it can be loaded.
std::vector<PlanFault> faults_of(const Plan& plan);
// UserError that names the rule of the first.
void verify(const Plan& plan);

}  // namespace toroid::exec
