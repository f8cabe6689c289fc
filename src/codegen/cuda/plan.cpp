#include "codegen/cuda/plan.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/check.h"
#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Statement;
using loop::Step;
using loop::StoreMode;

constexpr int kBlock = 256;
constexpr int kWarp = 32;
constexpr int64_t kAccess = 16;             // bytes of the widest access
constexpr int64_t kKept = 64;               // registers that kept values may take
constexpr int64_t kResident = 132 * 2048;   // threads that a large GPU runs at once
constexpr int64_t kInt = int64_t{1} << 31;  // end of the 32-bit indices

bool accesses(const Statement& s) { return s.step == Step::Load || s.step == Step::Store; }

// Do neighbours along a variable access neighbours in memory?
bool is_contiguous(const Statement& s, const Expr& var) {
  if (!accesses(s) || loop::uses_values(s.index)) return false;
  auto c = sym::linear_coefficient(s.index, var);
  return c && *c == Expr(1);
}

// Costs more than keeping its value would.
bool is_heavy(const Statement& s) { return s.step == Step::Load || (s.step == Step::Scalar && s.op >= ScalarOp::Exp); }

int64_t power_of_two(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)))); }

// The variable along which most memory is contiguous; the last one where none is. Scans run in order, a thread a row: not along them.
int choose_fast(const CudaPlan& p, bool scans) {
  int best = -1;
  int64_t most = 0;
  for (size_t v = 0; v < p.domain.vars.size(); ++v) {
    if (scans && p.domain.vars[v].reduction) continue;
    int64_t bytes = 0;
    for (size_t k = 0; k < p.body.steps.size(); ++k) {
      const Statement& s = p.body.steps[k];
      const bool often = p.varies[k] || !loop::has_reduction(p.domain);
      if (is_contiguous(s, p.domain.vars[v].symbol)) bytes += static_cast<int64_t>(size_of(s.dtype)) * (often ? 16 : 1);
    }
    if (best < 0 || bytes >= most) best = static_cast<int>(v), most = bytes;
  }
  return best;
}

// Loads and stores that move `n` neighbours along the vector variable at once.
std::vector<int> packs_of(const CudaPlan& p, int64_t n) {
  std::vector<int> out;
  const Expr& var = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  const sym::Substitution at_zero = [&](const sym::Node& s) { return s.name == var.node()->name ? std::optional<Expr>(0) : std::nullopt; };
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (!is_contiguous(s, var) || !p.on_vector[k] || (s.step == Step::Store && s.mode != StoreMode::Set)) continue;
    if (s.mask >= 0 && p.on_vector[static_cast<size_t>(s.mask)]) continue;
    if (sym::known_multiple(sym::substitute(s.index, at_zero), n)) out.push_back(static_cast<int>(k));
  }
  return out;
}

void choose_vector(CudaPlan& p) {
  if (p.vector_var < 0 || p.shape == CudaPlan::Shape::Columns) return;
  int64_t narrowest = kAccess;
  const Expr& var = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  for (auto& s : p.body.steps)
    if (is_contiguous(s, var)) narrowest = std::min(narrowest, static_cast<int64_t>(size_of(s.dtype)));
  for (int64_t n = std::min<int64_t>(kAccess / narrowest, 8); n > 1; n /= 2) {
    if (!sym::known_multiple(p.extent(p.vector_var), n)) continue;
    std::vector<int> packs = packs_of(p, n);
    if (packs.empty()) continue;
    p.vector = static_cast<int>(n);
    p.packs = std::move(packs);
    return;
  }
}

