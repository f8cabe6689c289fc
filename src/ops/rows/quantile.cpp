// Quantiles, in terms of sorted elements.
#include "base/check.h"
#include "ops/rows/dense_compose.h"
#include "ops/rows/forms.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {

using namespace compose;

namespace {

// Elements of each sorted row at fractional places [.., k].
Tensor at_places(const CallReader& c, const Tensor& sorted, const Tensor& places) {
  const std::string how = c.text("interpolation");
  auto pick = [&](const Tensor& whole) { return call1("gather", {sorted, Expr(-1), cast(whole, DType::I64)}); };
  if (how == "nearest") return pick(call1("round", {places}));
  Tensor below = call1("floor", {places});
  if (how == "lower") return pick(below);
  Tensor above = call1("ceil", {places});
  if (how == "higher") return pick(above);
  TOROID_USER_CHECK(how == "linear" || how == "midpoint",
                    "{}: interpolation must be linear, lower, higher, midpoint or nearest, it is \"{}\"", c.op().name, how);
  if (how == "midpoint") return call1("lerp.Scalar", {pick(below), pick(above), 0.5});
  return call1("lerp.Tensor", {pick(below), pick(above), sub(places, below)});
}

// Rows without elements of interest give NaN, as do rows with one NaN where they are not left out.
template <bool kLeavesNanOut>
std::vector<Tensor> quantile(const CallReader& c) {
  Tensor self = c.tensor("self");
  const auto* given = std::get_if<Tensor>(&c.at("q"));
  Tensor q = given ? *given : full({}, c.real("q"), self.dtype());
  // Half floats could not hold places in long rows.
  TOROID_USER_CHECK((self.dtype() == DType::F32 || self.dtype() == DType::F64) && q.dtype() == self.dtype() && q.dim() <= 1,
                    "{}: expected f32 or f64, and one or a row of quantiles of that dtype, got {} and {}", c.op().name, to_string(self),
                    to_string(q));
  TOROID_USER_CHECK(given || (c.real("q") >= 0 && c.real("q") <= 1), "{}: q must be from 0 to 1, it is {}", c.op().name, c.real("q"));
  const bool keep = c.flag("keepdim"), one_dim = c.has("dim") && self.dim() > 0;
  const int64_t rank = self.dim(), dim = one_dim ? normal_dim(c.op(), c.integer("dim"), rank) : 0;
  Tensor rows = one_dim ? call1("movedim.int", {self, Expr(dim), Expr(-1)}) : reshape(self, {product_of(sizes_of(self))});
  Tensor sorted = call("sort", {rows, Expr(-1)}).at(0);  // NaN last
  const Expr last = extent(sorted, -1) - 1;
  require({sym::Rel::Ge, last, 0}, "{}: {} has rows without elements", c.op().name, to_string(self));
  Tensor is_nan = call1("isnan", {sorted}), all = call1("scalar_tensor", {last, self.dtype()}), places;
  if (given) q = forms::checked_values(q, std::string(plain_name(c.op())) + ": q", ValueRule::Probability);
  // No place is outside of its row, whatever the tensor holds.
  Tensor apart = reshape(given ? call1("clamp", {call1("nan_to_num", {q}), 0.0, 1.0}) : q, {product_of(sizes_of(q))});
  if (kLeavesNanOut) {
    Tensor count = cast(sum(call1("logical_not", {is_nan}), {Expr(-1)}, true), self.dtype());
    places = mul(call1("clamp_min", {sub(count, Expr(1)), Expr(0)}), apart);
  } else {
    const Tensor part = mul(all, apart);
    places = where(call1("any.dim", {is_nan, Expr(-1), true}), all, part);
  }
  Tensor found = at_places(c, sorted, places);  // [.., k]
  found = call1("movedim.int", {found, Expr(-1), Expr(0)});
  const bool row_of_quantiles = q.dim() == 1;
  if (!row_of_quantiles) found = select(found, 0, 0);
  if (!keep) return {found};
  const int64_t lead = row_of_quantiles ? 1 : 0;
  if (one_dim) return {unsqueeze(found, dim + lead)};
  for (int64_t d = 0; d < rank; ++d) found = unsqueeze(found, lead);
  return {found};
}

}  // namespace

void add_quantile_rows(Table& t) {
  const std::string rest = ", int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor";
  t.composite("quantile(Tensor self, Tensor q" + rest, quantile<false>);
  t.composite("quantile.scalar(Tensor self, float q" + rest, quantile<false>);
  t.composite("nanquantile(Tensor self, Tensor q" + rest, quantile<true>);
  t.composite("nanquantile.scalar(Tensor self, float q" + rest, quantile<true>);
}

}  // namespace toroid::ops
