#include "program/points.h"

#include "program/fields.h"

namespace toroid::program {
std::optional<std::vector<Expr>> points_of(const Node& n) {
  return std::visit(
      []<class Kind>(const Kind& problem) -> std::optional<std::vector<Expr>> {
        if constexpr (HasPoints<Kind>)
          return points(problem);
        else
          return std::nullopt;
      },
      n.problem);
}

bool Node::is_whole() const {
  return std::visit([]<class Kind>(const Kind&) { return !HasPoints<Kind> && !std::same_as<Kind, std::monostate>; }, problem);
}

void for_each_view(const Node& n, const VisitView& visit) {
  const Gemm* rows_made = n.producer ? product_of(n) : nullptr;
  visit_operands(n, [&](const Operand& o, Use use, std::string_view what, const auto& extents) {
    if (rows_made && &o == &rows_made->a) return;
    if (o.buffer >= 0 || is_required(use)) visit(o, extents(), what);
  });
}

}  // namespace toroid::program
