#include "codegen/cuda/plan.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <utility>

#include "base/check.h"
#include "codegen/cuda/plan_passes.h"
#include "codegen/cuda/row_sums.h"
#include "codegen/cuda/vectors.h"
#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Reduction;
using loop::Statement;
using loop::Step;

constexpr int kBlock = 256, kWarp = 32;
constexpr int kLongBlock = 512;              // of rows that do not fit registers, and of columns
constexpr int64_t kKept = 64;                // registers that kept values may take
constexpr int64_t kKeptAtEase = 16;          // so many leave room for other blocks
constexpr int64_t kKeptByThree = 32;         // by three large blocks on a multiprocessor: what spills then costs less than two blocks
constexpr int64_t kProcessors = 132;         // of a large GPU
constexpr int64_t kThreads = 2048;           // that each of them runs at once
constexpr int64_t kSharing = 1536;           // the same of threads that share rows: 42 registers each
constexpr int64_t kFolding = 1024;           // and of those that fold columns: 64, as spilled values cost up to half the time
constexpr int64_t kFolds = 16, kLoads = 24;  // registers of those for what columns fold, and for what is loaded meanwhile
constexpr int64_t kFoldedVector = 4;  // columns of a thread: of 8 so few rows are on their way that sums take up to 1.6 times as long
constexpr int64_t kResident = kProcessors * kThreads;
constexpr int64_t kLeastRepeats = 4;        // vectors of a split row that a thread takes
constexpr int64_t kUnknownRow = 1 << 16;    // vectors of a row whose length the run tells, where few rows suggest long ones
constexpr int64_t kInt = int64_t{1} << 31;  // end of the 32-bit indices

int64_t power_of_two(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)))); }

// Space variables with long strides first: blocks that run at one time touch memory that lies together. Those along which a store stays
// within one of L2's sectors come last, in its order: a warp that writes parts of many sectors writes each of them several times.
void sort_space(CudaPlan& p) {
  constexpr int64_t kSector = 32;  // bytes
  std::vector<int64_t> stride(p.domain.vars.size(), 0), within(p.domain.vars.size(), kSector);
  for (int v : p.space)
    for (auto& s : p.body.steps) {
      if (!accesses(s)) continue;
      const auto c = sym::linear_coefficient(s.index, p.domain.vars[static_cast<size_t>(v)].symbol);
      if (!c || !c->is_const()) return;
      const int64_t bytes = std::abs(c->constant()) * static_cast<int64_t>(size_of(s.dtype));
      stride[static_cast<size_t>(v)] += bytes;
      if (s.step == Step::Store && bytes > 0) within[static_cast<size_t>(v)] = std::min(within[static_cast<size_t>(v)], bytes);
    }
  std::stable_sort(p.space.begin(), p.space.end(), [&](int a, int b) {
    const auto key = [&](int v) { return std::pair(within[static_cast<size_t>(v)], stride[static_cast<size_t>(v)]); };
    return key(a) > key(b);
  });
}

// Threads that each multiprocessor runs at once where several fold parts of one result.
int64_t sharing(const CudaPlan& p) { return p.shape == CudaPlan::Shape::Columns ? kFolding : kSharing; }

// Few rows that are long enough: several blocks fold parts of each. `rows` of a block, `vectors` of a row.
void choose_splits(CudaPlan& p, int64_t rows, const Expr& vectors) {
  const auto all = p.rows.maybe_constant();
  if (!all || *all == 0 || !has_one_pass(p)) return;
  const int64_t blocks = (*all + rows - 1) / rows, wanted = kProcessors * (sharing(p) / p.block) / blocks;
  const int64_t most = vectors.maybe_constant().value_or(kUnknownRow) / (int64_t{p.row_threads} * kLeastRepeats);
  if (wanted < 3 || most < 2) return;
  p.splits = std::min(wanted, most);
  p.repeats = 0;
}

// How many threads should share a row of so many vectors.
int choose_row_threads(const CudaPlan& p, int64_t vectors) {
  const int64_t each = p.vector > 1 ? 4 : 16;  // vectors of a thread
  int64_t most = vectors <= kWarp ? power_of_two(vectors) : std::clamp<int64_t>(power_of_two((vectors + each - 1) / each), kWarp, 1024);
  const int64_t rows = p.rows.maybe_constant().value_or(kResident);
  while (most > kWarp && most < 512 && most < vectors && 2 * most * rows <= kResident) most *= 2;
  return static_cast<int>(most);
}

