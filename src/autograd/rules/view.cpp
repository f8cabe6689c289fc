// Gradients of views: each element goes back to where it came from.
#include "autograd/rules/forms.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

// The view of numbered elements tells where each element of a result came from.
Tensor gathered_back(const GradientCall& c, size_t result, Tensor into) {
  const Tensor self = std::get<Tensor>(c.args()[0]);
  CallArgs args(c.args().begin(), c.args().end());
  args[0] = view(iota(numel_of(self)), sizes_of(self));
  if (const int offset = c.op().schema.find("storage_offset"); offset >= 0 && planted(GradientBug::ViewOffset))
    args[static_cast<size_t>(offset)] = num(0);
  const Tensor from = ops::call(c.op(), std::move(args))[result];
  if (planted(GradientBug::OverlapOverwrites)) return ops::call1("scatter.src", {into, num(0), flat(from), flat(c.cotangents[result])});
  return scatter_add(into, 0, flat(from), flat(c.cotangents[result]));
}

void overlapping(GradientCall& c) {
  const Tensor self = std::get<Tensor>(c.args()[0]);
  Tensor sum;
  for (size_t r = 0; r < c.results.size(); ++r)
    if (c.cotangents[r].defined()) sum = gathered_back(c, r, sum.defined() ? sum : zeros({numel_of(self)}, c.cotangents[r].dtype()));
  if (sum.defined()) c.set(c.op().schema.params[0].name, view(sum, sizes_of(self)));
}

// Results that do not overlap overwrite zeros.
void overwriting(GradientCall& c, ops::WriteBack write_back) {
  Tensor whole = zeros_like(std::get<Tensor>(c.args()[0]));
  for (size_t r = 0; r < c.results.size(); ++r) {
    if (!c.cotangents[r].defined()) continue;
    CallArgs args(c.args().begin(), c.args().end());
    if (planted(GradientBug::WriteBackLast)) whole = zeros_like(whole);
    args[0] = whole;
    whole = write_back(ops::CallReader(c.op(), args), r, c.cotangents[r]);
  }
  c.set(c.op().schema.params[0].name, whole);
}

// The parts that a dimension was split in, joined again.
void split_rule(GradientCall& c) {
  std::vector<Tensor> parts;
  for (size_t r = 0; r < c.results.size(); ++r)
    parts.push_back(c.cotangents[r].defined() && !(planted(GradientBug::WriteBackLast) && r + 1 < c.results.size())
                        ? c.cotangents[r]
                        : zeros_like(c.results[r]));
  const int64_t dim = dim_of(c, "dim", c.tensor("self"));
  c.set("self", parts.size() == 1 ? parts[0] : ops::call1("cat", {parts, num(dim)}));
}

// view_copy's elements come from where those of view come from.
ops::WriteBack write_back_of(const ops::Op& op) {
  if (op.write_back) return op.write_back;
  const size_t at = op.name.find("_copy");
  if (at == std::string::npos) return op.name == "_unsafe_view" ? ops::get("view").write_back : nullptr;
  const ops::Op* view = ops::table().find(op.name.substr(0, at) + op.name.substr(at + 5));
  return view ? view->write_back : nullptr;
}

void expand_rule(GradientCall& c) { c.set("self", c.cotangent()); }

void flip_rule(GradientCall& c) {
  c.set("self", planted(GradientBug::FlipNotUndone) ? c.cotangent() : ops::call1("flip", {c.cotangent(), c.at("dims")}));
}

void roll_rule(GradientCall& c) {
  Sizes back;
  for (auto& s : c.exprs("shifts")) back.push_back(planted(GradientBug::RollForward) ? s : -s);
  c.set("self", ops::call1("roll", {c.cotangent(), back, c.at("dims")}));
}

void repeat_rule(GradientCall& c) {
  const Sizes self = sizes_of(c.tensor("self")), repeats = c.exprs("repeats");
  const size_t lead = repeats.size() - self.size();
  Sizes split;
  std::vector<int64_t> dims;
  for (size_t d = 0; d < repeats.size(); ++d) {
    const bool interleaved = planted(GradientBug::RepeatInterleaved) && d >= lead;
    if (interleaved) split.push_back(self[d - lead]);
    dims.push_back(static_cast<int64_t>(split.size()));
    split.push_back(repeats[d]);
    if (d >= lead && !interleaved) split.push_back(self[d - lead]);
  }
  c.set("self", dims.empty() ? c.cotangent() : sum(view(c.cotangent(), split), dims, false));
}

// The windows of a dimension overlap: one pass for each place in a window, which fuse.
void unfold_rule(GradientCall& c) {
  constexpr int64_t kFew = 16;
  const Tensor self = c.tensor("self"), g = c.cotangent();
  const int64_t size = c.integer("size"), step = c.integer("step");
  if (self.dim() == 0 || size > kFew) return overlapping(c);
  const int64_t dim = dim_of(c, "dimension", self);
  const Tensor none = zeros(sizes_of(self), g.dtype());
  const Expr count = size_at(g, dim);
  Tensor total;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t first = planted(GradientBug::UnfoldPlace) ? 0 : k;
    const Expr end = (count - Expr(1)) * Expr(step) + Expr(first + 1);
    const Tensor at_k = ops::call1("slice_scatter", {none, select(g, g.dim() - 1, k), num(dim), Expr(first), end, Expr(step)});
    total = total.defined() ? add(total, at_k) : at_k;
  }
  if (total.defined()) c.set("self", total);
}

// The elements are another's, and the gradient goes where it went before these were written.
void with_history_rule(GradientCall& c) { c.set("self", c.cotangent()); }

constexpr RuleRow kViewRules[] = {
    {"split.Tensor", split_rule},
    {"split_copy.Tensor", split_rule},
    {"split_with_sizes", split_rule},
    {"split_with_sizes_copy", split_rule},
    {"split.sizes", split_rule},
    {"chunk", split_rule},
    {"expand", expand_rule},
    {"expand_copy", expand_rule},
    {"broadcast_to", expand_rule},
    {"_check_values", expand_rule},
    {"flip", flip_rule},
    {"roll", roll_rule},
    {"repeat", repeat_rule},
    {"unfold", unfold_rule},
    {"unfold_copy", unfold_rule},
    {"as_strided", overlapping},
    {"as_strided_copy", overlapping},
    {"detach", no_gradient},
    {"detach_copy", no_gradient},
    {"prims.with_history", with_history_rule},
    {"normal.Tensor_float", no_gradient},
    {"normal.float_Tensor", no_gradient},
    {"normal.Tensor_Tensor", no_gradient},
    {"bernoulli", no_gradient},
    {"bernoulli.p", no_gradient},
};

}  // namespace

void no_gradient([[maybe_unused]] GradientCall& c) {
  if (planted(GradientBug::DetachIgnored) && c.op().schema.find("self") == 0) c.set("self", c.cotangent());
}

std::span<const RuleRow> view_rules() { return kViewRules; }

void view_rule(GradientCall& c) {
  if (const auto write_back = write_back_of(c.op()))
    overwriting(c, write_back);
  else
    overlapping(c);
}

}  // namespace toroid::autograd
