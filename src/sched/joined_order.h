// An order of nodes that are joined in pairs.
#pragma once

#include <cstddef>
#include <vector>

namespace toroid::sched {

// A directed graph without cycles. It keeps an order in which each node comes after those that it waits for, and mends the part of it that
// a joint node disturbs (after D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2006),
// so that paths are looked for between the places of their ends alone.
class JoinedOrder {
 public:
  using Nodes = std::vector<size_t>;  // ascending

  // Without edges: each node may come where its number says.
  explicit JoinedOrder(size_t count);
  // `to` waits for `from`, whose number is smaller. Only before nodes are joined.
  void add_edge(size_t from, size_t to);

  const Nodes& after(size_t node) const { return after_[node]; }
  const Nodes& before(size_t node) const { return before_[node]; }
  bool is_edge(size_t from, size_t to) const;
  // Whether a path of two edges and more leads from one to the other.
  bool reaches_by_another(size_t from, size_t to) const;
  // Makes one node of two, between which there is no path of two edges and more: `gone` has no edges any more.
  void join(size_t kept, size_t gone);

 private:
  // All that a node leads to (or waits for) between two places, both of which are not meant, in their order.
  Nodes reached(const std::vector<Nodes>& edges, size_t from, size_t low, size_t high) const;

  std::vector<Nodes> after_, before_;
  std::vector<size_t> place_;           // by node
  mutable std::vector<unsigned> seen_;  // by node: in which search
  mutable unsigned search_ = 0;
};

}  // namespace toroid::sched
