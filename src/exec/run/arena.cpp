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
  std::vector<size_t> placed;
  for (size_t i : order) {
    const LiveRange& r = ranges[i];
    if (r.bytes <= 0) continue;
    // Vectors may be read past a buffer's end: one spare line.
    int64_t bytes = (r.bytes + kAlign - 1) / kAlign * kAlign + kAlign;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j : placed)
      if ((mutant(Mutant::ArenaOverlap) ? ranges[j].first < r.last && r.first < ranges[j].last
                                        : ranges[j].first <= r.last && r.first <= ranges[j].last))
        taken.emplace_back(arena.offsets[j], arena.offsets[j] + (ranges[j].bytes + kAlign - 1) / kAlign * kAlign + kAlign);
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (auto& [lo, hi] : taken) {
      if (at + bytes <= lo) break;
      at = std::max(at, hi);
    }
    arena.offsets[i] = at;
    arena.bytes = std::max(arena.bytes, at + bytes);
    placed.push_back(i);
  }
  return arena;
}

}  // namespace toroid::exec
