// CUDA kernels for the nodes of a program.
#pragma once

#include "choice/program.h"
#include "codegen/constant_memory.h"
#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"

namespace toroid::codegen {

// Any node but extern ones, and those that a library computes. May add buffers (packed weights) to the program's.
KernelText generate_cuda(const choice::Node& node, choice::Program& p, const device::cuda::GpuInfo& gpu, ConstantMemory& constants);

// Which template computes a product or convolution, and why those before it do not: a line for people; empty for other nodes.
std::string cuda_choice(const choice::Node& node, const choice::Program& p, const device::cuda::GpuInfo& gpu);

// Whether a template computes the problem.
bool cuda_supports(const choice::Convolution& c, bool constant_weight);
bool cuda_supports(const choice::Attention& a);
// Why a product should not compute the rows of its left operand itself; empty when it should.
std::string cuda_producer_refusal(const choice::Node& product, const device::cuda::GpuInfo& gpu);
// Why a product should not have two right operands (choice::Gemm::b2); empty when it should.
std::string cuda_pair_refusal(const choice::Node& product, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::codegen