// Registers of a thread for what it keeps between passes.
int64_t kept_registers(const CudaPlan& p) {
  if (p.kept_bytes > 0) return 0;
  int64_t sum = 0;
  for (int k : p.keeps) sum += p.repeats * registers_of(p, k);
  return sum;
}

// Whether `threads` threads, in blocks of so many that their registers suffice, can keep a row from pass to pass: then they do.
bool keep_row(CudaPlan& p, int64_t vectors, int threads, int64_t registers) {
  plan_passes(p, Keep::Costly);
  p.repeats = (vectors + threads - 1) / threads;
  if (kept_registers(p) > registers || p.repeats > kKept) {
    p.repeats = 0;
    return false;
  }
  p.row_threads = threads;
  return true;
}

// How many blocks each multiprocessor gets where all can run at once; 0 where they cannot.
int64_t blocks_at_once(const CudaPlan& p) {
  const int64_t grid = p.grid.maybe_constant().value_or(kResident);
  return grid * p.block <= kResident ? (grid + kProcessors - 1) / kProcessors : 0;
}

// Registers that a thread can use for what it keeps where so many blocks share a multiprocessor.
int64_t registers_beside(const CudaPlan& p, int64_t blocks) {
  static constexpr int64_t kFile = 65536, kTemporaries = 24;
  return std::min(kFile / (blocks * p.block) - kTemporaries, kKept);
}

// Where all blocks run at once nothing hides how long memory takes: loads that could be made before others have come are.
void choose_early(CudaPlan& p, const CudaLoopTarget& target) {
  const int64_t blocks = blocks_at_once(p);
  if (p.repeats == 0 || blocks == 0) return;
  const std::vector<int> written = loop::buffers_written(p.body);
  std::set<int> now;
  for (const CudaPass& pass : p.passes) {
    for (int k : pass.steps) {
      const Statement& s = p.step(k);
      if (s.step != Step::Load || s.mask >= 0 || loop::uses_values(s.index) || std::count(written.begin(), written.end(), s.buffer))
        continue;
      if (p.overlaps && target.constants.count(s.buffer))
        p.early_constants.push_back(k);
      else if (!now.empty() && !now.count(k))
        p.early.push_back(k);
    }
    if (now.empty()) now.insert(pass.steps.begin(), pass.steps.end());
  }
  plan_passes(p, Keep::Costly);
  while (kept_registers(p) > registers_beside(p, blocks) && !(p.early.empty() && p.early_constants.empty())) {
    (p.early.empty() ? p.early_constants : p.early).pop_back();
    plan_passes(p, Keep::Costly);
  }
}

// How many blocks of a multiprocessor the registers should suffice for: so that all run at once where that was counted on, and as many as
// keep memory busy where rows are kept.
int choose_blocks(const CudaPlan& p) {
  static constexpr int64_t kBusy = 1024;  // threads
  if (p.splits == 1 && p.repeats == 0) return 0;
  if (p.kept_bytes > 0) return 2;
  int64_t blocks = p.splits > 1 ? sharing(p) / p.block : blocks_at_once(p);
  if (blocks == 0 && p.block == kLongBlock && p.repeats > 0 && kept_registers(p) <= kKeptByThree) return 3;
  if (blocks == 0) blocks = kBusy / p.block;
  return blocks > 1 && kept_registers(p) <= registers_beside(p, blocks) ? static_cast<int>(blocks) : 0;
}

// A row that a large block keeps in registers leaves none for a second block, whose memory would be under way while the first one computes.
// Hopper's multiprocessors have shared memory for two.
void keep_in_shared_memory(CudaPlan& p) {
  constexpr int64_t kMost = 112 << 10;
  const bool many = p.rows.maybe_constant().value_or(0) >= 4 * kProcessors;
  if (p.repeats == 0 || p.row_threads <= kLongBlock || p.unaligned || !many) return;
  int64_t bytes = 0;
  for (int k : p.keeps) {
    if (p.vector == 1 || !std::count(p.packs.begin(), p.packs.end(), k)) return;
    bytes += p.repeats * p.row_threads * p.vector * static_cast<int64_t>(size_of(p.step(k).dtype));
  }
  if (bytes > kMost) return;
  p.kept_bytes = bytes;
  p.unroll = 4;
}

