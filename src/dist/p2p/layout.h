// Where things lie in the memory that kernels of all ranks of a group write, as the texts of kernels and the host see it.
#pragma once

#include <cstdint>

namespace toroid::distributed::p2p {

inline constexpr int kMostRanks = 16;
inline constexpr int kMostBlocks = 264;  // of a kernel whose blocks meet

// Each rank has a region of its GPU's memory, which the others write:
//
//   inline   [2][ranks][2 * inline_bytes]    elements with the number of the launch between them; launches take turns with the two halves
//   whole    [2][ranks][whole_bytes]         inputs of the others, whole
//   rings    [block][2][ranks][ring_bytes]   of a block: parts of the others' inputs on their way, and reduced parts; a kernel divides a
//                                            ring into slots
//   arrived  [block][ranks] words, kFlagWords apart: of a block, the launch whose input has come whole
//   moved    [block][2][ranks] words, kFlagWords apart: of a block, how much of its ring has come, in kRingUnits a ring, in all launches
//   calls    [2][ranks] pairs of words, kFlagWords apart: the number of a launch, and what it is; launches take turns
struct Layout {
  static constexpr int64_t kRingUnits = 8;  // the most slots of a ring
  static constexpr int64_t kFlagWords = 8;  // 32 bytes: what one write to another GPU carries
  static constexpr int64_t kInlineBytes = int64_t{512} << 10, kWholeBytes = int64_t{8} << 20, kRingBytes = int64_t{128} << 10;

  explicit constexpr Layout(int64_t ranks)
      : inline_bytes(kInlineBytes / ranks / 16 * 16),
        whole_bytes(kWholeBytes / ranks / 16 * 16),
        ring_bytes(kRingBytes / ranks / (16 * kRingUnits) * (16 * kRingUnits)),
        whole(2 * ranks * 2 * inline_bytes),
        rings(whole + 2 * ranks * whole_bytes),
        arrived(rings + kMostBlocks * 2 * ranks * ring_bytes),
        moved(arrived + kMostBlocks * ranks * kFlagWords * 4),
        calls(moved + kMostBlocks * 2 * ranks * kFlagWords * 4),
        bytes(calls + 2 * ranks * kFlagWords * 4) {}

  int64_t inline_bytes, whole_bytes;            // of an input
  int64_t ring_bytes;                           // of one block's from one rank
  int64_t whole, rings, arrived, moved, calls;  // where they begin
  int64_t bytes;                                // of a region
};

// What kernels move as pieces of 16 bytes begins at multiples of them, whatever the number of ranks.
static_assert([] {
  for (int64_t ranks = 2; ranks <= kMostRanks; ++ranks) {
    const Layout l(ranks);
    for (const int64_t x : {l.inline_bytes, l.whole_bytes, l.ring_bytes, l.whole, l.rings, l.arrived, l.moved, l.calls, l.bytes})
      if (x % 16 != 0) return false;
  }
  return true;
}());

// What kernels get: the regions, as this rank's GPU sees them, and what its launches count.
struct Table {
  uint64_t regions[kMostRanks] = {};
  int32_t rank = 0, ranks = 0;
  uint32_t launch = 1;   // the number of the one that is next, or under way
  uint32_t counted = 0;  // its blocks that have read that
  uint32_t failed = 0;   // a rank did not come: nobody waits any more
  uint32_t timeout_ms = 0;
  uint32_t moved[kMostBlocks] = {};  // of each block: what it has sent to each of the others, in units of the ring, in all launches
};

}  // namespace toroid::distributed::p2p
