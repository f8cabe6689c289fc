#include "codegen/cuda/row_sums.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/plan_passes.h"
#include "codegen/cuda/vectors.h"
#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Statement;
using loop::Step;

constexpr int kWarp = 32, kMostThreads = 512;
constexpr int64_t kRegisters = 65536;        // of a multiprocessor
constexpr int64_t kTemporaries = 56;         // registers of a thread beside what it keeps
constexpr int64_t kSummed = 64;              // registers of a thread for sums of columns
constexpr int64_t kMostColumns = 32;         // of a thread
constexpr int64_t kSharedBytes = 200 << 10;  // of Hopper's multiprocessors, beside what folds need
constexpr int64_t kAheadBytes = 64 << 10;    // under way, where shared memory has a row no longer than its first walk takes
constexpr int64_t kPlainBytes = 40 << 10;    // of any multiprocessor, for sums of groups
constexpr size_t kMostNumbers = 8;           // of a row, copied ahead by one thread
constexpr int64_t kBulk = 16;                // bytes of which bulk copies move multiples
constexpr int64_t kLeastWidth = 4;           // bytes that a thread moves at once

bool fits_threads(const CudaPlan& p, int64_t vectors, int threads) {
  const int64_t columns = (vectors + threads - 1) / threads * p.vector;
  return columns <= kMostColumns && columns * static_cast<int64_t>(p.sums.size()) <= kSummed;
}

// Whether a row that is loaded is written over, if at all, by the threads that have it: element by element.
bool keeps_its_row(const CudaPlan& p, const Statement& load) {
  return std::all_of(p.body.steps.begin(), p.body.steps.end(),
                     [&](auto& s) { return s.step != Step::Store || s.buffer != load.buffer || s.index == load.index; });
}

// Loads of whole vectors of a row that lie in memory as bulk copies want them.
void find_streamed(CudaPlan& p) {
  const Expr &row = p.domain.vars[static_cast<size_t>(p.space[0])].symbol,
             &column = p.domain.vars[static_cast<size_t>(p.vector_var)].symbol;
  for (int k : p.packs) {
    const Statement& s = p.step(k);
    const auto bytes = static_cast<int64_t>(size_of(s.dtype));
    if (s.step != Step::Load || s.mask >= 0 || loop::uses_values(s.index) || !sym::depends_on(s.index, row)) continue;
    if (!keeps_its_row(p, s)) continue;
    const Expr start = s.index - column;
    if (sym::depends_on(start, column) || !sym::known_multiple(start, kBulk / bytes) || streamed_bytes(p, k) % kBulk != 0) continue;
    p.streamed.push_back(k);
  }
}

// Loads of what a row has one of. A thread that waited for them would wait as long as rows are under way.
void find_numbers(CudaPlan& p) {
  const std::vector<int> written = loop::buffers_written(p.body);
  for (size_t k = 0; k < p.body.steps.size() && p.numbers.size() < kMostNumbers; ++k) {
    const Statement& s = p.body.steps[k];
    if (s.step != Step::Load || p.varies[k] || s.mask >= 0 || loop::uses_values(s.index)) continue;
    const size_t bytes = size_of(s.dtype);
    if ((bytes != 4 && bytes != 8) || std::count(written.begin(), written.end(), s.buffer) > 0) continue;
    if (sym::depends_on(s.index, p.domain.vars[static_cast<size_t>(p.space[0])].symbol)) p.numbers.push_back(static_cast<int>(k));
  }
}

// Loads that are the same for all rows, which threads keep from the first to the last.
void find_early(CudaPlan& p, const CudaLoopTarget& target) {
  const std::vector<bool> by_row = depends_on_variable(p.domain, p.body, p.domain.vars[static_cast<size_t>(p.space[0])].symbol);
  const std::vector<int> written = loop::buffers_written(p.body);
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (s.step != Step::Load || !p.varies[k] || by_row[k] || s.mask >= 0 || loop::uses_values(s.index)) continue;
    if (std::count(written.begin(), written.end(), s.buffer) > 0) continue;
    (p.overlaps && target.constants.count(s.buffer) ? p.early_constants : p.early).push_back(static_cast<int>(k));
  }
}

// Registers of a thread.
int64_t registers(const CudaPlan& p) {
  int64_t sum = kTemporaries + p.repeats * p.vector * static_cast<int64_t>(p.sums.size());
  for (int k : p.keeps) sum += p.repeats * registers_of(p, k);
  return sum;
}

