// Attention of few queries (decoding, and small problems) as a CUDA kernel: warps share the keys of a head among them and stream keys and
// values from memory to registers, nothing is staged (split keys: Dao et al., Flash-Decoding, 2023).
#pragma once

#include "codegen/cuda/templates/attention_common.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// Whether it is the faster form of what cuda_attention_refusal() lets pass: the keys are read once per 8 or 16 queries.
bool prefers_attention_decode(const program::Node& node, const CudaAttentionTarget& target);
// How the work is divided.
struct CudaDecodeTile {
  int tiles = 1;   // of 8 queries in a block: 1 or 2
  int warps = 8;   // of a block: 4 or 8
  int splits = 1;  // blocks that share the keys of a tile
  int stages = 1;  // steps of a warp that are under way
};
template <class Visit>
void fields(CudaDecodeTile& t, const Visit& visit) {
  visit("tiles", t.tiles, 1);
  visit("warps", t.warps, kDoubles);
  visit("splits", t.splits, kDoubles);
  visit("stages", t.stages, 1);
}
// By rule, and others worth a trial, the most promising first.
CudaDecodeTile choose_cuda_decode_tile(const program::Node& node, const CudaAttentionTarget& target);
std::vector<CudaDecodeTile> other_cuda_decode_tiles(const program::Node& node, const CudaAttentionTarget& target);
// Why a tile is none for the node; empty when it is one.
std::string cuda_decode_tile_refusal(const program::Node& node, const CudaAttentionTarget& target, const CudaDecodeTile& t);
KernelText generate_cuda_attention_decode(const program::Node& node, const CudaAttentionTarget& target, const CudaDecodeTile& tile);

}  // namespace toroid::codegen
