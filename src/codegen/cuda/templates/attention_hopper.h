// What attention's kernels for Hopper GPUs are made of: copies by tensor maps and products of warpgroups.
#pragma once

#include <string>
#include <string_view>

#include "codegen/cuda/templates/attention_common.h"

namespace toroid::codegen {

// The [batch, head, row, column] of an operand as 16-bit or 32-bit boxes of `box_rows` rows and 128 bytes of columns, in 128-byte swizzle.
device::cuda::TensorMap attention_boxes(const Expr& batch, const program::Operand& o, const Expr& heads, const Expr& rows, int64_t columns,
                                        int box_rows);
// Whether such boxes can be: no dimension lies in another's place.
bool has_attention_boxes(const Expr& batch, const program::Operand& o, const Expr& heads, const Expr& rows);

// How a product of 64 rows, `columns` columns and depth 16 reads its operands.
struct WgmmaProduct {
  std::string_view name;
  int64_t columns = 0;
  bool a_in_registers = false;
  bool a_by_depth = false, b_by_depth = false;  // in shared memory the depth runs from row to row, not within one
  bool may_begin = false;                       // a last argument `add` of 0 sets the accumulators
};
// The instruction as a function name(accumulators, a, b[, add]), which does not wait for its result.
std::string wgmma_text(DType type, const WgmmaProduct& product);

// Definitions: barriers, copies of boxes, and the descriptor of a matrix whose depth runs along its rows.
std::string_view attention_copies();
// Definitions: stores of boxes, and boxes that are added.
std::string_view attention_stores();

}  // namespace toroid::codegen