// Whether blocks of so many threads have registers and shared memory for what they keep. Measured on an H200: more bytes under way than
// kAheadBytes do not help, and three stages of rows of 32 KB take a fifth longer than two or four, for a reason that is not known.
bool fits_block(CudaPlan& p, int threads) {
  p.block = threads;
  p.stages = 0;
  const int64_t columns = loop::reduction_size(p.domain).constant();
  const int64_t groups_bytes = p.groups() > 1 ? p.groups() * columns * static_cast<int64_t>(sizeof(float)) : 0;
  const bool once = reads_rows_once(p);
  for (int stages = 4; stages >= 2 && p.stages == 0 && !p.streamed.empty(); stages -= once ? 2 : 1)
    if (stages * p.groups() * stage_bytes(p) <= (once && stages > 2 ? kAheadBytes : kSharedBytes)) p.stages = stages;
  if (!p.streamed.empty() && p.stages == 0) return false;
  p.shared_bytes = std::max(p.stages * p.groups() * stage_bytes(p), groups_bytes);
  return p.shared_bytes <= (p.stages > 0 ? kSharedBytes : kPlainBytes) && registers(p) * threads <= kRegisters;
}

// Threads keep all that a row's later walks need, where they have the registers; else shared memory has the row until its end.
bool fits(CudaPlan& p) {
  for (const Keep keep : {Keep::All, Keep::Costly}) {
    plan_passes(p, keep);
    for (int threads = kMostThreads; threads >= (keep == Keep::All ? kMostThreads / 2 : kMostThreads / 4); threads /= 2)
      if (threads >= p.row_threads && (threads < kMostThreads || p.row_threads >= kMostThreads / 4) && fits_block(p, threads)) return true;
  }
  return false;
}

}  // namespace

int64_t streamed_bytes(const CudaPlan& p, int load) {
  return loop::reduction_size(p.domain).constant() * static_cast<int64_t>(size_of(p.step(load).dtype));
}

int64_t stage_bytes(const CudaPlan& p) {
  int64_t sum = 0;
  for (int k : p.streamed) sum += streamed_bytes(p, k);
  return sum;
}

bool reads_rows_once(const CudaPlan& p) {
  const auto is_streamed = [&](int k) { return std::count(p.streamed.begin(), p.streamed.end(), k) > 0; };
  return std::all_of(p.passes.begin() + 1, p.passes.end(),
                     [&](auto& pass) { return std::none_of(pass.steps.begin(), pass.steps.end(), is_streamed); });
}

void take_row_sums(CudaPlan& p) {
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    Statement& s = p.body.steps[k];
    if (!loop::stores_sum(s)) continue;
    TOROID_CHECK(p.domain.vars.size() == 2 && !p.domain.vars[0].reduction && p.domain.vars[1].reduction,
                 "sums of columns in a loop of {} variables", p.domain.vars.size());
    p.row_blocks = loop::sums_of_column(s);
    TOROID_CHECK(p.row_blocks > 0, "sums of columns at {}", sym::to_string(s.index));
    s.index = p.domain.vars[1].symbol;
  }
}

std::string plan_row_sums(CudaPlan& p, const CudaLoopTarget& target) {
  if (p.shape != CudaPlan::Shape::Rows) return "neighbours in memory are those of columns";
  if (p.space.size() != 1 || p.reduction.size() != 1 || p.domain.vars.size() != 2) return "its rows or columns lie in memory in parts";
  const auto columns = loop::reduction_size(p.domain).maybe_constant(), rows = p.rows.maybe_constant();
  if (!columns || !rows) return "its sizes are open";
  for (size_t k = 0; k < p.body.steps.size(); ++k) {
    const Statement& s = p.body.steps[k];
    if (loop::stores_sum(s)) p.sums.push_back(static_cast<int>(k));
    if (s.step == Step::Load && p.on_vector[k] && p.vector * static_cast<int64_t>(size_of(s.dtype)) < kLeastWidth)
      return "its rows begin anywhere in memory";
  }
  const int64_t vectors = *columns / p.vector;
  p.row_threads = kWarp;
  while (p.row_threads < kMostThreads && !fits_threads(p, vectors, p.row_threads)) p.row_threads *= 2;
  if (!fits_threads(p, vectors, p.row_threads)) return "a block has no registers for so many columns";
  if (vectors < p.row_threads / 2) return "its rows are short";
  p.repeats = (vectors + p.row_threads - 1) / p.row_threads;
  p.grid = p.row_blocks;
  p.blocks = 1;
  find_early(p, target);
  if (target.overlaps) find_streamed(p);
  if (!p.streamed.empty()) find_numbers(p);
  if (fits(p)) return "";
  p.streamed.clear(), p.numbers.clear();
  return fits(p) ? "" : "a block has no registers for what it keeps of rows";
}

}  // namespace toroid::codegen
