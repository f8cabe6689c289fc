#include "graph/passes/conditions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "graph/passes/arguments.h"
#include "graph/passes/movement.h"

namespace toroid::graph {
namespace {

// The least and the greatest element.
struct Range {
  double least = 0, greatest = 0;
};

// Of an argument by its name; `otherwise` where there is none of that name, nothing where it is not known.
std::optional<double> named(const Node& n, const char* name, double otherwise) {
  const int i = n.op->schema.find(name);
  if (i < 0) return otherwise;
  const NodeArg& a = n.args[static_cast<size_t>(i)];
  if (auto* b = std::get_if<bool>(&a)) return *b;
  return number(a);
}

// Behind what leaves each element as it is, or repeats it.
const Value* behind_movement(const Value* v) {
  while (v->producer) {
    const ops::Op& op = *v->producer->op;
    if (!is_copy(op) && !is_reshape(op) && !is_permute(op) && !is_expand(op)) break;
    v = operand(*v->producer, 0);
  }
  return v;
}

// Of numbers that are counted up: arange and prims.iota, with a step above 0.
std::optional<Range> range_of_count(const Node& n) {
  const auto start = named(n, "start", 0), step = named(n, "step", 1);
  const auto& sizes = n.results[0]->type.sizes;
  if (!start || !step || *step <= 0 || sizes.size() != 1 || !sizes[0].is_const()) return std::nullopt;
  if (*start != std::trunc(*start) || *step != std::trunc(*step)) return std::nullopt;
  return Range{*start, *start + *step * static_cast<double>(std::max<int64_t>(sizes[0].constant(), 1) - 1)};
}

// Whether no number of the range wraps in 32 bits.
bool fits(const Range& r) { return r.least >= -0x1p31 && r.greatest < 0x1p31; }

// Of a tensor of integers of 32 bits or more.
std::optional<Range> range_of(const Value* v) {
  v = behind_movement(v);
  if (!v->producer || !is_int(v->type.dtype) || size_of(v->type.dtype) < 4) return std::nullopt;
  const Node& n = *v->producer;
  const std::string_view name = n.op->name;
  if (name.starts_with("arange") || name == "prims.iota") {
    const auto range = range_of_count(n);
    return range && fits(*range) ? range : std::nullopt;
  }
  if (name != "add.Tensor" && name != "add.Scalar" && name != "sub.Tensor" && name != "sub.Scalar") return std::nullopt;
  const Value* x = operand(n, 0);
  const auto other = number(n.args[1]), alpha = named(n, "alpha", 1);
  const auto range = x ? range_of(x) : std::nullopt;
  if (!range || !other || alpha != 1) return std::nullopt;
  const double by = name.starts_with("add") ? *other : -*other;
  const Range moved{range->least + by, range->greatest + by};
  return fits(moved) ? std::optional(moved) : std::nullopt;
}

}  // namespace

bool always_holds(const Value* v) {
  v = behind_movement(v);
  if (!v->producer || !is_bool(v->type.dtype)) return false;
  const Node& n = *v->producer;
  const std::string_view name = n.op->name;
  if (name == "full" || name == "full_like" || name == "new_full" || name == "scalar_tensor")
    return named(n, name == "scalar_tensor" ? "s" : "fill_value", 0).value_or(0) != 0;
  if (name == "ones" || name == "ones_like" || name == "new_ones") return true;
  if (name == "bitwise_and.Tensor" || name == "logical_and") return always_holds(operand(n, 0)) && always_holds(operand(n, 1));
  const auto than = n.args.size() > 1 ? number(n.args[1]) : std::nullopt;
  const auto range = than && operand(n, 0) ? range_of(operand(n, 0)) : std::nullopt;
  if (!range) return false;
  if (name == "ge.Scalar") return range->least >= *than;
  if (name == "gt.Scalar") return range->least > *than;
  if (name == "le.Scalar") return range->greatest <= *than;
  if (name == "lt.Scalar") return range->greatest < *than;
  return false;
}

}  // namespace toroid::graph
