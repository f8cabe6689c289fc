// What the templates of sorts and selections of GPUs share.
#pragma once

#include <string>

#include "codegen/cuda/writer.h"

namespace toroid::codegen {

struct SortPieces {
  int64_t pair_bytes = 0;  // of an element's key and place: a Pair
  std::string keys;        // C expression of a row's first key, in scope of `row`
  // Statements that store the element at place `at` of the keys `x`, which are `step` apart, as the row's i-th result.
  std::string stores;
  Expr rows;  // their number
};

// Adds to `arguments` the definitions of sort.cu.in, for blocks of `threads`, and what the pieces use.
SortPieces sort_pieces(CudaArguments& arguments, const program::Sort& s, int threads);

}  // namespace toroid::codegen