// What each pass computes, and what it takes from those before; with `keep`, values that are costly to compute again are kept.
void plan_passes(CudaPlan& p, bool keep) {
  p.keeps.clear();
  p.passes.assign(static_cast<size_t>(*std::max_element(p.pass.begin(), p.pass.end())), {});
  std::vector<int> stores, read;
  size_t last = 0;
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (s.step == Step::Load) read.push_back(s.buffer);
    const auto q = static_cast<size_t>(p.pass[k] - 1);
    if (s.step == Step::Reduce)
      p.passes[q].reduces.push_back(static_cast<int>(k));
    else if (s.step == Step::Store && p.varies[k])
      stores.push_back(static_cast<int>(k));
    else
      continue;
    last = std::max(last, q);
  }
  for (int k : stores) {  // a buffer that is read too is written when all has been read
    const bool in_place = std::count(read.begin(), read.end(), p.step(k).buffer) > 0;
    p.passes[in_place ? last : static_cast<size_t>(p.pass[static_cast<size_t>(k)] - 1)].stores.push_back(k);
  }
  std::set<int> computed, kept;
  for (CudaPass& pass : p.passes) {
    std::set<int> steps, reads;
    std::vector<int> work = pass.reduces;
    work.insert(work.end(), pass.stores.begin(), pass.stores.end());
    for (size_t i = 0; i < work.size(); ++i)
      loop::for_each_use(p.step(work[i]), [&](size_t u) {
        const int k = static_cast<int>(u);
        if (!p.varies[u] || p.step(k).step == Step::Reduce || steps.count(k) || reads.count(k)) return;
        if (keep && computed.count(k) && is_heavy(p.step(k))) {
          reads.insert(k);
          kept.insert(k);
        } else {
          steps.insert(k);
          work.push_back(k);
        }
      });
    pass.steps.assign(steps.begin(), steps.end());
    pass.reads.assign(reads.begin(), reads.end());
    computed.insert(steps.begin(), steps.end());
  }
  p.keeps.assign(kept.begin(), kept.end());
}

// `threads`: of a row; 0: as many as suit it.
void plan_rows(CudaPlan& p, int threads) {
  const Expr row = loop::reduction_size(p.domain);
  p.row_threads = threads > 0 ? threads : kBlock;
  if (auto n = row.maybe_constant()) {
    const int64_t vectors = std::max<int64_t>(*n / p.vector, 1);
    if (threads == 0)
      p.row_threads =
          static_cast<int>(vectors <= kWarp ? power_of_two(vectors) : std::clamp<int64_t>(power_of_two((vectors + 3) / 4), kWarp, 1024));
    const int64_t repeats = (vectors + p.row_threads - 1) / p.row_threads;
    plan_passes(p, true);
    int64_t registers = 0;
    for (int k : p.keeps) registers += repeats * p.vector * static_cast<int64_t>(std::max<size_t>(size_of(p.step(k).dtype), 4)) / 4;
    if (*n > 0 && registers <= (p.row_threads > 512 ? kKept / 2 : kKept)) p.repeats = repeats;
  }
  plan_passes(p, p.repeats > 0);
  p.block = std::max(p.row_threads, p.row_threads > kWarp ? 1 : kBlock);
  p.grid = sym::ceil_div(p.rows, p.block / p.row_threads);
}

void plan_columns(CudaPlan& p, bool scans) {
  p.columns = kWarp;
  if (auto n = p.rows.maybe_constant()) p.columns = static_cast<int>(std::min<int64_t>(kWarp, power_of_two(*n)));
  p.row_threads = scans ? 1 : kBlock / p.columns;
  if (auto n = loop::reduction_size(p.domain).maybe_constant())
    p.row_threads = static_cast<int>(std::min<int64_t>(p.row_threads, power_of_two((*n + 1) / 2)));
  p.block = p.columns * p.row_threads;
  plan_passes(p, false);
  p.grid = sym::ceil_div(p.rows, p.columns);
}

void plan_flat(CudaPlan& p) {
  p.rows = sym::floor_div(p.rows, p.vector);  // of vectors
  int loads = 0;
  for (auto& s : p.body.steps) loads += s.step == Step::Load;
  const int64_t vectors = p.rows.maybe_constant().value_or(0);
  for (int n : {4, 2})
    if (p.unroll == 1 && loads * n <= 4 && vectors % (int64_t{n} * p.block) == 0 && vectors >= n * kResident) p.unroll = n;
  p.grid = sym::ceil_div(p.rows, p.block * p.unroll);
}

bool fits_int(const Expr& e) {
  const sym::Bounds b = sym::bounds(e);
  return b.lo >= -kInt && b.hi < kInt;
}

bool needs_wide(const CudaPlan& p) {
  bool wide = !fits_int(loop::space_size(p.domain) * loop::reduction_size(p.domain) + kBlock * kAccess);
  for (auto& s : p.body.steps)
    if (accesses(s) || s.step == Step::Index) wide = wide || (!loop::uses_values(s.index) && !fits_int(s.index));
  return wide;
}

