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

// Adds a step, which knows the others by their numbers there, to a body. Gives its number: that of an equal one, where there is one.
inline int append(BodyBuilder& to, const Statement& s) {
  if (s.step == Step::Scalar) return to.emit({.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value});
  if (s.mask < 0 && !uses_values(s.index)) {
    if (s.step == Step::Load) return to.load(s.buffer, s.dtype, s.index).id;
    if (s.step == Step::Index) return to.index(s.index).id;
  }
  to.body().steps.push_back(s);
  return static_cast<int>(to.body().steps.size()) - 1;
}

}  // namespace toroid::loop