// `threads`: of a row; 0: as many as suit it.
void plan_rows(CudaPlan& p, int threads, const CudaLoopTarget& target) {
  const Expr row = loop::reduction_size(p.domain);
  const auto n = row.maybe_constant();
  const int64_t vectors = std::max<int64_t>(n.value_or(0) / p.vector, 1);
  p.row_threads = threads > 0 ? threads : n ? choose_row_threads(p, vectors) : kBlock;
  if (n && *n > 0) keep_row(p, vectors, p.row_threads, p.row_threads > 512 ? kKept / 2 : kKept);
  // While one block waits for its row, others compute: more threads keep less each.
  const bool may_grow = threads == 0 && n && p.row_threads == kBlock && vectors % kLongBlock == 0;
  if (may_grow && (p.repeats == 0 || kept_registers(p) > kKeptAtEase)) keep_row(p, vectors, kLongBlock, kKept);
  const bool is_long = p.row_threads > kLongBlock || p.repeats == 0;
  if (is_long) {  // can it be walked once as it comes?
    const CudaPlan kept = p;
    find_online(p);
    plan_passes(p, Keep::Nothing);
    p.repeats = 0;
    if (!has_one_pass(p) && kept.repeats > 0) p = kept;
  }
  if (p.repeats == 0 && threads == 0) p.row_threads = std::min(p.row_threads, kLongBlock);
  plan_passes(p, p.repeats > 0 ? Keep::Costly : Keep::Nothing);
  p.block = std::max(p.row_threads, p.row_threads > kWarp ? 1 : kBlock);
  const int64_t rows = p.rows.maybe_constant().value_or(kResident);
  while (p.block > std::max(kWarp, p.row_threads) && rows * p.row_threads < 2 * kProcessors * p.block) p.block /= 2;
  if (threads == 0) choose_splits(p, p.block / p.row_threads, sym::floor_div(row, p.vector));
  const int64_t splits = target.rows ? target.rows->splits : 1;
  if (splits > 1 && p.rows.maybe_constant() && n && has_one_pass(p) && splits * p.row_threads * kLeastRepeats <= vectors)
    p.splits = splits, p.repeats = 0;
  if (p.repeats == 0) p.unroll = p.vector > 1 ? 4 : 8;
  p.grid = sym::ceil_div(p.rows, p.block / p.row_threads) * p.splits;
  if (target.overlaps) keep_in_shared_memory(p);
  choose_early(p, target);
}

// Registers of a thread: of what folds a vector of columns; and of what it loads of one row for that.
int64_t fold_registers(const CudaPlan& p) {
  int64_t values = 0;
  for (size_t k = 0; k < p.body.steps.size(); ++k)
    if (p.step(static_cast<int>(k)).step == Step::Reduce) values += (static_cast<int64_t>(size_of(p.body.steps[k].dtype)) + 3) / 4;
  return values * p.vector;
}
int64_t load_registers(const CudaPlan& p) {
  int64_t sum = 0;
  for (size_t k = 0; k < p.body.steps.size(); ++k)
    if (p.body.steps[k].step == Step::Load && p.varies[k]) sum += p.on_vector[k] ? registers_of(p, static_cast<int>(k)) : 1;
  return sum;
}

// Whether a thread folds its rows alone: windows of a pooling, of which there are enough for all threads.
bool rows_are_short(const CudaPlan& p, const Expr& row) {
  constexpr int64_t kMost = 16;
  const auto n = row.maybe_constant(), rows = p.rows.maybe_constant();
  return n && *n > 0 && *n <= kMost && rows && *rows >= kResident / 2;
}

