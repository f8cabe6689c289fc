// What the backward pass computes again, each node just before its first reader.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "autograd/partition/partition.h"
#include "graph/passes/rebuild.h"

namespace toroid::autograd {

class Again {
 public:
  // Appends to `out`, in which values that are saved have their place already.
  Again(graph::Rebuild& out, const graph::Graph& g, const Partition& p);

  // Computes what a node of the backward pass reads and is not there yet. pass: of the nodes that this takes.
  void before(const graph::Node& reader, graph::Pass pass);

 private:
  graph::Rebuild& out_;
  std::unordered_set<const graph::Node*> again_;  // that are not there yet
  std::unordered_map<const graph::Node*, size_t> place_;
};

}  // namespace toroid::autograd
