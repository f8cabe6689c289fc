#include "exec/run/donated.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/mutants.h"

namespace toroid::exec {
namespace {

// As in an arena: vectors may be read past the end, so that there is a spare line behind each. Tensors have one, too.
constexpr int64_t kAlign = 64;
int64_t rounded(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign + kAlign; }

class Regions {
 public:
  explicit Regions(const std::vector<LiveRange>& regions) : regions_(regions), there_(regions.size()) {}

  std::optional<int64_t> offset_for(const Wish& w, size_t region) const {
    const LiveRange& r = regions_[region];
    const int behind = mutant(Mutant::DonatedEarly) ? r.last : r.last + 1;
    if (w.range.bytes > r.bytes || w.range.first < behind) return std::nullopt;
    if (w.whole && w.range.bytes != r.bytes) return std::nullopt;
    int64_t at = 0;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (auto& t : there_[region])
      if (t.range.first <= w.range.last && w.range.first <= t.range.last) taken.emplace_back(t.at, t.at + rounded(t.range.bytes));
    std::sort(taken.begin(), taken.end());
    for (auto& [begin, end] : taken) {
      if (at + rounded(w.range.bytes) <= begin) break;
      at = std::max(at, end);
    }
    if (at + w.range.bytes > r.bytes || (w.whole && at > 0)) return std::nullopt;
    return at;
  }

  void take(const LiveRange& range, size_t region, int64_t at) { there_[region].push_back({range, at}); }

 private:
  struct Taken {
    LiveRange range;
    int64_t at;
  };
  const std::vector<LiveRange>& regions_;
  std::vector<std::vector<Taken>> there_;
};

std::vector<size_t> by_bytes(size_t count, const auto& key) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

std::vector<DonatedPlace> place_in(const std::vector<LiveRange>& regions, const std::vector<Wish>& wishes) {
  Regions memory(regions);
  std::vector<DonatedPlace> out(wishes.size());
  const auto smallest = by_bytes(regions.size(), [&](size_t i) { return regions[i].bytes; });
  // Of equal ones results first: what they take of the regions is no memory of their own for as long as they live.
  const auto order = by_bytes(wishes.size(), [&](size_t i) { return std::pair(-wishes[i].range.bytes, !wishes[i].whole); });
  for (size_t i : order) {
    if (wishes[i].range.bytes <= 0) continue;
    for (size_t r : smallest) {
      const auto at = memory.offset_for(wishes[i], r);
      if (!at) continue;
      memory.take(wishes[i].range, r, *at);
      out[i] = {static_cast<int>(r), *at};
      break;
    }
  }
  return out;
}

}  // namespace toroid::exec
