#include "program/points.h"

#include "program/fields.h"

namespace toroid::program {
namespace {

struct Points {
  using Result = std::optional<std::vector<Expr>>;
  Result operator()(const Gemm& g) const { return joined(g.batch, {g.m, g.n}); }
  Result operator()(const Convolution& c) const { return std::vector<Expr>{c.n, c.out_channels, c.out_h, c.out_w}; }
  Result operator()(const Attention& a) const { return std::vector<Expr>{a.batch, a.heads, a.queries, a.value_dim}; }
  template <class Other>
  Result operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<std::vector<Expr>> points_of(const Node& n) { return std::visit(Points{}, n.problem); }

void for_each_view(const Node& n, const VisitView& visit) {
  const Gemm* rows_made = n.producer ? std::get_if<Gemm>(&n.problem) : nullptr;
  visit_operands(n, [&](const Operand& o, Use use, std::string_view what, const auto& extents) {
    if (rows_made && &o == &rows_made->a) return;
    if (o.buffer >= 0 || is_required(use)) visit(o, extents(), what);
  });
}

}  // namespace toroid::program
