// Attention of few queries (decoding, and small problems) as a CUDA kernel: warps share the keys of a head among them and stream keys and
// values from memory to registers, nothing is staged (split keys: Dao et al., Flash-Decoding, 2023).
#pragma once

#include "codegen/cuda/templates/attention_common.h"

namespace toroid::codegen {

// Why generate_cuda_attention_decode() does not take an Attention node; empty when it does.
std::string cuda_attention_decode_refusal(const choice::Node& node);
// Whether it is the faster form: the keys are read once per 8 or 16 queries.
bool prefers_attention_decode(const choice::Node& node, const CudaAttentionTarget& target);
KernelText generate_cuda_attention_decode(const choice::Node& node, const CudaAttentionTarget& target);

}  // namespace toroid::codegen
