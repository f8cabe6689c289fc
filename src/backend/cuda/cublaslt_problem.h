// From products of a program to the problems that cuBLASLt solves.
#pragma once

#include "exec/plan.h"
#include "extern/cublaslt/cublaslt.h"
#include "program/program.h"

namespace toroid::backend {

// Why cuBLASLt does not compute the bare product; empty when it does, whatever the epilogue: see sched::leave_sums. EnvironmentError when
// the library is missing.
std::string cublaslt_refusal(const program::Node& node);

// A product as a problem without its result; why there is none, or empty.
std::string read_cublaslt(const program::Gemm& g, external::CublasLtProblem& p);

// The call of a node that leave_sums has seen: by the implementation that the library expects to be fastest or, where Node::config
// is "cublaslt(algo=i)", by the one that it expects to be so but for i others. UserError for another configuration; where the library has
// fewer, loading says so.
exec::LibraryCall cublaslt_call(const program::Node& node);
// Those configurations, at most `most`, the first as good as none.
std::vector<program::Config> cublaslt_configs(const program::Node& node, device::cuda::Gpu& gpu, int most);

}  // namespace toroid::backend