void set_vector_var(CudaPlan& p, int var) {
  p.vector_var = var;
  p.on_vector = var < 0 ? std::vector<bool>(p.body.steps.size(), false)
                        : depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(var)].symbol);
}

}  // namespace

CudaPlan make_points_plan(const loop::Nest& nest, int width) {
  CudaPlan p;
  p.domain = nest.domain;
  p.body = nest.body;
  p.varies.assign(p.body.steps.size(), false);
  p.pass.assign(p.body.steps.size(), 1);
  set_vector_var(p, static_cast<int>(p.domain.vars.size()) - 1);
  if (sym::known_multiple(p.extent(p.vector_var), width)) {
    p.vector = width;
    p.packs = packs_of(p, width);
  }
  p.wide = needs_wide(p);
  return p;
}

CudaPlan make_row_plan(const loop::Nest& nest, size_t outer, int threads) {
  CudaPlan p;
  p.domain = nest.domain;
  p.body = nest.body;
  p.shape = CudaPlan::Shape::Rows;
  for (size_t v = 0; v < p.domain.vars.size(); ++v) {
    p.domain.vars[v].reduction = v >= outer;
    (v < outer ? p.space : p.reduction).push_back(static_cast<int>(v));
  }
  p.varies = loop::varies_over_reduction(p.domain, p.body);
  p.pass = loop::pass_of(p.domain, p.body);
  set_vector_var(p, static_cast<int>(p.domain.vars.size()) - 1);
  choose_vector(p);
  plan_rows(p, threads);
  p.wide = needs_wide(p);
  return p;
}

CudaPlan make_cuda_plan(const loop::Domain& d, const loop::Body& b) {
  CudaPlan p;
  p.domain = d;
  p.body = b;
  simplify(p.domain, p.body);
  p.varies = loop::varies_over_reduction(p.domain, p.body);
  p.pass = loop::pass_of(p.domain, p.body);
  const bool scans = std::any_of(p.body.steps.begin(), p.body.steps.end(), [](auto& s) { return s.step == Step::Scan; });
  const int fast = choose_fast(p, scans);
  for (size_t v = 0; v < p.domain.vars.size(); ++v)
    if (static_cast<int>(v) != fast) (p.domain.vars[v].reduction ? p.reduction : p.space).push_back(static_cast<int>(v));
  if (fast >= 0) (p.domain.vars[static_cast<size_t>(fast)].reduction ? p.reduction : p.space).push_back(fast);
  if (loop::has_reduction(p.domain))
    p.shape = fast >= 0 && p.domain.vars[static_cast<size_t>(fast)].reduction ? CudaPlan::Shape::Rows : CudaPlan::Shape::Columns;
  set_vector_var(p, fast);
  choose_vector(p);
  p.rows = loop::space_size(p.domain);
  p.wide = needs_wide(p);
  switch (p.shape) {
    case CudaPlan::Shape::Flat:
      plan_flat(p);
      break;
    case CudaPlan::Shape::Rows:
      plan_rows(p, 0);
      break;
    case CudaPlan::Shape::Columns:
      plan_columns(p, scans);
  }
  return p;
}

std::string to_string(const CudaPlan& p) {
  constexpr const char* kShapes[] = {"flat", "rows", "columns"};
  std::string out = fmt::format("{}: {} blocks of {} threads, {} a row, vectors of {}", kShapes[static_cast<int>(p.shape)],
                                sym::to_string(p.grid), p.block, p.row_threads, p.vector);
  if (p.unroll > 1) out += fmt::format(", {} a thread", p.unroll);
  if (p.repeats) out += fmt::format(", {} kept a thread", p.repeats);
  out += p.wide ? ", 64-bit indices" : "";
  for (size_t q = 0; q < p.passes.size(); ++q)
    if (!p.passes[q].empty())
      out += fmt::format("; pass {}: {} reduces, {} stores, {} steps, {} kept values read", q + 1, p.passes[q].reduces.size(),
                         p.passes[q].stores.size(), p.passes[q].steps.size(), p.passes[q].reads.size());
  return out + '\n' + loop::to_string(p.domain, p.body);
}

}  // namespace toroid::codegen
