// Steps of one body as steps of another.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "loop/node.h"

namespace toroid::loop {

// The statement with the steps that it reads by their numbers elsewhere: to[k] is that of step k.
inline Statement renumbered(Statement s, const std::vector<int>& to) {
  for (int& a : s.args)
    if (a >= 0) a = to[static_cast<size_t>(a)];
  if (s.mask >= 0) s.mask = to[static_cast<size_t>(s.mask)];
  s.index = sym::substitute(s.index, [&](const sym::Node& n) -> std::optional<Expr> {
    const int k = step_of_symbol(n);
    return k < 0 ? std::nullopt : std::optional(value_symbol(to[static_cast<size_t>(k)], n.lo, n.hi));
  });
  return s;
}

}  // namespace toroid::loop
