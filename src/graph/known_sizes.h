// What is known of the sizes of a graph by its guards, and by a region of the graph around it.
#pragma once

#include <optional>
#include <set>

#include "graph/graph.h"

namespace toroid::graph {

// The relation that holds where r does not.
sym::Rel opposite(sym::Rel r);
inline sym::Relation opposite(const sym::Relation& r) { return {opposite(r.rel), r.a, r.b}; }

// Whether one of the guards states the relation.
bool states(const std::vector<sym::Guard>& guards, const sym::Relation& r);
// Truth of r where it is known, or follows from one of the guards.
std::optional<bool> known_by_guards(const std::vector<sym::Guard>& guards, const sym::Relation& r);

// Lends a region the symbols and guards of the graph around it: what is recorded into the region goes the way that this graph has decided,
// and its new symbols have other names. A pass may put another graph in the region's place before the end.
class LentSizes {
 public:
  LentSizes(const Graph& around, Graph& region);
  // Takes back what was lent. What the region has assumed since of sizes around it must hold for the graph around it, which is told. What
  // its operations require is looked at when the region runs.
  void take_back(Graph& around, Graph& region) const;

 private:
  std::set<std::string> symbols_;
  std::vector<sym::Guard> own_;  // guards that the region had
};

}  // namespace toroid::graph
