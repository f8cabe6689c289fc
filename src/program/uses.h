// Who reads and who writes each buffer of a program, while a pass changes its nodes.
#pragma once

#include <vector>

#include "program/program.h"

namespace toroid::program {

// Nodes are named by their places, which must stay: a pass that joins nodes leaves an empty one behind, and drops these at its end.
class Uses {
 public:
  explicit Uses(const Program& p);

  // In order.
  const std::vector<size_t>& readers(int buffer) const { return of(readers_, buffer); }
  const std::vector<size_t>& writers(int buffer) const { return of(writers_, buffer); }
  // The buffers of a node, as program::reads and program::writes give them.
  const std::vector<int>& reads(size_t node) const { return reads_[node]; }
  const std::vector<int>& writes(size_t node) const { return writes_[node]; }
  // Whether one of these lies between two nodes, which are not meant themselves.
  static bool any_between(const std::vector<size_t>& nodes, size_t first, size_t last);

  // The only node that reads a buffer, where it comes after `writer` and nothing else writes the buffer; kNone otherwise.
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t only_reader(int buffer, size_t writer) const;
  // Whether between two nodes what the first reads is written, or what the second touches is touched: the first cannot run where the
  // second does.
  bool is_touched_between(size_t first, size_t second) const;

  // The node is another one now, or none any more.
  void set(size_t node, const Node& now);
  void remove(size_t node);
  // Gives all nodes of p that name `from` the buffer `to` in its place.
  void renumber(Program& p, int from, int to);

 private:
  using Nodes = std::vector<std::vector<size_t>>;  // by buffer
  static const std::vector<size_t>& of(const Nodes& nodes, int buffer);
  void add(size_t node);

  Nodes readers_, writers_;
  std::vector<std::vector<int>> reads_, writes_;  // by node
};

// Drops the nodes that went into others.
void drop(Program& p, const std::vector<bool>& gone);

}  // namespace toroid::program
