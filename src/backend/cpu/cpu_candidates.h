// Who could compute the products and convolutions of a program on the CPU, and who does.
#pragma once

#include "backend/candidates.h"
#include "device/cpu/isa.h"

namespace toroid::backend {

// See listed().
std::vector<program::Candidate> candidates(const program::Gemm& g, bool constant_b, const CompileOptions& options);
std::vector<program::Candidate> candidates(const program::Convolution& c, bool constant_weight, device::Isa isa,
                                           const CompileOptions& options);
// Of the node's problem; none for nodes that are no product and no convolution.
std::vector<program::Candidate> candidates(const program::Node& node, const program::Program& p, device::Isa isa,
                                           const CompileOptions& options);

// Why oneDNN does not compute the node, a product or convolution without what is fused in front of it; empty when it does. A library that
// is missing is a reason too.
std::string library_refusal(const program::Node& node, const program::Program& p);

// Decides every product and convolution: sets `by`, and puts what a library cannot do of an epilogue into a loop of its own. The report
// gets a line for each decision that had an alternative. Whether anything is a library's.
bool choose(program::Program& p, device::Isa isa, target::PassContext& context);

}  // namespace toroid::backend
