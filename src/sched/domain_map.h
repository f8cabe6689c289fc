// Matching the iteration domains of two nodes, so that their bodies can be joined.
#pragma once

#include "loop/node.h"
#include "loop/var_map.h"
#include "program/program.h"

namespace toroid::sched {

// Where each variable of a domain went: an expression over the variables of the joint domain.
using VarMap = loop::VarMap<Expr>;

struct Match {
  loop::Domain joint;
  VarMap first, second;
};

// Matches two domains by their row-major positions. Either all variables of both run over the same points, or one of them has a
// reduction and the other runs over its space points only. `first_fixed`: the joint domain must be the first one (templates name their
// variables). nullopt when they do not match.
std::optional<Match> match_domains(const loop::Domain& first, const loop::Domain& second, bool first_fixed);

// Each variable of a domain at the point whose place in memory is `at`, where the domain's points lie at `place`, one behind the other.
std::optional<VarMap> point_at(const loop::Domain& d, const Expr& place, const Expr& at);
// The one variable of a domain's space that runs along a column of the joint domain, which no variable of its reduction depends on.
std::optional<loop::Var> variable_along(const loop::Domain& d, const VarMap& map, const Expr& column);
// Whether an index has quotients or remainders.
bool divides(const Expr& e);

// The body over the joint domain.
loop::Body rename(const loop::Body& body, const VarMap& map);

// A loop with a reduction over one variable of its space and then one of its reduction. nullopt: one of them is open, or of one point.
std::optional<program::Node> flattened(const program::Node& n);

}  // namespace toroid::sched
