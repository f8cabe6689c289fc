// What passes that put one node into another have in common.
#pragma once

#include <string>

#include "program/uses.h"
#include "sched/fuse.h"

namespace toroid::sched {

// Nodes of a program keep their places until finish(). report: null where nobody asks what was not joined.
class Joins {
 public:
  Joins(program::Program& p, FusionReport* report) : p_(p), uses_(p), gone_(p.nodes.size(), false), report_(report) {}

  const program::Uses& uses() const { return uses_; }
  // Puts `whole` in the place of node `second`, and takes node `first` away.
  void join(size_t first, size_t second, program::Node whole);
  // Why two nodes that share memory stay as they are.
  void miss(size_t first, size_t second, std::string reason);
  // Drops the nodes that were taken away.
  void finish();

 private:
  program::Program& p_;
  program::Uses uses_;
  std::vector<bool> gone_;
  FusionReport* report_;
};

}  // namespace toroid::sched
