#include "graph/passes/arguments.h"

namespace toroid::graph {

const Value* operand(const Node& n, size_t i) {
  auto* v = i < n.args.size() ? std::get_if<Value*>(&n.args[i]) : nullptr;
  return v ? *v : nullptr;
}

std::optional<double> number(const NodeArg& a) {
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return static_cast<double>(e->constant());
  if (auto* d = std::get_if<double>(&a)) return *d;
  return std::nullopt;
}

}  // namespace toroid::graph
