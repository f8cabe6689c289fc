#include "autograd/partition/min_cut.h"

#include <algorithm>

#include "base/gradient_bugs.h"

namespace toroid::autograd {

int Network::add_vertex() {
  leaving_.emplace_back();
  return static_cast<int>(leaving_.size()) - 1;
}

size_t Network::add_edge(int from, int to, int64_t capacity) {
  const size_t number = edges_.size();
  edges_.push_back({to, capacity});
  edges_.push_back({from, 0});
  leaving_[static_cast<size_t>(from)].push_back(number);
  leaving_[static_cast<size_t>(to)].push_back(number + 1);
  return number;
}

bool Network::find_levels(int source, int sink) {
  level_.assign(leaving_.size(), -1);
  next_.assign(leaving_.size(), 0);
  std::vector<int> queue{source};
  level_[static_cast<size_t>(source)] = 0;
  for (size_t at = 0; at < queue.size(); ++at)
    for (const size_t e : leaving_[static_cast<size_t>(queue[at])]) {
      int& level = level_[static_cast<size_t>(edges_[e].to)];
      if (edges_[e].rest == 0 || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[at])] + 1;
      queue.push_back(edges_[e].to);
    }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// Along one shortest path, with a stack of its own: paths are as long as programs.
int64_t Network::push(int from, int sink, int64_t most) {
  std::vector<size_t> path;
  int at = from;
  while (at != sink) {
    const auto vertex = static_cast<size_t>(at);
    auto& tried = next_[vertex];
    while (tried < leaving_[vertex].size()) {
      const Edge& e = edges_[leaving_[vertex][tried]];
      if (e.rest > 0 && level_[static_cast<size_t>(e.to)] == level_[vertex] + 1) break;
      ++tried;
    }
    if (tried < leaving_[vertex].size()) {
      path.push_back(leaving_[vertex][tried]);
      at = edges_[path.back()].to;
      continue;
    }
    if (path.empty()) return 0;
    at = edges_[path.back() ^ 1].to;  // a dead end: back by one edge, which is not tried again
    path.pop_back();
    ++next_[static_cast<size_t>(at)];
  }
  for (const size_t e : path) most = std::min(most, edges_[e].rest);
  for (const size_t e : path) {
    if (edges_[e].rest < kInfinite) edges_[e].rest -= most;
    if (edges_[e ^ 1].rest < kInfinite && !planted(GradientBug::FlowStays)) edges_[e ^ 1].rest += most;
  }
  return most;
}

int64_t Network::cut(int source, int sink) {
  int64_t flow = 0;
  while (flow < kInfinite && find_levels(source, sink))
    while (const int64_t more = flow < kInfinite ? push(source, sink, kInfinite) : 0) flow += more;
  flow = std::min(flow, kInfinite);
  // Against the edges that still take something, from the sink.
  reaches_sink_.assign(leaving_.size(), false);
  std::vector<int> queue{sink};
  reaches_sink_[static_cast<size_t>(sink)] = true;
  while (!queue.empty()) {
    const auto at = static_cast<size_t>(queue.back());
    queue.pop_back();
    for (const size_t e : leaving_[at]) {
      const auto before = static_cast<size_t>(edges_[e].to);
      if (reaches_sink_[before] || edges_[e ^ 1].rest == 0) continue;
      reaches_sink_[before] = true;
      queue.push_back(edges_[e].to);
    }
  }
  return flow;
}

bool Network::is_cut(size_t edge) const {
  return reaches_sink_[static_cast<size_t>(edges_[edge].to)] && !reaches_sink_[static_cast<size_t>(edges_[edge ^ 1].to)];
}

}  // namespace toroid::autograd
