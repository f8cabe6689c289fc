#include "codegen/cpu/plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "base/mutants.h"
#include "codegen/cpu/lane_cost.h"
#include "codegen/passes.h"

namespace toroid::codegen {
namespace {

using loop::Body;
using loop::Domain;
using loop::Statement;
using loop::Step;
using loop::StoreMode;

constexpr int64_t kTaskWork = 4096;            // elements of work that a task should have
constexpr int64_t kScratchLimit = 256 * 1024;  // bytes; larger rows are computed again instead

// Whose result depends on the order of the points: the last reduction variable may be innermost, no other one.
bool is_ordered(const Statement& s) {
  bool position = s.reduction == loop::Reduction::ArgMax || s.reduction == loop::Reduction::ArgMin;
  return s.step == Step::Scan || (s.step == Step::Reduce && position);
}

void choose_inner(KernelPlan& p, int lanes) {
  size_t count = p.domain.vars.size();
  if (count == 0) return;
  bool ordered = std::any_of(p.body.steps.begin(), p.body.steps.end(), is_ordered);
  size_t last_reduction = count;
  for (size_t c = 0; c < count; ++c)
    if (p.domain.vars[c].reduction) last_reduction = c;
  double best = 0;
  for (size_t c = 0; c < count; ++c) {
    // Stores of which several may meet in one element run in nominal order, and so do scans and searches for the first position.
    if (p.serial && c + 1 != count) continue;
    if (ordered && p.domain.vars[c].reduction && c != last_reduction) continue;
    double cost = cost_along(p.domain, p.body, c, std::max(lanes, 1), p.serial);
    if (p.inner < 0 || cost <= best) {
      p.inner = static_cast<int>(c);
      best = cost;
    }
  }
  auto extent = p.domain.vars[static_cast<size_t>(p.inner)].extent().maybe_constant();
  p.lanes = extent && *extent < lanes ? 1 : lanes;
  // Sums down columns are bound by memory: wider vectors take whole pairs of cache lines of each row, or all of a short one.
  constexpr int kWide = 32;
  bool columns = loop::has_reduction(p.domain) && !p.inner_reduces() && p.lanes > 1 && p.body.steps.size() <= 6;
  if (columns && (!extent || *extent >= 4 * kWide)) p.lanes = kWide;
  while (columns && extent && p.lanes < kWide && *extent % (2 * p.lanes) == 0) p.lanes *= 2;
}

// Varying values that pass q needs: from its reduces, stores and checks down, stopping at what an earlier pass keeps.
// Only values of the innermost loop are worth keeping.
void close_pass(KernelPlan& p, size_t q, const std::vector<std::set<int>>& computed, const std::vector<bool>& may_keep) {
  PassPlan& pass = p.passes[q];
  std::set<int> steps(pass.checks.begin(), pass.checks.end()), reads;
  std::vector<int> work = pass.reduces;
  work.insert(work.end(), pass.stores.begin(), pass.stores.end());
  work.insert(work.end(), pass.checks.begin(), pass.checks.end());
  for (size_t i = 0; i < work.size(); ++i) {
    for_each_use(p.step(work[i]), [&](size_t u) {
      int k = static_cast<int>(u);
      if (!p.varies[u] || p.step(k).step == Step::Reduce || steps.count(k) || reads.count(k)) return;
      for (size_t e = 0; may_keep[u] && is_heavy_step(p.step(k)) && e < q; ++e) {
        if (!computed[e].count(k)) continue;
        reads.insert(k);
        auto& keeps = p.passes[e].keeps;
        if (std::find(keeps.begin(), keeps.end(), k) == keeps.end()) keeps.push_back(k);
        if (std::find(p.scratch.begin(), p.scratch.end(), k) == p.scratch.end()) p.scratch.push_back(k);
        return;
      }
      steps.insert(k);
      work.push_back(k);
    });
  }
  pass.steps.assign(steps.begin(), steps.end());
  pass.reads.assign(reads.begin(), reads.end());
}

void plan_passes(KernelPlan& p) {
  assign_work(p.passes, p.body, p.pass, p.varies);
  auto close_all = [&](const std::vector<bool>& may_keep) {
    p.scratch.clear();
    std::vector<std::set<int>> computed(p.passes.size());
    for (auto& pass : p.passes) pass.keeps.clear();
    for (size_t q = 0; q < p.passes.size(); ++q) {
      close_pass(p, q, computed, may_keep);
      computed[q].insert(p.passes[q].steps.begin(), p.passes[q].steps.end());
    }
  };
  int innermost = p.inner_reduces() ? p.inner : p.reduction.back();
  close_all(depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(innermost)].symbol));
  Expr row = loop::reduction_size(p.domain), at = 0;
  p.scratch_at = {0};
  for (int k : p.scratch) {
    Expr bytes = row * static_cast<int64_t>(size_of(p.step(k).dtype)) * (p.inner_reduces() ? 1 : p.lanes);
    at = at + sym::ceil_div(bytes, 64) * 64;
    p.scratch_at.push_back(at);
  }
  if (auto bytes = at.maybe_constant(); bytes && *bytes > kScratchLimit) {
    close_all(std::vector<bool>(p.body.steps.size(), false));
    p.scratch_at = {0};
  }
}

