// From nodes of a program to the problems that oneDNN solves.
#pragma once

#include "extern/onednn/onednn.h"
#include "program/program.h"

namespace toroid::backend {

// Why oneDNN does not compute the bare problem, its sum stored as f32 without gaps; empty when it does. Whatever the epilogue, it then
// takes the node: see fit_epilogue. EnvironmentError when the library is missing.
std::string onednn_refusal(const program::Gemm& g, bool constant_b);
std::string onednn_refusal(const program::Convolution& c, bool constant_weight);

// Leaves in the body of node i, which is taken, as much of its epilogue as oneDNN computes itself; a loop behind it does the rest.
void fit_epilogue(program::Program& p, size_t i);

struct OneDnnNode {
  external::OneDnnProblem problem;
  std::vector<int> buffers;  // in the order of the prepared call
  std::string name;          // "onednn_gemm_add_relu"
};
// A node that fit_epilogue has seen.
OneDnnNode describe_onednn(const program::Node& node, const program::Program& p);

}  // namespace toroid::backend
