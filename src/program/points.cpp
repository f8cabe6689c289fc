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

int plain_result(const Node& n) {
  using loop::Step;
  const auto sizes = points_of(n);
  const auto& steps = n.body.steps;
  const bool rounds = steps.size() == 3 && steps[1].step == Step::Scalar && steps[1].op == ScalarOp::Cast;
  if (!sizes || (steps.size() != 2 && !rounds) || steps[0].step != Step::Accumulate || steps.back().step != Step::Store) return -1;
  const loop::Statement& store = steps.back();
  Expr flat = 0;
  for (size_t d = 0; d < sizes->size(); ++d) flat = flat * (*sizes)[d] + ((*sizes)[d] == Expr(1) ? Expr(0) : n.domain.vars[d].symbol);
  return store.mode == loop::StoreMode::Set && store.mask < 0 && store.index == flat ? store.buffer : -1;
}

void for_each_view(const Node& n, const VisitView& visit) {
  const Gemm* rows_made = n.producer ? product_of(n) : nullptr;
  visit_operands(n, [&](const Operand& o, Use use, std::string_view what, const auto& extents) {
    if (rows_made && &o == &rows_made->a) return;
    if (o.buffer >= 0 || is_required(use)) visit(o, extents(), what);
  });
}

}  // namespace toroid::program