void choose_tile(KernelPlan& p) {
  if (p.inner < 0) return;
  Tile tile = tile_for(p.domain, p.body, static_cast<size_t>(p.inner), p.lanes, p.serial);
  p.tile = tile.var;
  p.staged = std::move(tile.staged);
  if (p.tile >= 0) p.on_tile = std::move(tile.on);
}

// Does a store change what the load reads, or may it, at the same point of another buffer that lies in the same memory?
bool writes_over(const Body& b, const Statement& load) {
  return std::any_of(b.steps.begin(), b.steps.end(),
                     [&](const Statement& s) { return s.step == Step::Store && (s.buffer == load.buffer || s.index == load.index); });
}

// Channels that are shuffled, pairs that are joined: results that lie a few elements apart along the inner variable, with others between.
void choose_weave(KernelPlan& p) {
  constexpr int64_t kMost = 8;
  if (p.lanes == 1 || p.serial || p.tile >= 0 || loop::has_reduction(p.domain)) return;
  const auto extent = p.domain.vars[static_cast<size_t>(p.inner)].extent().maybe_constant();
  if (!extent || *extent < p.lanes || (*extent > kTaskWork && *extent % p.lanes != 0)) return;
  auto fits = [&](const loop::Var& v) {
    const auto apart = v.extent().maybe_constant();
    if (!apart || *apart < 2 || *apart > kMost) return false;
    bool any = false;
    for (auto& s : p.body.steps) {
      // A last vector that overlaps the one before must find what that one found: nothing is written where it is read, and two buffers may
      // be one where their elements are the same.
      if (s.step == Step::Load && writes_over(p.body, s)) return false;
      if (s.step != Step::Store) continue;
      const auto along = sym::linear_coefficient(s.index, v.symbol), across = sym::linear_coefficient(s.index, p.inner_symbol());
      if (!along || !across || *along != Expr(1) || *across != Expr(*apart)) return false;
      if (s.mask >= 0 || s.mode != StoreMode::Set || is_bool(s.dtype)) return false;
      any = true;
    }
    return any;
  };
  for (size_t v = 0; v < p.domain.vars.size(); ++v)
    if (static_cast<int>(v) != p.inner && fits(p.domain.vars[v])) p.weave = static_cast<int>(v);
  if (p.weave >= 0) p.on_tile = depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(p.weave)].symbol);
}

// Chains of functions wait for themselves, one operation after the other: vectors of twice the width are two chains side by side. Only
// where 32 registers hold both.
void choose_width(KernelPlan& p) {
  constexpr int kRegister = 16;
  constexpr int64_t kWide = 2 * kRegister, kChain = 2;
  if (p.lanes != kRegister || p.tile >= 0 || p.weave >= 0 || loop::has_reduction(p.domain)) return;
  if (!sym::known_multiple(p.domain.vars[static_cast<size_t>(p.inner)].extent(), kWide)) return;
  if (std::count_if(p.body.steps.begin(), p.body.steps.end(), is_heavy_step) >= kChain) p.lanes = kWide;
}

// Reductions for each element of a row (poolings over channels-last memory): the last vector may be computed again in part, instead of
// element by element.
void choose_overlap(KernelPlan& p) {
  if (p.lanes == 1 || p.serial || p.crossed || p.tile >= 0 || p.inner_reduces() || p.chunk || p.passes.empty()) return;
  const auto extent = p.domain.vars[static_cast<size_t>(p.inner)].extent().maybe_constant();
  if (!extent || *extent <= p.lanes || *extent % p.lanes == 0) return;
  for (auto& s : p.body.steps) {
    if (s.step == Step::Load && writes_over(p.body, s)) return;
    if (s.step == Step::Store && s.mode != StoreMode::Set) return;
  }
  p.overlaps = true;
}

