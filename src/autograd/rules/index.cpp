// Gradients of gathering, scattering, joining and padding.
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

Tensor put(const Tensor& into, const Arg<Tensor>& indices, const Tensor& values, bool accumulate) {
  return ops::call1("index_put", {into, indices, values, accumulate});
}

void index_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), g = c.cotangent();
  c.set("self", put(zeros(sizes_of(self), g.dtype()), c.at("indices"), g, !planted(GradientBug::IndexOverwrites)));
}

void index_put_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  if (c.wants("self"))
    c.set("self", c.flag("accumulate") || planted(GradientBug::PutNotCut) ? g : put(g, c.at("indices"), full({}, 0, g.dtype()), false));
  if (c.wants("values")) c.set("values", ops::call1("index.Tensor", {g, c.at("indices")}));
}

void embedding_rule(GradientCall& c) {
  const Tensor weight = c.tensor("weight");
  const Tensor index = cast_to(c.tensor("indices"), DType::I64);
  Tensor g = c.cotangent();
  const auto along_rows = [&](const Tensor& t) { return unsqueeze(t, t.dim()); };
  if (c.flag("scale_grad_by_freq") && !planted(GradientBug::EmbeddingFrequency)) {
    const Tensor once = full(sizes_of(index), 1, g.dtype());
    const Tensor count = put(zeros({size_at(weight, 0)}, g.dtype()), std::vector<Tensor>{index}, once, true);
    g = div(g, along_rows(ops::call1("index.Tensor", {count, std::vector<Tensor>{index}})));
  }
  if (const Expr padding = c.expr("padding_idx"); !(padding == Expr(-1)) && !planted(GradientBug::EmbeddingPadding))
    g = where(along_rows(ops::call1("eq.Scalar", {index, padding})), 0.0, g);
  c.set("weight", put(zeros(sizes_of(weight), g.dtype()), std::vector<Tensor>{index}, g, true));
}

// Whether an index picks one element of each row along a dimension, from all rows.
bool picks_one(const Tensor& self, const Tensor& index, int64_t dim) {
  if (self.dim() == 0 || index.dim() != self.dim()) return false;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (!(size_at(index, d) == (d == dim ? Expr(1) : size_at(self, d)))) return false;
  return true;
}

// One element of each row (of a loss, the log probability of its class) is told by its place, which needs no memory of zeros.
void gather_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), index = c.tensor("index"), g = c.cotangent();
  const int64_t dim = self.dim() == 0 ? 0 : dim_of(c, "dim", self);
  if (picks_one(self, index, dim)) {
    const Tensor place = iota_along(size_at(self, dim), dim, self.dim(), planted(GradientBug::GatherDimension) ? 1 : 0);
    return c.set("self", where(compare("eq", place, cast_to(index, DType::I64)), g, 0.0));
  }
  c.set("self", scatter_add(zeros_like(self), planted(GradientBug::GatherDimension) ? -1 : c.integer("dim"), index, g));
}

Tensor gathered(const GradientCall& c, const Tensor& from) { return ops::call1("gather", {from, c.at("dim"), c.at("index"), false}); }
// What lies where the call's indices point is replaced by zeros.
Tensor cleared(const GradientCall& c, const Tensor& t) {
  if (planted(GradientBug::ScatterNotCut)) return t;
  const Tensor index = c.tensor("index");
  return ops::call1("scatter.src", {t, c.at("dim"), index, zeros(sizes_of(index), t.dtype())});
}

void scatter_rule(GradientCall& c) {
  if (c.wants("self")) c.set("self", cleared(c, c.cotangent()));
  if (c.wants("src")) c.set("src", fit(gathered(c, c.cotangent()), sizes_of(c.tensor("src"))));
}

void scatter_add_rule(GradientCall& c) {
  c.set("self", c.cotangent());
  if (c.wants("src")) c.set("src", fit(gathered(c, c.cotangent()), sizes_of(c.tensor("src"))));
}

// The part of src that the call reads.
Tensor read_part(const GradientCall& c) { return fit(c.tensor("src"), sizes_of(c.tensor("index"))); }
Tensor scattered(const GradientCall& c, const Tensor& into, const Tensor& values) {
  return ops::call1("scatter_add", {into, c.at("dim"), c.at("index"), values});
}

void scatter_mean(GradientCall& c) {
  const Tensor g = c.cotangent(), src = read_part(c);
  const Tensor self_counts = c.flag("include_self") || planted(GradientBug::MeanCount) ? ones_like(g) : zeros_like(g);
  const Tensor count = ops::call1("clamp_min", {scattered(c, self_counts, ones_like(src)), 1.0});
  const Tensor part = div(g, count);
  c.set("self", c.flag("include_self") ? part : cleared(c, part));
  if (c.wants("src")) c.set("src", fit(gathered(c, part), sizes_of(c.tensor("src"))));
}

// Equal extrema share the gradient evenly.
void scatter_extremum(GradientCall& c) {
  const Tensor g = c.cotangent(), src = read_part(c);
  Tensor of_self = cast_to(compare("eq", c.tensor("self"), c.results[0]), g.dtype());
  if (!c.flag("include_self")) of_self = cleared(c, of_self);
  const Tensor of_src = cast_to(compare(planted(GradientBug::ScatterTies) ? "ge" : "eq", src, gathered(c, c.results[0])), g.dtype());
  const Tensor untouched = c.flag("include_self") ? of_self : cleared(c, ones_like(g));
  const Tensor part = div(g, ops::call1("clamp_min", {scattered(c, untouched, of_src), 1.0}));
  c.set("self", mul(of_self, part));
  if (c.wants("src")) c.set("src", fit(mul(of_src, gathered(c, part)), sizes_of(c.tensor("src"))));
}

