// Places of a call's temporaries in one block of memory.
#pragma once

#include <cstdint>
#include <vector>

namespace toroid::exec {

// Offsets of temporaries in one arena, by first-fit over live ranges: no two buffers that are live at once overlap. Sizes in bytes;
// offsets are multiples of 256.
struct LiveRange {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive
};
struct Arena {
  std::vector<int64_t> offsets;  // -1 for an empty range
  int64_t bytes = 0;
};
Arena place(const std::vector<LiveRange>& ranges);

}  // namespace toroid::exec