void plan_columns(CudaPlan& p, bool scans) {
  find_online(p);
  plan_passes(p, Keep::Nothing);
  const Expr points = p.rows, row = loop::reduction_size(p.domain);
  const bool splits = has_one_pass(p) && !scans;
  for (int64_t most = scans ? 1 : splits ? kFoldedVector : kMostVector;; most /= 2) {
    choose_vector(p, most);
    p.rows = sym::floor_div(points, p.vector);
    p.columns = kWarp;
    const auto rows = p.rows.maybe_constant();
    if (rows) p.columns = static_cast<int>(std::min<int64_t>(p.columns, power_of_two(*rows)));
    const bool fits = !splits || fold_registers(p) <= kFolds;
    if (p.vector == 1 || (fits && (splits || !rows || *rows / p.columns * kLongBlock > kResident / 3))) break;
  }
  p.row_threads = scans ? 1 : kLongBlock / p.columns;
  if (auto n = row.maybe_constant(); n && !scans)
    p.row_threads = static_cast<int>(std::clamp<int64_t>(power_of_two((*n + 1) / 2), kWarp / p.columns, p.row_threads));
  const bool is_short = !scans && rows_are_short(p, row);
  if (is_short) p.row_threads = 1, p.columns = kBlock;
  p.block = p.columns * p.row_threads;
  if (splits && !is_short) choose_splits(p, p.columns, row);
  if (!scans) p.unroll = is_short ? static_cast<int>(row.constant()) : p.vector > 1 ? 4 : 8;
  while (p.splits > 1 && p.unroll > 1 && p.unroll * load_registers(p) > kLoads) p.unroll /= 2;
  p.grid = sym::ceil_div(p.rows, p.columns) * p.splits;
}

// A variable such that what some load takes along the vector variable is the same for all its values: a bias, for its rows. A thread that
// takes several of them reads that once.
int choose_unroll_var(const CudaPlan& p, int64_t n) {
  for (int v : p.space) {
    if (v == p.vector_var || !sym::known_multiple(p.extent(v), n)) continue;
    const std::vector<bool> differs = depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(v)].symbol);
    for (int k : p.packs)
      if (p.step(k).step == Step::Load && !differs[static_cast<size_t>(k)]) return v;
  }
  return -1;
}

// Loads that would step through memory while stores go along it (transposes).
bool plan_tiles(CudaPlan& p) {
  static constexpr int64_t kLeastExtent = 16, kSharedBytes = 40 << 10;
  const Expr& fast = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  const std::vector<bool> straight = contiguous_along(p, fast);
  auto is_short = [](const Expr& e) { return e.maybe_constant().value_or(kLeastExtent) < kLeastExtent; };
  for (int v : p.space) {
    if (v == p.vector_var || is_short(p.extent(v)) || is_short(p.extent(p.vector_var))) continue;
    const std::vector<bool> across = contiguous_along(p, p.domain.vars[static_cast<size_t>(v)].symbol);
    const std::vector<bool> on_tile = depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(v)].symbol);
    auto is_whole = [&](int mask) {  // the same for all of a tile, and known before anything is loaded
      return mask < 0 || (!p.on_vector[static_cast<size_t>(mask)] && !on_tile[static_cast<size_t>(mask)] && p.is_index_math(mask));
    };
    std::vector<int> loads;
    int64_t bytes = 0, widest = 1;
    for (size_t k = 0; k < p.body.steps.size(); ++k) {
      const Statement& s = p.body.steps[k];
      if (s.step != Step::Load || !across[k] || straight[k] || !is_whole(s.mask) || loop::uses_values(s.index) || !p.on_vector[k]) continue;
      loads.push_back(static_cast<int>(k));
      widest = std::max(widest, static_cast<int64_t>(size_of(s.dtype)));
    }
    const int tile = widest > 4 ? 32 : 64;
    for (int k : loads) bytes += int64_t{tile} * (tile + 4) * static_cast<int64_t>(size_of(p.step(k).dtype));
    if (loads.empty() || bytes > kSharedBytes) continue;
    p.tile_var = v;
    p.tile = tile;
    p.tiled = std::move(loads);
    const int64_t most = std::min<int64_t>(kMostVector, int64_t{tile} * tile / p.block);
    choose_vector(p, most);
    CudaPlan other = p;  // vectors along the other variable
    set_vector_var(other, v);
    choose_vector(other, most);
    const bool all =
        std::all_of(p.tiled.begin(), p.tiled.end(), [&](int k) { return std::count(other.packs.begin(), other.packs.end(), k) > 0; });
    if (all) p.tile_vector = other.vector;
    p.space.erase(std::find(p.space.begin(), p.space.end(), v));
    p.space.insert(p.space.end() - 1, v);
    p.grid = 1;
    for (int at : p.space) p.grid = p.grid * (at == v || at == p.vector_var ? sym::ceil_div(p.extent(at), tile) : p.extent(at));
    p.rows = p.grid;
    return true;
  }
  return false;
}

