// Attention as C text: softmax(scale * Q K^T + mask) V without a score matrix in memory, any strides, grouped heads.
#pragma once

#include <string>

#include "codegen/cpu/templates/template_text.h"
#include "codegen/forms.h"

namespace toroid::codegen {

// A [batch, head, row, column] operand: strides in elements, C expressions over `params`. Every stride may be anything
// (0 broadcasts); f32 operands with any column stride are read in place, half ones are converted block by block.
struct AttentionOperand {
  int buffer = 0;
  DType type = DType::F32;
  std::string batch_stride = "0", head_stride = "0", row_stride = "0", column_stride = "1";
  std::string offset = "0";  // of the first element, in elements
};

enum class AttentionMask {
  None,
  Additive,  // f32, bf16 or f16, added to the scaled scores
  Boolean,   // bytes: 0 masks the position out
};

struct AttentionTile {
  int vecs = 4;  // vectors of queries of a task (a task has vecs * lanes queries)
  int64_t block_keys = 64;
};
template <class Visit>
void fields(AttentionTile& t, const Visit& visit) {
  visit("vecs", t.vecs, 1);
  visit("block_keys", t.block_keys, kDoubles);
}
// Of the form for few queries.
struct FewQueriesTile {
  int64_t block_keys = 64;
};
template <class Visit>
void fields(FewQueriesTile& t, const Visit& visit) {
  visit("block_keys", t.block_keys, kDoubles);
}

struct AttentionConfig {
  std::string name;
  int lanes = 16;
  // Q [batch, heads, queries, depth], K [batch, kv_heads, keys, depth], V [batch, kv_heads, keys, value_depth]; heads is a
  // multiple of kv_heads. depth and value_depth are constants.
  Extent batch = 1, heads = 1, kv_heads = 1, queries, keys;
  int64_t depth = 64, value_depth = 64;
  std::string scale = "1.0f";  // C expression
  bool causal = false;         // query m sees keys n <= m + (keys - queries)
  AttentionOperand q, k, v;
  AttentionMask mask_kind = AttentionMask::None;
  AttentionOperand mask;  // [batch, heads, queries, keys]; type is ignored for Boolean
  AttentionTile tile;
  bool few = false;  // the form for few queries, whose tile has block_keys only
  // Statements that consume `acc` (vf32: value columns d .. d+lanes-1; or float) of query m: they see `batch`, `head`, `m`,
  // `d`, `bufs`, `params`. Rows whose keys are all masked out are zero.
  Hole epilogue;
  int scratch_buffer = 4;
};

// Query vectors of a task for these sizes: as few as cover short query lists.
int choose_attention_vecs(int64_t queries, int lanes);

// Why a tile is none; empty when it is one. few: of the form for few queries.
std::string attention_tile_refusal(const AttentionTile& t, int lanes, bool few);
// Whether all queries of a key head are so few (decoding) that a lane a query would waste most of a vector: the problem has a form of its
// own (attention_few.cpp), whose vectors run along the columns of keys and values. A task is one key head then.
bool has_few_queries(const AttentionConfig& c);

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread). Its prelude must
// define vf32 v_exp_f32(vf32).
std::string attention_text(const AttentionConfig& config);

int64_t attention_task_count(const AttentionConfig& config, const int64_t* params);
// Bytes of scratch a thread (thread t uses [t*bytes, (t+1)*bytes), 64-byte aligned).
int64_t attention_scratch_bytes(const AttentionConfig& config);

}  // namespace toroid::codegen
