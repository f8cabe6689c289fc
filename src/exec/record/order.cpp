#include "exec/record/order.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

namespace toroid::exec {
namespace {

// Who touched what, launch by launch.
class History {
 public:
  // Calls follow(launch) for each earlier launch that one which touches this must follow, some of them more than once.
  void for_each_before(const Touched& t, const std::function<void(size_t)>& follow) {
    for_each_piece(t, [&](Piece& p) {
      if (p.writer) follow(*p.writer);
      if (t.access != Access::Adds) std::for_each(p.adders.begin(), p.adders.end(), follow);
      if (t.access != Access::Reads) std::for_each(p.readers.begin(), p.readers.end(), follow);
    });
  }

  void add(const Touched& t, size_t launch) {
    for_each_piece(t, [&](Piece& p) {
      if (t.access == Access::Reads) p.readers.push_back(launch);
      if (t.access == Access::Adds) p.adders.push_back(launch);
      if (t.access == Access::Writes) p.writer = launch, p.readers.clear(), p.adders.clear();
    });
  }

 private:
  using Place = const std::byte*;
  // Memory that was touched alike, up to `end`.
  struct Piece {
    Place end = nullptr;
    std::optional<size_t> writer;
    std::vector<size_t> readers, adders;  // since then
  };

  // Makes `at` the end of a piece, where it lies within one. Returns the first piece behind it.
  std::map<Place, Piece>::iterator cut(Place at) {
    auto next = pieces_.lower_bound(at);
    if (next == pieces_.begin()) return next;
    Piece& within = std::prev(next)->second;
    if (within.end <= at) return next;
    const auto behind = pieces_.emplace_hint(next, at, within);
    within.end = at;
    return behind;
  }

  template <class Visit>
  void for_each_piece(const Touched& t, const Visit& visit) {
    const Place end = t.at + t.bytes;
    cut(end);
    auto piece = cut(t.at);
    for (Place at = t.at; at < end; at = piece->second.end, ++piece) {
      if (piece == pieces_.end() || piece->first > at)
        piece = pieces_.emplace_hint(piece, at, Piece{piece == pieces_.end() ? end : std::min(end, piece->first), {}, {}, {}});
      visit(piece->second);
    }
  }

  std::map<Place, Piece> pieces_;  // by their beginnings
};

// Sets of launches.
class Sets {
 public:
  explicit Sets(size_t n) : words_((n + 63) / 64), bits_(n * words_) {}
  bool has(size_t set, size_t i) const { return (bits_[set * words_ + i / 64] >> (i % 64)) & 1; }
  void add(size_t set, size_t i) { bits_[set * words_ + i / 64] |= uint64_t{1} << (i % 64); }
  void add_all_of(size_t set, size_t other) {
    for (size_t w = 0; w < words_; ++w) bits_[set * words_ + w] |= bits_[other * words_ + w];
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

}  // namespace

Order order_of(std::span<const std::vector<Touched>> launches) {
  const size_t n = launches.size();
  Order order(n);
  History history;
  Sets followed(n);
  std::vector<size_t> before;
  for (size_t j = 0; j < n; ++j) {
    before.clear();
    for (auto& t : launches[j]) history.for_each_before(t, [&](size_t i) { before.push_back(i); });
    std::sort(before.begin(), before.end(), std::greater<>());
    for (size_t i : before) {
      if (followed.has(j, i)) continue;
      order[j].push_back(i);
      followed.add(j, i);
      followed.add_all_of(j, i);
    }
    for (auto& t : launches[j]) history.add(t, j);
  }
  return order;
}

int64_t width_of(const Order& order) {
  std::vector<size_t> depth(order.size(), 0);
  std::map<size_t, int64_t> launches;  // at a depth
  int64_t most = 0;
  for (size_t j = 0; j < order.size(); ++j) {
    for (size_t i : order[j]) depth[j] = std::max(depth[j], depth[i] + 1);
    most = std::max(most, ++launches[depth[j]]);
  }
  return most;
}

}  // namespace toroid::exec
