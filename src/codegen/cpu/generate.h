// CPU kernels for the nodes of a lowered program: loops, and templates with the node's body as their epilogue.
#pragma once

#include "codegen/constant_memory.h"
#include "codegen/cpu/kernel.h"
#include "program/program.h"

namespace toroid::codegen {

// Whether a template takes this problem; where none does, the node is to be lowered to a loop.
// Products of floats all are, but for those of a matrix and a vector unless weights are packed or streamed: each element of the matrix is
// read once, and a template would copy panels of it for many rows. (What is said of a row holds once the operands have strides.)
bool supports(const program::Gemm& g, bool constant_b);
bool supports(const program::Convolution& c, bool constant_weight, device::Isa isa);
bool supports(const program::Attention& a, device::Isa isa);
// Whether a product is of a few rows and of weights whose rows are contiguous along K: streamed as they are, half ones kept half.
bool streams_weights(const program::Gemm& g);
// Why no template computes a problem that does all its work at once; empty where one does.
std::string whole_refusal(const program::Problem& problem, device::Isa isa);

// The kernel of a node that is not an extern call, as Node::config says or, where that is empty, by rule. May add buffers (packed weights)
// to the program's. UserError for a configuration that does not fit the node: it comes from a file.
KernelText generate(const program::Node& node, program::Program& program, device::Isa isa, ConstantMemory& constants);

// Configurations of a node that are worth a trial, that of the rule first; none where nothing is left open.
std::vector<program::Config> configs(const program::Node& node, const program::Program& program, device::Isa isa);
// Those that are one step from `c` in one number.
std::vector<program::Config> neighbours(const program::Config& c, const program::Node& node, const program::Program& program,
                                        device::Isa isa);

}  // namespace toroid::codegen
