// Which part of a value is read: a box of its elements. What the trim pass reckons with.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// Elements start, start + 1, ... of a dimension's factor.
struct Factor {
  Expr extent, start, length;
  bool is_whole() const { return length == extent; }
  bool operator==(const Factor&) const = default;
};

// What is read along one dimension, whose index is made of the factors in row-major order: rows of [batch * tokens, width] of which one
// token a sequence is read are [batch, whole][tokens, one].
using Selection = std::vector<Factor>;

// By dimension; not `used`: nothing is read.
struct Demand {
  bool used = false;
  std::vector<Selection> dims;
  bool operator==(const Demand&) const = default;
};

inline Selection all_of(const Expr& extent) { return {{extent, 0, extent}}; }
inline bool is_whole(const Selection& s) { return s.size() == 1 && s[0].is_whole(); }
Demand whole(const TensorType& t);
bool is_whole(const Demand& d);
// How many elements there are along a dimension, and how many are read.
Expr extent(const Selection& s);
Expr length(const Selection& s);
std::vector<Expr> lengths(const Demand& d);

// Reads what `more` reads, too: the range from the first to the last where these are known numbers, else everything.
void join(Demand& d, const Demand& more);
// Reads whole dimensions where leaving something out is not worth it: less than half, or not known to be less.
void widen(Demand& d);

// What a reshape must read of an operand of `sizes` for `result`, which is widened where that is no box.
Demand through_reshape(const std::vector<Expr>& sizes, Demand& result);

}  // namespace toroid::graph