// Stores that would step through memory while loads go along it: the other way round, with all of these loads through tiles.
bool plan_tiled_stores(CudaPlan& p) {
  const Expr& fast = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  const std::vector<bool> straight = contiguous_along(p, fast);
  const auto is_store = [&](size_t k) { return p.body.steps[k].step == Step::Store; };
  for (int v : p.space) {
    if (v == p.vector_var) continue;
    const std::vector<bool> across = contiguous_along(p, p.domain.vars[static_cast<size_t>(v)].symbol);
    bool stores = true;
    for (size_t k = 0; k < across.size(); ++k) stores = stores && (!is_store(k) || (across[k] && !straight[k]));
    if (!stores) continue;
    CudaPlan other = p;
    other.space.erase(std::find(other.space.begin(), other.space.end(), v));
    other.space.push_back(v);
    set_vector_var(other, v);
    choose_vector(other, kMostVector);
    if (!plan_tiles(other) || other.tile_var != p.vector_var) continue;
    bool all = true;
    for (size_t k = 0; k < straight.size(); ++k) {
      const bool steps = p.body.steps[k].step == Step::Load && straight[k] && other.on_vector[k];
      all = all && (!steps || std::count(other.tiled.begin(), other.tiled.end(), static_cast<int>(k)) > 0);
    }
    if (!all) continue;
    p = std::move(other);
    return true;
  }
  return false;
}

void plan_flat(CudaPlan& p, const std::optional<CudaFlatTile>& wish) {
  if (p.vector_var >= 0 && (plan_tiles(p) || plan_tiled_stores(p))) return;
  if (wish) p.block = wish->threads;
  if (p.vector_var >= 0) choose_unaligned_rows(p);
  if (p.unaligned) {
    const Expr& row = p.extent(p.vector_var);
    p.rows = sym::floor_div(p.rows, row) * (sym::floor_div(row, p.vector) + Expr(2));
    p.grid = sym::ceil_div(p.rows, p.block);
    return;
  }
  p.rest = p.vector > 1 && !sym::known_multiple(p.extent(p.vector_var), p.vector);
  p.rows = p.rest ? sym::ceil_div(p.rows, p.vector) : sym::floor_div(p.rows, p.vector);  // of vectors
  const int64_t vectors = p.rows.maybe_constant().value_or(0);
  for (int n : wish ? std::vector{wish->vectors} : std::vector{4, 2}) {
    if (p.unroll > 1 || n == 1 || (!wish && vectors < n * kResident)) continue;
    p.unroll_var = choose_unroll_var(p, n);
    if (p.unroll_var >= 0) p.unroll = n;
  }
  // While one vector's arithmetic is done, the next one's memory is under way.
  const bool heavy = std::any_of(p.body.steps.begin(), p.body.steps.end(), [](auto& s) { return s.step == Step::Scalar && is_heavy(s); });
  const int apart = wish ? wish->vectors : heavy && vectors >= 2 * kResident ? 2 : 1;
  if (p.unroll == 1 && vectors > 0 && vectors % (apart * p.block) == 0) p.unroll = apart;
  if (p.unroll_var >= 0) p.rows = sym::floor_div(p.rows, p.unroll);
  p.grid = sym::ceil_div(p.rows, p.unroll_var >= 0 ? p.block : p.block * p.unroll);
}

bool fits_int(const Expr& e) {
  const sym::Bounds b = sym::bounds(e);
  return b.lo >= -kInt && b.hi < kInt;
}

