// CUDA kernels for the nodes of a program.
#pragma once

#include "codegen/constant_memory.h"
#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// Any node but extern ones, and those that a library computes; as Node::config says or, where that is empty, by rule. May add buffers
// (packed weights) to the program's. UserError for a configuration that does not fit the node: it comes from a file.
KernelText generate_cuda(const program::Node& node, program::Program& p, const device::cuda::GpuInfo& gpu, ConstantMemory& constants);

// Configurations of a node that are worth a trial, that of the rule first; none where nothing is left open.
std::vector<program::Config> cuda_configs(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu);
// Those that are one step from `c` in one number.
std::vector<program::Config> cuda_neighbours(const program::Config& c, const program::Node& node, const program::Program& p,
                                             const device::cuda::GpuInfo& gpu);

// Which template computes a product or convolution, and why those before it do not: a line for people; empty for other nodes.
std::string cuda_choice(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu);

// Whether a template computes the problem.
bool cuda_supports(const program::Convolution& c, bool constant_weight, const device::cuda::GpuInfo& gpu);
bool cuda_supports(const program::Attention& a);
// Why no template computes a problem that does all its work at once; empty where one does.
std::string cuda_whole_refusal(const program::Problem& problem, const device::cuda::GpuInfo& gpu);
// Why a product should not compute the rows of its left operand itself; empty when it should.
std::string cuda_producer_refusal(const program::Node& product, const device::cuda::GpuInfo& gpu);
// Why a product should not have two right operands (program::Gemm::b2); empty when it should.
std::string cuda_pair_refusal(const program::Node& product, const device::cuda::GpuInfo& gpu);
// Why a node's template, of its configuration or by rule, should not leave the sums of columns that its body stores (loop::StoreMode::Sum);
// empty when it should.
std::string cuda_sums_refusal(const program::Node& node, const program::Program& p, const device::cuda::GpuInfo& gpu);
// Why a product should not bring its sums to the other ranks itself (program::Meeting::product); empty when it should.
std::string cuda_bringing_refusal(const program::Node& meeting, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::codegen
