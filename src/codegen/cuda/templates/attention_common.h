// What the two CUDA forms of attention share: what they take, and pieces of their text.
#pragma once

#include <string>

#include "codegen/cuda/templates/parts.h"
#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"
#include "program/program.h"

namespace toroid::codegen {

// What a kernel may use of a GPU.
struct CudaAttentionTarget {
  int multiprocessors = 132;
  int64_t shared_bytes = 227 * 1024;  // of a block
  bool tensor_copies = true;          // compute capability 9.0 "a": wgmma, and copies by tensor maps
};

// Why no form takes a problem; empty when some does.
std::string cuda_attention_refusal(const program::Attention& a);
// Query heads that share a key head.
int64_t heads_of_group(const program::Attention& a);
// Sizes that the shape of the work is chosen for: the problem's, where they are constants.
struct AttentionSizes {
  int64_t batch, queries, keys;
};
AttentionSizes typical_sizes(const program::Attention& a);

// Whether a mask of bools can be read in pieces of 16 that lie within a row.
bool has_mask_vectors(const program::Attention& a);

// Definitions: matrix products of 16 rows by 8 columns, packed halves, powers of two, and the value of a mask's elements.
std::string attention_definitions(const program::Attention& a);
// Names that the statements of both forms use: heads, kv_heads, M, N and kFactor, the scale of scores in powers of two.
std::string attention_sizes(CudaArguments& arguments, const program::Attention& a);
// C expression: pointer to an element of an operand.
std::string attention_pointer(CudaArguments& arguments, const program::Operand& o, const std::string& batch, const std::string& head,
                              const std::string& row);
// Statement that applies an element of the mask to the f32 lvalue `score`, in powers of two; empty without a mask.
std::string apply_mask_text(const program::Attention& a, const std::string& score, const std::string& element);

CudaAttentionTarget cuda_attention_target(const device::cuda::GpuInfo& gpu);

}  // namespace toroid::codegen
