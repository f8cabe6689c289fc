#include "exec/run/arena.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/mutants.h"

namespace toroid::exec {

Arena place(const std::vector<LiveRange>& ranges) {
  constexpr int64_t kAlign = 256;  // of what libraries of GPUs work in
  Arena arena;
  arena.offsets.assign(ranges.size(), -1);
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });
  struct Placed {
    int64_t begin, end;
    int first, last;  // steps
  };
  std::vector<Placed> placed;  // by where they begin
  for (size_t i : order) {
    const LiveRange& r = ranges[i];
    if (r.bytes <= 0) continue;
    // Vectors may be read past a buffer's end: one spare line.
    int64_t bytes = (r.bytes + kAlign - 1) / kAlign * kAlign + kAlign;
    const bool overlaps = mutant(Mutant::ArenaOverlap);
    int64_t at = 0;
    for (auto& p : placed) {
      if (at + bytes <= p.begin) break;
      if (overlaps ? p.first < r.last && r.first < p.last : p.first <= r.last && r.first <= p.last) at = std::max(at, p.end);
    }
    arena.offsets[i] = at;
    arena.bytes = std::max(arena.bytes, at + bytes);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), at, [](int64_t a, const Placed& p) { return a < p.begin; });
    placed.insert(behind, {at, at + bytes, r.first, r.last});
  }
  return arena;
}

}  // namespace toroid::exec
