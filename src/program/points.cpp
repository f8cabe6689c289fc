#include "program/points.h"

#include <algorithm>

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

static std::optional<SumsPlace> sums_place_of_loop(const Node& n) {
  const auto& vars = n.domain.vars;
  if (vars.size() != 2 || vars[0].reduction || !vars[1].reduction || !vars[0].extent().is_const() || !vars[1].extent().is_const())
    return std::nullopt;
  SumsPlace place;
  for (auto& s : n.body.steps) place.sums = std::max(place.sums, loop::sums_of_column(s));
  if (place.sums == 0) return std::nullopt;
  place.rows = vars[0].extent().constant(), place.columns = vars[1].extent().constant(), place.column = 1;
  place.index = sym::mod(vars[0].symbol, place.sums) * Expr(place.columns) + vars[1].symbol;
  return place;
}

std::optional<SumsPlace> sums_place(const Node& n) {
  if (n.is_loop()) return sums_place_of_loop(n);
  const auto* g = std::get_if<Gemm>(&n.problem);
  const bool is_convolution = std::holds_alternative<Convolution>(n.problem);
  if ((!g && !is_convolution) || n.domain.vars.size() != points_of(n)->size()) return std::nullopt;
  if (g && (g->b2 || std::any_of(g->batch.begin(), g->batch.end(), [](auto& e) { return !(e == Expr(1)); }))) return std::nullopt;
  SumsPlace place;
  place.column = g ? static_cast<int>(n.domain.vars.size()) - 1 : 1;
  Expr row = 0;
  place.rows = 1;
  for (size_t v = 0; v < n.domain.vars.size(); ++v) {
    const Expr& extent = n.domain.vars[v].extent();
    if (!extent.is_const() || extent.constant() < 1) return std::nullopt;
    if (static_cast<int>(v) == place.column) {
      place.columns = extent.constant();
    } else {
      row = row * extent + n.domain.vars[v].symbol;
      place.rows *= extent.constant();
    }
  }
  place.sums = (place.rows + kSummedRows - 1) / kSummedRows;
  place.index = sym::floor_div(row, kSummedRows) * Expr(place.columns) + n.domain.vars[static_cast<size_t>(place.column)].symbol;
  return place;
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
