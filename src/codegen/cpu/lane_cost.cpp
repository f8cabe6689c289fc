#include "codegen/cpu/lane_cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Body;
using loop::Domain;
using loop::Statement;
using loop::Step;

// Loads whose neighbours along the inner variable are far apart, but run on along the tile's: squares of them are transposed in registers.
std::vector<int> staged_in(const Body& b, const std::vector<bool>& on_inner, const Expr& inner, const std::vector<bool>& on_tile,
                           const Expr& tile) {
  std::vector<int> staged;
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    if (s.step != Step::Load || s.mask >= 0 || is_bool(s.dtype)) continue;
    bool through_value = false;
    for_each_use(s, [&](size_t u) { through_value = through_value || on_tile[u] || on_inner[u]; });
    auto across = sym::linear_coefficient(s.index, inner), along = sym::linear_coefficient(s.index, tile);
    bool near = across && across->is_const() && std::abs(across->constant()) <= 2;
    if (!through_value && across && !near && along && *along == Expr(1)) staged.push_back(static_cast<int>(k));
  }
  return staged;
}

// Of the points along a variable, those in whole vectors: 0 to 1.
double whole_share(const Expr& extent, int lanes) {
  if (!extent.is_const()) return 1;
  return static_cast<double>(extent.constant() / lanes * lanes) / static_cast<double>(extent.constant());
}

// Cycles of a vector whose lanes are in as many cache lines, `step` elements apart. The row beside it finds its lines in the first level
// where all those of a row of n elements fit, and more cycles are spent where they do not: on stores most, whose lines are written back.
double cost_of_far_lanes(const Statement& s, const Expr& step, double n) {
  constexpr int64_t kLine = 64, kSets = 64, kWays = 8;
  const bool loads = s.step == Step::Load;
  const int64_t apart = step.is_const() ? std::abs(step.constant()) * static_cast<int64_t>(size_of(s.dtype)) : 1;
  const int64_t sets = apart % kLine == 0 ? kSets / std::gcd(apart / kLine, kSets) : kSets;
  const bool stays = n <= static_cast<double>(sets * kWays);
  return loads ? (stays ? 30 : 50) : (stays ? 28 : 90);
}

}  // namespace

bool is_heavy_step(const Statement& s) {
  if (s.step == Step::Scan) return true;
  if (s.step != Step::Scalar) return false;
  if (is_int(s.dtype))
    return s.op == ScalarOp::Div || s.op == ScalarOp::FloorDiv || s.op == ScalarOp::Remainder || s.op == ScalarOp::Fmod ||
           s.op == ScalarOp::Pow;
  return s.op >= ScalarOp::Exp && !(s.op >= ScalarOp::FrexpMantissa && s.op <= ScalarOp::FrexpExponent);
}

double extent_guess(const Expr& e) {
  constexpr double kUnknownExtent = 256;
  return e.is_const() ? static_cast<double>(e.constant()) : std::min(kUnknownExtent, static_cast<double>(sym::bounds(e).hi));
}

Tile tile_for(const Domain& d, const Body& b, size_t c, int lanes, bool serial) {
  Tile best;
  if (lanes == 1 || serial || loop::has_reduction(d)) return best;
  const std::vector<bool> on_inner = depends_on_variable(d, b, d.vars[c].symbol);
  for (size_t v = 0; v < d.vars.size(); ++v) {
    const loop::Var& var = d.vars[v];
    if (v == c || (var.extent().is_const() && var.extent().constant() < lanes)) continue;
    std::vector<bool> on_tile = depends_on_variable(d, b, var.symbol);
    std::vector<int> staged = staged_in(b, on_inner, d.vars[c].symbol, on_tile, var.symbol);
    if (staged.size() > best.staged.size()) best = {static_cast<int>(v), std::move(staged), std::move(on_tile)};
  }
  return best;
}

double cost_along(const Domain& d, const Body& b, size_t c, int lanes, bool serial) {
  constexpr double kStaged = 6, kFar = 30;
  const bool has_reduction = loop::has_reduction(d);
  const Tile tile = tile_for(d, b, c, lanes, serial);
  const double tiled = tile.var < 0 ? 0 : whole_share(d.vars[static_cast<size_t>(tile.var)].extent(), lanes);
  const loop::Var& v = d.vars[c];
  std::vector<bool> on = depends_on_variable(d, b, v.symbol), varies = loop::varies_over_reduction(d, b);
  double vector = 0, scalar = 0, reduces = 0;  // of one vector, and of an element that is left over
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    if (v.reduction && !varies[k] && s.step != Step::Reduce) continue;
    double one = 0;  // an operation costs the same for one element and for a vector of them
    switch (s.step) {
      case Step::Reduce:
        reduces += 1;
        one = 1;
        break;
      case Step::Scan:  // lanes that are successive points add to each other
        vector += v.reduction ? 16 : 2;
        scalar += 4;
        break;
      case Step::Scalar:
        one = on[k] && s.op != ScalarOp::Const ? (is_heavy_step(s) ? 8 : 1) : 0;
        break;
      case Step::Index:
      case Step::Check:
      case Step::Accumulate:
        one = on[k] ? 2 : 0;
        break;
      default: {
        bool through_value = false;
        sym::for_each_symbol(s.index, [&](const Expr& e) {
          if (int u = loop::step_of_symbol(*e.node()); u >= 0) through_value = through_value || on[static_cast<size_t>(u)];
        });
        auto step = through_value ? std::nullopt : sym::linear_coefficient(s.index, v.symbol);
        bool masked = s.mask >= 0 && on[static_cast<size_t>(s.mask)];
        bool near = step && step->is_const() && std::abs(step->constant()) <= 8;
        scalar += 1;
        if (!step)
          vector += 24;
        else if (*step == Expr(1))
          vector += masked ? 3 : 1;
        else if (*step == Expr(0) && s.step == Step::Load)
          vector += 0.2, scalar -= 0.8;
        else {
          const bool staged = std::find(tile.staged.begin(), tile.staged.end(), static_cast<int>(k)) != tile.staged.end();
          const double apart = near ? 10 : has_reduction ? kFar : cost_of_far_lanes(s, *step, extent_guess(v.extent()));
          vector += staged ? tiled * kStaged + (1 - tiled) * apart : apart;
        }
      }
    }
    vector += one;
    scalar += one;
  }
  double n = std::max(extent_guess(v.extent()), 1.0);
  double vectors = v.extent().is_const() ? std::floor(n / lanes) : n / lanes, rest = v.extent().is_const() ? n - vectors * lanes : 0;
  double total = vectors * vector + rest * scalar;
  if (v.reduction) total += 12 * reduces;
  return total / n;
}

}  // namespace toroid::codegen
