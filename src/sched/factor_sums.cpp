#include "sched/factor_sums.h"

#include <algorithm>
#include <optional>

#include "loop/renumber.h"

namespace toroid::sched {
namespace {

using loop::Body;
using loop::Statement;
using loop::Step;

constexpr size_t kMostFactors = 8;

// The steps whose product a step is, itself where it is none; more than kMostFactors where it has more.
void factors_of(const Body& b, int step, std::vector<int>& out) {
  if (out.size() > kMostFactors) return;  // too many, however many more there are
  const Statement& s = b.steps[static_cast<size_t>(step)];
  if (s.step != Step::Scalar || s.op != ScalarOp::Mul || !is_float(s.dtype)) return out.push_back(step);
  for (int a : {s.args[0], s.args[1]}) factors_of(b, a, out);
}

struct Factors {
  std::vector<int> varying, shared;  // by the number of their steps
};

// Of what a sum adds up; nothing where its terms share no factor.
std::optional<Factors> factors_of_sum(const Body& b, const Statement& sum, const std::vector<bool>& varies) {
  if (sum.step != Step::Reduce || sum.reduction != loop::Reduction::Sum || !is_float(sum.dtype)) return std::nullopt;
  std::vector<int> all;
  factors_of(b, sum.args[0], all);
  std::sort(all.begin(), all.end());
  Factors out;
  for (int f : all) (varies[static_cast<size_t>(f)] ? out.varying : out.shared).push_back(f);
  const bool worth = !out.varying.empty() && !out.shared.empty() && all.size() <= kMostFactors;
  return worth ? std::optional(std::move(out)) : std::nullopt;
}

int product(loop::BodyBuilder& builder, DType dtype, const std::vector<int>& factors) {
  int out = factors[0];
  for (size_t i = 1; i < factors.size(); ++i)
    out = builder.emit({.op = ScalarOp::Mul, .dtype = dtype, .args = {out, factors[i], -1}, .value = {}});
  return out;
}

// A sum of nothing is 0, whatever the factors are.
bool may_be_empty(const loop::Domain& d) {
  return std::any_of(d.vars.begin(), d.vars.end(), [](auto& v) { return v.reduction && sym::bounds(v.extent()).lo < 1; });
}

bool factor(program::Node& n) {
  const std::vector<bool> varies = loop::varies_over_reduction(n.domain, n.body);
  Body out;
  loop::BodyBuilder builder(out);
  std::vector<int> to(n.body.steps.size(), -1);
  bool changed = false;
  const auto here = [&](std::vector<int> steps) {
    for (int& k : steps) k = to[static_cast<size_t>(k)];
    return steps;
  };
  for (size_t i = 0; i < to.size(); ++i) {
    const Statement s = loop::renumbered(n.body.steps[i], to);
    if (const auto f = factors_of_sum(n.body, n.body.steps[i], varies)) {
      const int terms = product(builder, s.dtype, here(f->varying));
      const S sum = builder.reduce(loop::Reduction::Sum, {&builder, terms, s.dtype});
      std::vector<int> whole = here(f->shared);
      whole.insert(whole.begin(), sum.id);
      to[i] = product(builder, s.dtype, whole);
      changed = true;
      continue;
    }
    if (s.step == Step::Scalar) {
      to[i] = builder.emit({.op = s.op, .dtype = s.dtype, .args = {s.args[0], s.args[1], s.args[2]}, .value = s.value});
    } else if (s.step == Step::Reduce) {
      to[i] = builder.reduce(s.reduction, {&builder, s.args[0], n.body.steps[static_cast<size_t>(n.body.steps[i].args[0])].dtype}).id;
    } else {
      out.steps.push_back(s);
      to[i] = static_cast<int>(out.steps.size()) - 1;
    }
  }
  if (!changed) return false;
  loop::eliminate_dead(out);
  n.body = std::move(out);
  return true;
}

}  // namespace

bool factor_sums(program::Program& p) {
  bool changed = false;
  for (auto& n : p.nodes)
    if (n.is_loop() && n.pass == graph::Pass::Backward && loop::has_reduction(n.domain) && !may_be_empty(n.domain))
      changed = factor(n) || changed;
  return changed;
}

}  // namespace toroid::sched