// Of one zero, the product of the others; of several, nothing.
void scatter_product(GradientCall& c) {
  const Tensor g = c.cotangent(), src = read_part(c), self = c.tensor("self");
  const auto reduce = [&](const Tensor& into, const Tensor& values) {
    return ops::call1("scatter_reduce.two", {into, c.at("dim"), c.at("index"), values, std::string("prod"), c.flag("include_self")});
  };
  const auto is_zero = [](const Tensor& t) { return compare("eq", t, 0.0); };
  if (c.wants("self")) {
    if (c.flag("include_self")) {
      const Tensor plain = where(is_zero(self), 1.0, self), others = reduce(plain, src);
      c.set("self", div(mul(g, others), plain));
    } else {
      c.set("self", cleared(c, g));
    }
  }
  if (!c.wants("src")) return;
  const Tensor src_zero = is_zero(src);
  const Tensor zeros_at = gathered(c, scattered(c, zeros_like(g), cast_to(src_zero, g.dtype())));
  const Tensor is_single = ops::call1("logical_and", {src_zero, compare("eq", zeros_at, 1.0)});
  const Tensor others = reduce(self, where(is_single, 1.0, src));
  const Tensor of_single = gathered(c, mul(g, others)), of_rest = div(gathered(c, mul(g, c.results[0])), where(src_zero, 1.0, src));
  c.set("src", fit(where(is_single, of_single, of_rest), sizes_of(c.tensor("src"))));
}

void scatter_reduce_rule(GradientCall& c) {
  const std::string kind = c.text("reduce");
  if (kind == "mean") return scatter_mean(c);
  if (kind == "amax" || kind == "amin") return scatter_extremum(c);
  if (kind == "prod") return scatter_product(c);
  c.set("self", c.flag("include_self") ? c.cotangent() : cleared(c, c.cotangent()));
  if (c.wants("src")) c.set("src", fit(gathered(c, c.cotangent()), sizes_of(c.tensor("src"))));
}

void cat_rule(GradientCall& c) {
  const Tensor g = c.cotangent();
  const std::vector<Tensor> parts = c.tensors("tensors");
  const int64_t dim = dim_of(c, "dim", g);
  Expr at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].dim() != g.dim()) continue;  // the legacy empty tensor
    const Expr end = at + size_at(parts[i], dim);
    if (c.wants("tensors", i)) c.set("tensors", slice(g, dim, at, end), i);
    if (!planted(GradientBug::CatOffset)) at = end;
  }
}

// The places of the elements in the combinations are the combinations of their places.
void combinations_rule(GradientCall& c) {
  const Tensor self = c.tensor("self"), g = c.cotangent();
  const Tensor places = ops::call1("combinations", {iota(size_at(self, 0)), c.at("r"), c.at("with_replacement")});
  const bool accumulate = !planted(GradientBug::CombinationsOverwrite);
  c.set("self", put(zeros(sizes_of(self), g.dtype()), std::vector<Tensor>{flat(places)}, flat(g), accumulate));
}

void pad_rule(GradientCall& c) {
  Sizes back;
  for (auto& p : c.exprs("pad")) back.push_back(-p);
  if (planted(GradientBug::PadSwapped))
    for (size_t i = 0; i + 1 < back.size(); i += 2) std::swap(back[i], back[i + 1]);
  c.set("self", ops::call1("constant_pad_nd", {c.cotangent(), back, 0.0}));
}

void cast_rule(GradientCall& c) { c.set("self", c.cotangent()); }

// "slice_scatter" writes src over what "slice.Tensor" shows.
template <const char* const& kView>
void view_scatter_rule(GradientCall& c) {
  CallArgs of_view{c.cotangent()};
  for (size_t i = 2; i < c.args().size(); ++i) of_view.push_back(c.args()[i]);
  if (c.wants("src")) c.set("src", ops::call1(kView, of_view));
  if (!c.wants("self")) return;
  CallArgs over(c.args().begin(), c.args().end());
  if (planted(GradientBug::WriteNotCut)) return c.set("self", c.cotangent());
  over[0] = c.cotangent();
  over[1] = zeros_like(c.tensor("src"));
  c.set("self", ops::call1(c.op().name, over));
}
constexpr const char* kSlice = "slice.Tensor";
constexpr const char* kSelect = "select.int";
constexpr const char* kDiagonal = "diagonal";
constexpr const char* kAsStrided = "as_strided";

constexpr RuleRow kIndexRules[] = {
    {"index.Tensor", index_rule},
    {"index_put", index_put_rule},
    {"embedding", embedding_rule},
    {"gather", gather_rule},
    {"scatter.src", scatter_rule},
    {"scatter_add", scatter_add_rule},
    {"scatter_reduce.two", scatter_reduce_rule},
    {"cat", cat_rule},
    {"combinations", combinations_rule},
    {"constant_pad_nd", pad_rule},
    {"_to_copy", cast_rule},
    {"embedding_renorm", cast_rule},
    {"slice_scatter", view_scatter_rule<kSlice>},
    {"select_scatter", view_scatter_rule<kSelect>},
    {"diagonal_scatter", view_scatter_rule<kDiagonal>},
    {"as_strided_scatter", view_scatter_rule<kAsStrided>},
};

}  // namespace

std::span<const RuleRow> index_rules() { return kIndexRules; }

}  // namespace toroid::autograd
