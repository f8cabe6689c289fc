// oneDNN: matrix products and 2-d convolutions of fixed sizes, with a chain of operations on each element of the result.
//
// The library (the option onednn_library) is opened at the first use; each function throws an EnvironmentError that says what to install
// where it is missing. oneDNN runs on OpenMP threads: as many as Toroid's thread pool has. What is not finite may come out otherwise than
// by the other backends: ReLU gives 0 for NaN, and infinities meet the zeros that channels are filled up with.
#pragma once

#include <memory>
#include <string>

#include "extern/library_call.h"
#include "extern/onednn/problem.h"

namespace toroid::external {

// "2.6.3"
std::string onednn_version();

// Why oneDNN does not take a problem: it has no implementation of it, or only its reference implementation. Empty when it does.
std::string onednn_refusal(const OneDnnProblem& problem);

// The call of a problem that is not refused. Its buffers: a, b (unless constant), out, then the operand of each Add and Mul of the chain.
// constant_b: the first element of b's buffer, which is packed here and not read later; null where b is no constant.
std::shared_ptr<const LibraryCall> prepare_onednn(const OneDnnProblem& problem, const void* constant_b);

}  // namespace toroid::external