bool needs_wide(const CudaPlan& p) {
  bool wide = !fits_int(loop::space_size(p.domain) * loop::reduction_size(p.domain) + kBlock * kAccess);
  for (auto& s : p.body.steps)
    if (accesses(s) || s.step == Step::Index || s.step == Step::Check) wide = wide || (!loop::uses_values(s.index) && !fits_int(s.index));
  return wide;
}

}  // namespace

bool CudaPlan::is_index_math(int k) const {
  const Statement& s = step(k);
  if (s.step != Step::Scalar && s.step != Step::Index) return false;
  bool all = true;
  loop::for_each_use(s, [&](size_t use) { all = all && is_index_math(static_cast<int>(use)); });
  return all;
}

const OnlineSum* CudaPlan::online_max(int k) const {
  const auto at = std::find_if(online.begin(), online.end(), [&](auto& o) { return o.max == k; });
  return at == online.end() ? nullptr : &*at;
}

const OnlineSum* CudaPlan::online_sum(int k) const {
  const auto at = std::find_if(online.begin(), online.end(), [&](auto& o) { return o.sum == k; });
  return at == online.end() ? nullptr : &*at;
}

const loop::Moments* CudaPlan::moments_sum(int k) const {
  const auto at = std::find_if(moments.begin(), moments.end(), [&](auto& m) { return m.sum == k; });
  return at == moments.end() ? nullptr : &*at;
}

const loop::Moments* CudaPlan::moments_squares(int k) const {
  const auto at = std::find_if(moments.begin(), moments.end(), [&](auto& m) { return m.squares == k; });
  return at == moments.end() ? nullptr : &*at;
}

namespace {

CudaPlan points_of(const loop::Nest& nest) {
  CudaPlan p;
  p.domain = nest.domain;
  p.body = nest.body;
  p.varies.assign(p.body.steps.size(), false);
  p.pass.assign(p.body.steps.size(), 1);
  set_vector_var(p, static_cast<int>(p.domain.vars.size()) - 1);
  p.wide = needs_wide(p);
  return p;
}

}  // namespace

CudaPlan make_points_plan(const loop::Nest& nest, int width) {
  CudaPlan p = points_of(nest);
  if (sym::known_multiple(p.extent(p.vector_var), width)) {
    p.vector = width;
    p.packs = packs_of(p, width);
  }
  return p;
}

CudaPlan make_points_plan(const loop::Nest& nest, int width, const CudaSideBySide& how) {
  CudaPlan p = points_of(nest);
  p.vector = width;
  p.cut = !how.whole;
  p.around_lanes = how.lanes;
  p.packs = packs_of(p, 1);
  const std::vector<int> aligned = how.aligned && how.whole ? packs_of(p, width) : std::vector<int>();
  std::set_difference(p.packs.begin(), p.packs.end(), aligned.begin(), aligned.end(), std::back_inserter(p.around));
  return p;
}

bool begins_anywhere(const loop::Nest& nest, int width) {
  const CudaPlan p = points_of(nest);
  const std::vector<int> all = packs_of(p, 1);
  const bool stores = std::any_of(all.begin(), all.end(), [&](int k) { return p.step(k).step == Step::Store; });
  return stores && (!sym::known_multiple(p.extent(p.vector_var), width) || packs_of(p, width).size() < all.size());
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
  choose_vector(p, kMostVector);
  plan_rows(p, threads, {});
  p.wide = needs_wide(p);
  return p;
}

