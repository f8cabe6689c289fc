// Attention of many queries as CUDA kernels on tensor cores: blocks of queries stay in registers while keys and values pass by.
#pragma once

#include "codegen/cuda/templates/attention_common.h"

namespace toroid::codegen {

// Why generate_cuda_attention_prefill() does not take an Attention node; empty when it does.
std::string cuda_attention_prefill_refusal(const choice::Node& node);
KernelText generate_cuda_attention_prefill(const choice::Node& node, const CudaAttentionTarget& target);

}  // namespace toroid::codegen
