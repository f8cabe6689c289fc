// A template of GPUs: one function that says of a node whether and how the template computes it. generate.cpp lists them.
#pragma once

#include "codegen/constant_memory.h"
#include "codegen/forms.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// A node that is to be computed, and what there is around it. All of it outlives the forms that are made for it.
struct CudaSite {
  const program::Node& node;
  const program::Program& program;
  const device::cuda::GpuInfo& gpu;
  // What packed weights are added to; only code needs them.
  program::Program* writable = nullptr;
  ConstantMemory* constants = nullptr;

  // The node's problem, of the kind that the template is listed for.
  template <class Problem>
  const Problem& problem() const {
    return std::get<Problem>(node.problem);
  }
};

using CudaTemplate = Form (*)(const CudaSite& site);

// A guess where the run tells the size.
inline int64_t typical_size(const Expr& e) { return e.maybe_constant().value_or(512); }

// Those of products, the fastest first; the last takes every product.
Form cuda_gemv_form(const CudaSite& site);
Form cuda_gemm_wgmma_form(const CudaSite& site);
Form cuda_gemm_mma_form(const CudaSite& site);
Form cuda_gemm_simt_form(const CudaSite& site);
// Of convolutions.
Form cuda_conv_depthwise_form(const CudaSite& site);
Form cuda_conv_wgmma_form(const CudaSite& site);
Form cuda_conv_gemm_form(const CudaSite& site);
// Of attention.
Form cuda_attention_decode_form(const CudaSite& site);
Form cuda_attention_prefill_form(const CudaSite& site);
Form cuda_attention_mma_form(const CudaSite& site);

}  // namespace toroid::codegen
