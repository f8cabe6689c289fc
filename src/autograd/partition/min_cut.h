// Minimum cuts of networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace toroid::autograd {

// A directed network with capacities. E. A. Dinitz, "Algorithm for solution of a problem of maximum flow in a network with power
// estimation", 1970: flow is pushed along shortest paths until the sink is out of reach.
class Network {
 public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  int add_vertex();
  // Capacities are not negative; kInfinite: never cut. Returns the edge's number.
  size_t add_edge(int from, int to, int64_t capacity);

  // The capacity of a minimum cut between two vertices; kInfinite where a path of such edges joins them. Called once.
  int64_t cut(int source, int sink);
  // After cut(): whether the edge is in the minimum cut that is nearest to the sink.
  bool is_cut(size_t edge) const;

 private:
  struct Edge {
    int to;
    int64_t rest;  // what it still takes
  };
  bool find_levels(int source, int sink);
  int64_t push(int from, int sink, int64_t most);

  std::vector<Edge> edges_;  // each beside its reverse: edge ^ 1
  std::vector<std::vector<size_t>> leaving_;
  std::vector<int> level_;
  std::vector<size_t> next_;        // by vertex: the edge to try next
  std::vector<bool> reaches_sink_;  // by vertex, after cut()
};

}  // namespace toroid::autograd
