// What the two CUDA forms of attention's gradient share: what they take, and pieces of their text.
#pragma once

#include <string>

#include "codegen/cuda/templates/attention_common.h"

namespace toroid::codegen {

// The attention that it is the gradient of.
program::Attention attention_of(const program::AttentionBackward& a);
// Why no form takes a problem; empty when some may.
std::string attention_backward_refusal(const program::AttentionBackward& a);
// Key heads whose blocks follow each other, by their keys: as many as the cache has room for, and enough for all multiprocessors.
int64_t attention_backward_heads(const program::AttentionBackward& a, int64_t block_keys, const CudaAttentionTarget& target);
// Statements that say what a block has to do: kv_head, batch, key_block and its first key, key0; first and blocks, the blocks of queries
// that see any of its keys; steps, those of all kShare heads. They see kBM, kBN, kHeadGroup and attention_sizes().
std::string attention_backward_tasks(const program::AttentionBackward& a);
// C expressions: whether some scores of the warp with keys from key0 + my_row on and the queries from row on are hidden, and whether that
// of `key` and `query` is.
std::string some_hidden_text(const program::AttentionBackward& a);
std::string hidden_text(const program::AttentionBackward& a);
// C expression: pointer to a number of the row `query`.
std::string row_value_text(CudaArguments& arguments, const program::Operand& o);

}  // namespace toroid::codegen
