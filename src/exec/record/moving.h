// Buffers of a plan that are elsewhere at each replay: where each was at the latest one, and which launches take it. A replay looks at
// these alone. Launches themselves are memory that has long left the caches when a call comes after some milliseconds of a GPU's work.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace toroid::exec {

template <class Taker>
class Moving {
 public:
  // The taker (a launch) takes the buffer, which is now `at`, as its pointer number `position`.
  void add(int buffer, void* at, Taker* taker, size_t position) {
    auto row = std::find_if(rows_.begin(), rows_.end(), [&](auto& r) { return r.buffer == buffer; });
    if (row == rows_.end()) row = rows_.insert(row, {buffer, at, {}});
    row->uses.emplace_back(taker, position);
  }

  // Takers were given other pointers meanwhile: the next follow() tells about all.
  void forget() { known_ = false; }

  // at: addresses of the plan's buffers. Calls set(taker, position, address) for those that differ from the call before, then
  // changed(taker) once for each that was told something.
  template <class Set, class Changed>
  void follow(std::span<void* const> at, const Set& set, const Changed& changed) {
    for (Row& r : rows_) {
      void* const now = at[static_cast<size_t>(r.buffer)];
      if (r.at == now && known_) continue;
      r.at = now;
      for (auto& [taker, position] : r.uses) {
        set(*taker, position, now);
        told_.push_back(taker);
      }
    }
    known_ = true;
    if (told_.empty()) return;
    std::sort(told_.begin(), told_.end());
    told_.erase(std::unique(told_.begin(), told_.end()), told_.end());
    for (Taker* t : told_) changed(*t);
    told_.clear();
  }

 private:
  struct Row {
    int buffer;
    void* at;
    std::vector<std::pair<Taker*, size_t>> uses;
  };
  std::vector<Row> rows_;
  std::vector<Taker*> told_;  // within follow()
  bool known_ = true;
};

}  // namespace toroid::exec