// Several accumulators hide the latency of an addition, where little else is done.
void choose_unroll(KernelPlan& p) {
  if (p.lanes == 1) return;
  auto extent = p.domain.vars[static_cast<size_t>(p.inner)].extent().maybe_constant();
  for (auto& pass : p.passes) {
    size_t work = pass.steps.size() + 4 * (pass.stores.size() + pass.reads.size());
    for (int k : pass.steps) work += is_heavy_step(p.step(k)) ? 8 : 0;
    bool ordered = std::any_of(pass.reduces.begin(), pass.reduces.end(), [&](int k) { return is_ordered(p.step(k)); });
    if (p.inner_reduces() && !pass.reduces.empty() && !ordered && work <= 6 && (!extent || *extent >= 4 * p.lanes)) pass.unroll = 4;
  }
}

// Scans across memory that one pass computes: a stretch of each row after the other, so that memory is walked along its rows.
void choose_crossing(KernelPlan& p) {
  constexpr int64_t kStretch = 1024, kLeast = 128;  // elements: a page of f32 at a time, less where that leaves threads without work
  constexpr double kTasks = 4;
  constexpr int64_t kCarry = 16;  // bytes, at most: a value and its position
  if (p.inner < 0 || p.inner_reduces() || p.lanes == 1 || p.serial) return;
  std::vector<int> scans;
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (s.step == Step::Scan && p.on_inner[k]) scans.push_back(static_cast<int>(k));
    // What is computed once for all rows would be computed for each.
    bool once = s.step == Step::Reduce || (!p.varies[k] && (s.step == Step::Store || (p.on_inner[k] && is_heavy_step(s))));
    if (once || (s.step == Step::Scan && !p.on_inner[k])) return;
  }
  if (scans.empty()) return;
  p.crossed = true;
  p.scratch = scans;
  const Expr& inner = p.domain.vars[static_cast<size_t>(p.inner)].extent();
  double points = extent_guess(inner);
  for (int v : p.outer) points *= extent_guess(p.domain.vars[static_cast<size_t>(v)].extent());
  int64_t stretch = kStretch;
  while (stretch > kLeast && points < kTasks * static_cast<double>(stretch)) stretch /= 2;
  if (!inner.is_const() || inner.constant() > stretch) p.chunk = stretch;
  p.scratch_at = {0};
  for (size_t i = 0; i < scans.size(); ++i) p.scratch_at.push_back(p.scratch_at.back() + kCarry * (p.chunk ? Expr(p.chunk) : inner));
}

void plan_tasks(KernelPlan& p) {
  Expr outer_points = 1;
  for (int v : p.outer) outer_points = outer_points * p.domain.vars[static_cast<size_t>(v)].extent();
  Expr row = loop::reduction_size(p.domain);
  int64_t row_guess = std::max<int64_t>(static_cast<int64_t>(extent_guess(row)), 1);
  Expr inner = p.inner < 0 ? Expr(1) : p.domain.vars[static_cast<size_t>(p.inner)].extent();
  if (p.weave >= 0) row_guess = p.domain.vars[static_cast<size_t>(p.weave)].extent().constant();
  // Vectors that are woven do not overlap those of another task.
  const bool parts = p.weave < 0 || (inner.is_const() && inner.constant() % p.lanes == 0);
  if (p.inner >= 0 && !p.inner_reduces() && !p.crossed && parts) {
    int64_t step = p.lanes, chunk = (std::max(kTaskWork / row_guess, step) + step - 1) / step * step;
    if (!inner.is_const() || inner.constant() > 2 * chunk) p.chunk = chunk;
  }
  if (p.tile >= 0) {
    outer_points = outer_points * sym::ceil_div(p.domain.vars[static_cast<size_t>(p.tile)].extent(), p.lanes);
    row_guess = p.lanes;
  }
  if (p.chunk) {
    p.tasks = outer_points * sym::ceil_div(inner, p.chunk);
    return;
  }
  int64_t work = static_cast<int64_t>(row_guess) * (p.inner_reduces() ? 1 : static_cast<int64_t>(std::max(extent_guess(inner), 1.0)));
  p.group = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(work, 1));
  if (auto n = outer_points.maybe_constant()) p.group = std::clamp<int64_t>(p.group, 1, std::max<int64_t>(*n, 1));
  p.tasks = sym::ceil_div(outer_points, p.group);
}

}  // namespace

