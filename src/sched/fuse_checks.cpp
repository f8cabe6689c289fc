#include "sched/fuse_checks.h"

#include <algorithm>

#include "loop/moments.h"

namespace toroid::sched {

using loop::Body;
using loop::Statement;
using loop::Step;
using program::Node;

int64_t estimate(const Expr& e) {
  if (auto c = e.maybe_constant()) return *c;
  constexpr int64_t kTypical = 64;  // a symbolic size, for scores only
  return sym::evaluate(e, [=](const sym::Node& s) { return std::clamp<int64_t>(kTypical, s.lo, s.hi); });
}

int64_t whole_arrays(const Node& n) {
  return std::count_if(n.body.steps.begin(), n.body.steps.end(), [&](const Statement& s) {
    return (s.step == Step::Load || s.step == Step::Store) && std::all_of(n.domain.vars.begin(), n.domain.vars.end(), [&](auto& v) {
             return v.extent() == Expr(1) || sym::depends_on(s.index, v.symbol);
           });
  });
}

int passes(const Node& n) {
  if (!n.is_loop() || !loop::has_reduction(n.domain)) return 0;
  std::map<int, int> with;
  for (auto& m : loop::find_moments(n.domain, n.body)) with[m.squares] = m.sum;
  const std::vector<int> pass = loop::pass_of(n.body, with);
  const std::vector<bool> varies = loop::varies_over_reduction(n.domain, n.body);
  int most = 1;
  for (size_t k = 0; k < pass.size(); ++k)
    if (const Step step = n.body.steps[k].step; step == Step::Reduce || (step == Step::Store && varies[k])) most = std::max(most, pass[k]);
  return most;
}

bool idles(const Node& n, int workers) {
  constexpr int64_t kSideBySide = 32, kLeastWork = 1 << 15;  // elements
  if (workers == 0 || !loop::has_reduction(n.domain)) return false;
  const bool along = std::all_of(n.body.steps.begin(), n.body.steps.end(), [&](const Statement& s) {
    bool varies = false, next = false;
    for (auto& v : n.domain.vars)
      if (v.reduction && sym::depends_on(s.index, v.symbol))
        varies = true, next = next || sym::linear_coefficient(s.index, v.symbol) == Expr(1);
    return s.step != Step::Load || !varies || next;
  });
  const int64_t rows = estimate(loop::space_size(n.domain)), blocks = along ? rows : (rows + kSideBySide - 1) / kSideBySide;
  return blocks < workers && estimate(loop::reduction_size(n.domain)) * rows / std::max<int64_t>(blocks, 1) >= kLeastWork;
}

bool accumulates(const Body& b) {
  return std::any_of(b.steps.begin(), b.steps.end(),
                     [](const Statement& s) { return s.step == Step::Store && s.mode != loop::StoreMode::Set; });
}

std::vector<int> accumulated_by_point(const loop::Domain& own, const VarMap& map, const loop::Domain& joint, const Body& renamed) {
  bool taken_over = false;
  for (auto& v : own.vars)
    for (auto& j : joint.vars) {
      const Expr* e = map.find(*v.symbol.node());
      taken_over = taken_over || (j.reduction && sym::depends_on(e ? *e : v.symbol, j.symbol));
    }
  const std::vector<bool> varies = loop::varies_over_reduction(joint, renamed);
  std::vector<int> out;
  for (size_t k = 0; k < renamed.steps.size(); ++k)
    if (const Statement& s = renamed.steps[k]; s.step == Step::Store && s.mode != loop::StoreMode::Set)
      if (loop::has_reduction(own) ? varies[k] : taken_over) out.push_back(s.buffer);
  return out;
}
bool accumulates_once(const loop::Domain& joint, const Body& body, const std::vector<int>& by_point) {
  const std::vector<bool> varies = loop::varies_over_reduction(joint, body);
  for (size_t k = 0; k < body.steps.size(); ++k)
    if (body.steps[k].step == Step::Store && !varies[k] && std::count(by_point.begin(), by_point.end(), body.steps[k].buffer)) return true;
  return false;
}

bool scatters_results(const loop::Domain& joint, const Body& reducing, const Body& reader) {
  if (!loop::has_reduction(joint)) return false;
  const std::vector<bool> varies = loop::varies_over_reduction(joint, reducing);
  for (auto& v : joint.vars) {
    if (v.reduction) continue;
    auto steps_by = [&](const Body& b, Step kind, int64_t stride) {
      for (size_t k = 0; k < b.steps.size(); ++k) {
        const Statement& s = b.steps[k];
        if (s.step != kind || (kind == Step::Load && !varies[k])) continue;
        auto c = sym::linear_coefficient(s.index, v.symbol);
        if (c && c->is_const() && (stride == 1 ? c->constant() == 1 : c->constant() > 1)) return true;
      }
      return false;
    };
    if (steps_by(reducing, Step::Load, 1) && steps_by(reducing, Step::Store, 1) && steps_by(reader, Step::Store, 2)) return true;
  }
  return false;
}

}  // namespace toroid::sched
