#include "sched/joined_order.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace toroid::sched {
namespace {

void insert(JoinedOrder::Nodes& list, size_t node) {
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at == list.end() || *at != node) list.insert(at, node);
}

void erase(JoinedOrder::Nodes& list, size_t node) {
  const auto at = std::lower_bound(list.begin(), list.end(), node);
  if (at != list.end() && *at == node) list.erase(at);
}

// Gives the edges of one node to another, seen from both ends.
void move_edges(std::vector<JoinedOrder::Nodes>& edges, std::vector<JoinedOrder::Nodes>& back, size_t kept, size_t gone) {
  for (const size_t n : edges[gone]) {
    erase(back[n], gone);
    if (n == kept) continue;
    insert(back[n], kept);
    insert(edges[kept], n);
  }
  edges[gone].clear();
}

}  // namespace

JoinedOrder::JoinedOrder(size_t count) : after_(count), before_(count), place_(count), seen_(count, 0) {
  std::iota(place_.begin(), place_.end(), size_t{0});
}

void JoinedOrder::add_edge(size_t from, size_t to) {
  TOROID_CHECK(from < to, "an edge must lead forward");
  insert(after_[from], to);
  insert(before_[to], from);
}

bool JoinedOrder::is_edge(size_t from, size_t to) const { return std::binary_search(after_[from].begin(), after_[from].end(), to); }

// From both ends in turns: where there is no path, the smaller side ends the search.
bool JoinedOrder::reaches_by_another(size_t from, size_t to) const {
  const size_t low = place_[from], high = place_[to];
  if (low >= high) return false;
  const unsigned forward = ++search_, backward = ++search_;
  Nodes ahead, behind;  // to be looked at
  bool meet = false;
  const auto visit = [&](Nodes& stack, size_t n, unsigned own, unsigned other) {
    if (place_[n] <= low || place_[n] >= high || seen_[n] == own) return;
    meet = meet || seen_[n] == other;
    seen_[n] = own;
    stack.push_back(n);
  };
  for (const size_t n : after_[from]) visit(ahead, n, forward, backward);
  for (const size_t n : before_[to]) visit(behind, n, backward, forward);
  while (!meet && !ahead.empty() && !behind.empty()) {
    const size_t a = ahead.back(), b = behind.back();
    ahead.pop_back(), behind.pop_back();
    for (const size_t n : after_[a]) visit(ahead, n, forward, backward);
    for (const size_t n : before_[b]) visit(behind, n, backward, forward);
  }
  return meet;
}

JoinedOrder::Nodes JoinedOrder::reached(const std::vector<Nodes>& edges, size_t from, size_t low, size_t high) const {
  ++search_;
  Nodes out{from};
  for (size_t i = 0; i < out.size(); ++i)
    for (const size_t n : edges[out[i]]) {
      if (place_[n] <= low || place_[n] >= high || seen_[n] == search_) continue;
      seen_[n] = search_;
      out.push_back(n);
    }
  out.erase(out.begin());
  std::sort(out.begin(), out.end(), [&](size_t a, size_t b) { return place_[a] < place_[b]; });
  return out;
}

void JoinedOrder::join(size_t kept, size_t gone) {
  const auto [low, high] = std::minmax(place_[kept], place_[gone]);
  const size_t first = place_[kept] < place_[gone] ? kept : gone, second = first == kept ? gone : kept;
  // What the later one waits for comes before the joint node, and what the earlier one leads to behind it.
  const Nodes earlier = reached(before_, second, low, high), later = reached(after_, first, low, high);
  std::vector<size_t> places{low, high};
  for (const Nodes* list : {&earlier, &later})
    for (const size_t n : *list) places.push_back(place_[n]);
  std::sort(places.begin(), places.end());
  size_t next = 0;
  for (const size_t n : earlier) place_[n] = places[next++];
  place_[kept] = places[next++];
  place_[gone] = places[next++];
  for (const size_t n : later) place_[n] = places[next++];

  erase(after_[kept], gone), erase(before_[kept], gone);
  move_edges(after_, before_, kept, gone);
  move_edges(before_, after_, kept, gone);
}

}  // namespace toroid::sched