bool may_collide(const Domain& d, const Statement& store, bool over_reduction) {
  if (mutant(Mutant::ParallelScatter)) return false;
  if (loop::uses_values(store.index)) return true;
  if (store.mode == StoreMode::Set) return false;  // two different values for one element have no meaning
  // Injective when every coefficient exceeds what all smaller ones reach together.
  std::vector<std::pair<int64_t, int64_t>> parts;  // coefficient, extent
  for (auto& v : d.vars) {
    if (v.reduction && !over_reduction) continue;
    auto c = sym::linear_coefficient(store.index, v.symbol);
    if (!c || !c->is_const() || c->constant() <= 0 || !v.extent().is_const()) return true;
    parts.emplace_back(c->constant(), v.extent().constant());
  }
  std::sort(parts.begin(), parts.end());
  int64_t reach = 0;
  for (auto [c, n] : parts) {
    if (c <= reach) return true;
    reach += c * (n - 1);
  }
  return false;
}

KernelPlan make_plan(const Domain& d, const Body& b, int lanes, const PlanOptions& options) {
  KernelPlan p;
  p.domain = d;
  p.body = b;
  simplify(p.domain, p.body);
  p.varies = loop::varies_over_reduction(p.domain, p.body);
  p.pass = loop::pass_of(p.domain, p.body);
  for (size_t k = 0; k < p.body.steps.size(); ++k)
    if (p.body.steps[k].step == Step::Store) p.serial = p.serial || may_collide(p.domain, p.body.steps[k], p.varies[k]);
  choose_inner(p, lanes);
  p.on_inner = p.inner < 0 ? std::vector<bool>(p.body.steps.size(), false) : depends_on_variable(p.domain, p.body, p.inner_symbol());
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    // Stores run where their last variable runs.
    if (p.body.steps[k].step == Step::Store && p.inner >= 0) p.on_inner[k] = !p.inner_reduces() || p.varies[k];
  }
  choose_tile(p);
  choose_weave(p);
  if (options.widen) choose_width(p);
  for (size_t v = 0; v < p.domain.vars.size(); ++v)
    if (static_cast<int>(v) != p.inner && static_cast<int>(v) != p.tile && static_cast<int>(v) != p.weave)
      (p.domain.vars[v].reduction ? p.reduction : p.outer).push_back(static_cast<int>(v));
  p.on_tile.resize(p.body.steps.size(), false);
  if (loop::has_reduction(p.domain)) plan_passes(p);
  if (!options.one_task) choose_crossing(p);
  choose_unroll(p);
  if (!options.one_task) plan_tasks(p);
  choose_overlap(p);
  return p;
}

std::string to_string(const KernelPlan& p) {
  auto name = [&](int v) { return sym::to_string(p.domain.vars[static_cast<size_t>(v)].symbol); };
  auto names = [&](const std::vector<int>& vars) {
    std::string out;
    for (int v : vars) out += (out.empty() ? "" : ", ") + name(v);
    return out.empty() ? "none" : out;
  };
  std::string out = fmt::format("tasks {} ({}{}) over {}; inner {} x {} lanes", sym::to_string(p.tasks),
                                p.chunk ? fmt::format("chunks of {}", p.chunk) : fmt::format("groups of {}", p.group),
                                p.serial ? ", serial" : "", names(p.outer), p.inner < 0 ? "none" : name(p.inner), p.lanes);
  if (p.overlaps) out += ", the last overlaps";
  if (p.weave >= 0) out += fmt::format("; weaves {}", name(p.weave));
  if (p.tile >= 0) out += fmt::format("; {} staged loads in tiles over {}", p.staged.size(), name(p.tile));
  if (!p.reduction.empty()) out += (p.crossed ? "; around it " : "; loops ") + names(p.reduction);
  for (size_t q = 0; q < p.passes.size(); ++q) {
    const PassPlan& pass = p.passes[q];
    if (pass.empty()) continue;
    out += fmt::format("; pass {}: {} reduces, {} stores, {} steps", q + 1, pass.reduces.size(), pass.stores.size(), pass.steps.size());
    if (pass.unroll > 1) out += fmt::format(", unroll {}", pass.unroll);
    for (int k : pass.keeps) out += fmt::format(", keeps v{}", k);
    for (int k : pass.reads) out += fmt::format(", reads v{}", k);
  }
  return out + '\n' + loop::to_string(p.domain, p.body);
}

}  // namespace toroid::codegen
