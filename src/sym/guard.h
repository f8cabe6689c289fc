// What must hold of sizes for a program to be right.
#pragma once

#include <string>
#include <utility>

#include "toroid/sym_expr.h"

namespace toroid::sym {

// A relation that is checked before a program runs or, where a size comes from data, as soon as the run knows it. Without an `error` it was
// assumed when the program was made, for the sizes at hand: other sizes are for another program. With one it is a requirement, and `error`
// is what a run with other sizes says. Either an operation refuses sizes without it, with its name and source line: "unfold: a window of 5
// does not fit into s0 (called at m.cpp:7)". Or the program was made before there were sizes, and took two for equal: "the program takes
// the sizes s0 and s1 for equal".
struct Guard : Relation {
  Guard() : Relation{Rel::Eq, 0, 0} {}
  Guard(Relation r, std::string message = {}) : Relation(std::move(r)), error(std::move(message)) {}  // NOLINT: each relation is a guard
  Guard(Rel rel, Expr a, Expr b) : Relation{rel, std::move(a), std::move(b)} {}
  bool is_requirement() const { return !error.empty(); }

  std::string error;
};

// The same of other expressions.
inline Guard with_sides(const Guard& g, Expr a, Expr b) { return {{g.rel, std::move(a), std::move(b)}, g.error}; }

// The error that a requirement is for sizes that do not satisfy it: "unfold: a window of 5 does not fit in a dimension of s0; s0 >= 5 does
// not hold with s0=3 (called at m.cpp:7)".
std::string refusal(const Guard& g, const Lookup& value);

}  // namespace toroid::sym
