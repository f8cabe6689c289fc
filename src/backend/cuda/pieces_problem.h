// From products in pieces (program::in_pieces) to the calls that compute them.
#pragma once

#include <string>
#include <vector>

#include "base/compile_options.h"
#include "exec/plan.h"
#include "program/program.h"

namespace toroid::backend {

// Why the node should not be computed so, whatever its body; empty when it should: the same on all ranks, which ask alike.
std::string pieces_refusal(const program::Node& node, const Device& device, const CompileOptions& options);

// A call a stage, of a node that sched::leave_sums has seen; all ranks meet before those that exec::meets_before names.
std::vector<exec::LibraryCall> pieces_calls(const program::Node& node);

}  // namespace toroid::backend