namespace {

// A loop's plan as far as its shape and its vectors.
CudaPlan shaped(const loop::Domain& d, const loop::Body& b, const CudaLoopTarget& target) {
  CudaPlan p;
  p.domain = d;
  p.body = b;
  const std::vector<int> read = loop::buffers_read(b), written = loop::buffers_written(b);
  p.overlaps =
      target.overlaps && std::none_of(read.begin(), read.end(), [&](int r) { return std::count(written.begin(), written.end(), r) > 0; });
  p.faults = target.faults;
  take_row_sums(p);
  simplify(p.domain, p.body);
  p.varies = loop::varies_over_reduction(p.domain, p.body);
  p.pass = loop::pass_of(p.domain, p.body);
  find_powers(p);
  const bool scans = std::any_of(p.body.steps.begin(), p.body.steps.end(), [](auto& s) { return s.step == Step::Scan; });
  const int fast = choose_fast(p, scans);
  for (size_t v = 0; v < p.domain.vars.size(); ++v)
    if (static_cast<int>(v) != fast) (p.domain.vars[v].reduction ? p.reduction : p.space).push_back(static_cast<int>(v));
  sort_space(p);
  if (fast >= 0) (p.domain.vars[static_cast<size_t>(fast)].reduction ? p.reduction : p.space).push_back(fast);
  if (loop::has_reduction(p.domain))
    p.shape = fast >= 0 && p.domain.vars[static_cast<size_t>(fast)].reduction ? CudaPlan::Shape::Rows : CudaPlan::Shape::Columns;
  set_vector_var(p, fast);
  if (p.shape != CudaPlan::Shape::Columns) choose_vector(p, kMostVector);
  if (p.shape == CudaPlan::Shape::Rows && p.row_blocks == 0) choose_unaligned_vector(p);
  p.rows = loop::space_size(p.domain);
  p.wide = needs_wide(p);
  return p;
}

}  // namespace

std::string cuda_row_sums_refusal(const loop::Domain& d, const loop::Body& b, const CudaLoopTarget& target) {
  CudaPlan p = shaped(d, b, target);
  return plan_row_sums(p, target);
}

CudaPlan make_cuda_plan(const loop::Domain& d, const loop::Body& b, const CudaLoopTarget& target) {
  CudaPlan p = shaped(d, b, target);
  if (p.row_blocks > 0) {
    const std::string refusal = plan_row_sums(p, target);
    TOROID_CHECK(refusal.empty(), "a loop that sums columns: {}", refusal);
    return p;
  }
  const bool scans = std::any_of(p.body.steps.begin(), p.body.steps.end(), [](auto& s) { return s.step == Step::Scan; });
  if (p.shape == CudaPlan::Shape::Flat) plan_flat(p, target.flat);
  if (p.shape == CudaPlan::Shape::Rows) plan_rows(p, target.rows ? target.rows->threads : 0, target);
  if (p.shape == CudaPlan::Shape::Columns) plan_columns(p, scans);
  // Others gain little, and would have to ask for the division of memory that overlapping kernels share, which leaves them less cache.
  p.overlaps = p.overlaps && p.splits == 1 && blocks_at_once(p) > 0;
  p.blocks = choose_blocks(p);
  return p;
}

std::string to_string(const CudaPlan& p) {
  constexpr const char* kShapes[] = {"flat", "rows", "columns"};
  std::string out = fmt::format("{}: {} blocks of {} threads, {} a row, vectors of {}", kShapes[static_cast<int>(p.shape)],
                                sym::to_string(p.grid), p.block, p.row_threads, p.vector);
  if (p.unroll > 1) out += fmt::format(", {} a thread", p.unroll);
  if (!p.tiled.empty()) out += fmt::format(", {} loads through tiles of {}", p.tiled.size(), p.tile);
  if (p.unaligned) out += ", from the first that is aligned";
  if (p.splits > 1) out += fmt::format(", {} share rows", p.splits);
  if (p.row_blocks > 0) out += fmt::format(", by {} blocks, {} at once in each, whose columns are summed", p.row_blocks, p.groups());
  if (p.stages > 0) out += fmt::format(", {} loads copied ahead in {} stages", p.streamed.size() + p.numbers.size(), p.stages);
  if (!p.online.empty()) out += ", sums of exponentials with their maxima";
  if (!p.moments.empty()) out += ", squares with their means";
  if (p.repeats) out += fmt::format(", {} kept a thread{}", p.repeats, p.kept_bytes ? " in shared memory" : "");
  if (const size_t n = p.early.size() + p.early_constants.size()) out += fmt::format(", {} loads before the first pass", n);
  out += p.wide ? ", 64-bit indices" : "";
  for (size_t q = 0; q < p.passes.size(); ++q)
    if (!p.passes[q].empty())
      out += fmt::format("; pass {}: {} reduces, {} stores, {} steps, {} kept values read", q + 1, p.passes[q].reduces.size(),
                         p.passes[q].stores.size(), p.passes[q].steps.size(), p.passes[q].reads.size());
  return out + '\n' + loop::to_string(p.domain, p.body);
}

}  // namespace toroid::codegen
