// From convolutions of a program to the problems that cuDNN solves.
#pragma once

#include "exec/plan.h"
#include "extern/cudnn/cudnn.h"
#include "program/program.h"

namespace toroid::backend {

// Why cuDNN does not compute the bare convolution; empty when it does, whatever the epilogue: see fit_for_cudnn. EnvironmentError when
// nothing but the library is missing.
std::string cudnn_refusal(const program::Convolution& c, bool constant_weight);

// Leaves in the body of node i, which is taken, as much of its epilogue as cuDNN computes itself; a loop behind it does the rest, from a
// sum that is rounded to the operands' type, as cuDNN stores no other. Constant weights get the library's layout.
void fit_for_cudnn(program::Program& p, size_t i);

struct CudnnNode {
  external::CudnnProblem problem;
  std::vector<int> buffers;  // in the order of the prepared call
  std::string name;          // "cudnn_convolution_bias_add_relu"
};
// A node that fit_for_cudnn has seen.
CudnnNode describe_cudnn(const program::Node& node);

// Its call: by the algorithm that the library expects to be fastest or, where Node::config is "cudnn(algo=i)", by the one that it expects
// to be so but for i others. UserError for another configuration; where the library has fewer, loading says so.
exec::LibraryCall cudnn_call(const program::Node& node);

}  // namespace toroid::backend
