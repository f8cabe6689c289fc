// From products of a program to the problems that cuBLASLt solves.
#pragma once

#include "exec/plan.h"
#include "extern/cublaslt/cublaslt.h"
#include "program/program.h"

namespace toroid::backend {

// Why cuBLASLt does not compute the bare product; empty when it does, whatever the epilogue: see split_for_cublaslt. EnvironmentError when
// the library is missing.
std::string cublaslt_refusal(const program::Node& node);

// Leaves in the body of node i, which is taken, the store of the sums; a loop behind it does the rest.
void split_for_cublaslt(program::Program& p, size_t i);

// The call of a node that split_for_cublaslt has seen: by the implementation that the library expects to be fastest or, where Node::config
// is "cublaslt(algo=i)", by the one that it expects to be so but for i others. UserError for another configuration; where the library has
// fewer, loading says so.
exec::LibraryCall cublaslt_call(const program::Node& node);
// Those configurations, at most `most`, the first as good as none.
std::vector<program::Config> cublaslt_configs(const program::Node& node, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::backend
