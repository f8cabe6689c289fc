// A reader of a template's result over the template's own points.
#pragma once

#include <optional>

#include "program/program.h"

namespace toroid::sched {

// `b`, a loop without reductions that reads what the template `a` stores, as views see it (places merged, split, in another order, or some
// of them cut off), with its body over a's domain: each point does what b does with the element that a stores there. Nothing where the
// elements are not seen once each, and where b would only store them in another order.
std::optional<program::Node> over_points(const program::Node& a, const program::Node& b);

}  // namespace toroid::sched
