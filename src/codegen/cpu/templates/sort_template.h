// Stable sorts of rows and selections of their first elements as C text.
#pragma once

#include <string>

#include "codegen/cpu/templates/template_text.h"

namespace toroid::codegen {

struct SortConfig {
  std::string name;
  DType dtype = DType::F32;  // of the elements; not complex
  bool descending = false;
  Extent length, count;     // of a row, and how many of its elements in order are wanted
  bool selects = false;     // count may be less than length
  bool long_rows = false;   // length may be 2^32 or more
  bool contiguous = false;  // key_stride is 1
  // C expressions over `row`, the number of the row: where its first element lies, and how far apart its elements are.
  std::string key_offset, key_stride, value_offset, value_stride, position_offset, position_stride;
  int key_buffer = 0, value_buffer = -1, position_buffer = -1;  // -1: not wanted
  int scratch_buffer = 1;
  Extent room;  // the value of sort_room
};

// The kernel: void name(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread). A task is a row. It follows
// the prelude's types.
std::string sort_text(const SortConfig& config);

// How many elements a thread sorts at once, at most, and bytes of scratch that it needs for them.
Expr sort_room(const Expr& length, const Expr& count);
Expr sort_scratch_bytes(const SortConfig& config, const Expr& length, const Expr& count);

}  // namespace toroid::codegen
