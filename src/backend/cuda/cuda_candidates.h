// Who could compute the products and convolutions of a program on a GPU, and who does.
#pragma once

#include "backend/candidates.h"
#include "device/cuda/gpu.h"

namespace toroid::backend {

// See listed(). The node is a product.
std::vector<program::Candidate> gpu_product_candidates(const program::Node& node, const CompileOptions& options);
std::vector<program::Candidate> gpu_candidates(const program::Convolution& c, bool constant_weight, const CompileOptions& options,
                                               const device::cuda::GpuInfo& gpu);

// Why no library computes the node, a product or convolution; empty when one does. A library that is missing is a reason too.
std::string gpu_library_refusal(const program::Node& node, const program::Program& p);

// Decides every product and convolution: sets `by`, and puts what a library cannot do of an epilogue into a loop of its own. Which of the
// templates takes what is decided by codegen. The report gets a line for each decision that had an alternative. Whether anything is a
// library's.
bool choose_on_gpu(program::Program& p, target::PassContext& context, const device::cuda::GpuInfo& gpu);

}  // namespace toroid::backend
