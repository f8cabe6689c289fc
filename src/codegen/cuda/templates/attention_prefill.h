// Attention of many queries as CUDA kernels on tensor cores: blocks of queries stay in registers while keys and values pass by.
#pragma once

#include "codegen/cuda/templates/attention_common.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// On Hopper's tensor cores. Why it does not take an Attention node; empty when it does.
std::string cuda_attention_wgmma_refusal(const program::Node& node, const CudaAttentionTarget& target);
struct CudaPrefillTile {
  int groups = 2;  // warpgroups that compute, of 64 queries each: 1 to 3
};
template <class Visit>
void fields(CudaPrefillTile& t, const Visit& visit) {
  visit("groups", t.groups, 1);
}
CudaPrefillTile choose_cuda_prefill_tile(const program::Node& node);  // by rule
std::string cuda_prefill_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaPrefillTile& t);
KernelText generate_cuda_attention_wgmma(const program::Node& node, const CudaAttentionTarget& target, const CudaPrefillTile& tile);

// By mma.sync, on any GPU. Takes what cuda_attention_refusal() does.
struct CudaAttentionMmaTile {
  int warps = 4;  // of a block, of 16 queries each
  int keys = 64;  // of a stage
};
template <class Visit>
void fields(CudaAttentionMmaTile& t, const Visit& visit) {
  visit("warps", t.warps, kDoubles);
  visit("keys", t.keys, kDoubles);
}
CudaAttentionMmaTile choose_cuda_attention_mma_tile(const program::Node& node, const CudaAttentionTarget& target);  // by rule
std::string cuda_attention_mma_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaAttentionMmaTile& t);
KernelText generate_cuda_attention_mma(const program::Node& node, const CudaAttentionTarget& target, const CudaAttentionMmaTile& tile);

}  // namespace toroid::codegen
