// How a loop node becomes a CUDA kernel: which threads take which points, what each pass over a row computes, what stays in registers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/forms.h"
#include "loop/moments.h"
#include "loop/node.h"

namespace toroid::codegen {

// One walk over the reduction variables. Steps are numbers into the plan's body, in order.
struct CudaPass {
  std::vector<int> reduces, stores;  // folded here; stores of values that vary over the reduction
  std::vector<int> checks;           // of such values, which nobody reads
  std::vector<int> steps;            // varying values computed here
  std::vector<int> reads;            // varying values that an earlier pass kept
  bool empty() const { return reduces.empty() && stores.empty() && checks.empty(); }
};

// The sum of exp(x - m) where m is the greatest x: folded together with m, in one pass; when m grows, the sum so far is scaled (M. Milakov,
// N. Gimelshein, "Online normalizer calculation for softmax", 2018). Numbers of steps: two Reduces, and their x.
struct OnlineSum {
  int max, sum, x;
};

struct CudaPlan {
  // Flat: no reduction, a thread takes a few neighbouring points. Rows: neighbouring threads share a row of the reduction. Columns:
  // neighbouring threads take neighbouring rows (vectors of them), and threads `columns` apart share them.
  enum class Shape { Flat, Rows, Columns };

  loop::Domain domain;  // the node's, with variables merged or split so that addresses are simple
  loop::Body body;
  Shape shape = Shape::Flat;
  std::vector<int> space, reduction;  // variables, slowest first: the last runs over neighbouring threads
  int vector_var = -1;                // the variable along which a thread takes neighbours
  int vector = 1;                     // how many: accesses of up to 16 bytes
  std::vector<int> packs;             // loads and stores that move whole vectors
  // Rows, Flat: rows begin anywhere in memory; vectors begin at their first element that is aligned, and what is left at both ends is taken
  // one by one. The index of a row's first element in memory that vectors move.
  std::optional<Expr> unaligned;
  // Flat, then, and pieces of templates: those of `packs` whose rows begin anywhere, by vectors around them (around_text.h) in lanes side
  // by side; and whether neighbours may be behind the end of their row.
  std::vector<int> around;
  int around_lanes = 4;
  bool cut = false;
  int block = 256;      // threads of a block
  int row_threads = 1;  // that fold one row
  int columns = 1;      // threads of a block side by side, in Columns
  int64_t splits = 1;   // blocks that share their rows; the last one to end folds what all have left in scratch memory
  // Flat: loads whose neighbours lie along another variable. A block reads tiles of them along that variable, and goes on along vector_var.
  std::vector<int> tiled;
  int tile_var = -1;
  int tile = 0;         // points of both variables
  int tile_vector = 1;  // neighbours that a thread reads at once
  bool rest = false;    // Flat: the last vector may be cut off
  int64_t repeats = 0;  // vectors of a row that a thread takes and keeps; 0: any number, computed again in each pass
  // Of dynamic shared memory in which a block keeps them, side by side; 0: they stay in registers.
  int64_t kept_bytes = 0;
  int unroll = 1;       // vectors of a thread whose loads are in flight together
  int unroll_var = -1;  // Flat: the variable along which they are neighbours; else they are a block's threads apart
  bool wide = false;    // indices need 64 bits
  Expr rows = 1;        // points of the space variables; Flat and Columns: vectors of them
  Expr grid = 1;        // blocks

  // Rows, where columns are summed (loop::StoreMode::Sum): blocks that take rows in turn, groups of row_threads threads one each; 0: other
  // kernels. Stores of sums; loads that come to shared memory by copies that no thread waits for, as many rows ahead as there are stages:
  // whole rows, and what a row has one of.
  int64_t row_blocks = 0;
  std::vector<int> sums, streamed, numbers;
  int stages = 0;
  int64_t shared_bytes = 0;  // of dynamic shared memory, for both

  int blocks = 0;         // that a multiprocessor should hold at least: fewer registers each. 0: any number
  bool overlaps = false;  // with the kernel before, for whose end it waits
  int faults = -1;        // see CudaLoopTarget
  // Loads that are made before the first pass: of constants before the wait, and what later passes would wait for.
  std::vector<int> early_constants, early;

  std::vector<bool> varies;     // over the reduction
  std::vector<bool> on_vector;  // the value differs between the neighbours
  std::vector<int> pass;
  std::vector<CudaPass> passes;  // [p - 1]; none without reductions
  std::vector<int> keeps;        // steps whose values a thread keeps from one pass to the next
  std::vector<OnlineSum> online;
  std::vector<int> powers;  // exp(x - m) that are only summed, as OnlineSum has them, folded so or not
  // Folded in one pass as well: the mean so far and the squares of the distances to it (B. P. Welford, "Note on a method for calculating
  // corrected sums of squares and products", 1962), those of several threads by T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae
  // and a pairwise algorithm for computing sample variances", 1979.
  std::vector<loop::Moments> moments;

  const loop::Statement& step(int k) const { return body.steps[static_cast<size_t>(k)]; }
  // Whether a step follows from the variables alone, without memory.
  bool is_index_math(int k) const;
  const OnlineSum* online_max(int k) const;           // whose maximum step k is
  const OnlineSum* online_sum(int k) const;           // whose sum
  const loop::Moments* moments_sum(int k) const;      // whose sum step k is
  const loop::Moments* moments_squares(int k) const;  // whose squares
  // Whether step k is folded with another one, which holds its result.
  bool is_folded_with(int k) const { return online_sum(k) || moments_squares(k); }
  int groups() const { return block / row_threads; }
  const Expr& extent(int var) const { return domain.vars[static_cast<size_t>(var)].extent(); }
};

// What a plan leaves open: of Flat loops without tiles, and of Rows.
struct CudaFlatTile {
  int threads = 256;  // of a block
  int vectors = 1;    // of a thread
  bool operator==(const CudaFlatTile&) const = default;
};
template <class Visit>
void fields(CudaFlatTile& t, const Visit& visit) {
  visit("threads", t.threads, kDoubles);
  visit("vectors", t.vectors, kDoubles);
}
struct CudaRowsTile {
  int threads = 32;    // that share a row
  int64_t splits = 1;  // blocks that share their rows
  bool operator==(const CudaRowsTile&) const = default;
};
template <class Visit>
void fields(CudaRowsTile& t, const Visit& visit) {
  visit("threads", t.threads, kDoubles);
  visit("splits", t.splits, kDoubles);
}

struct CudaLoopTarget {
  bool overlaps = false;         // launches can overlap the one before
  std::set<int> constants = {};  // buffers that no kernel writes
  int faults = -1;               // the buffer of kind Faults, where nothing is to be stored once it holds a failure
  // Wishes, for the shape that they are of; a plan has them where it can. Empty: by rule.
  std::optional<CudaFlatTile> flat = {};
  std::optional<CudaRowsTile> rows = {};
};
CudaPlan make_cuda_plan(const loop::Domain& d, const loop::Body& b, const CudaLoopTarget& target);
// Why a loop that stores sums of its rows' columns should not; empty when it should.
std::string cuda_row_sums_refusal(const loop::Domain& d, const loop::Body& b, const CudaLoopTarget& target);
// For pieces of templates, whose domains stay as they are: vectors of up to `width` neighbours along the last variable of a body without
// reductions; and a row that `threads` threads fold and store together, over all variables but the first `outer`.
CudaPlan make_points_plan(const loop::Nest& nest, int width);
// Vectors of `width` neighbours in 4 or 32 lanes side by side, whatever the rows' length. aligned: their first are multiples of `width`.
// whole: none is behind the end.
struct CudaSideBySide {
  bool aligned = true, whole = false;
  int lanes = 4;
};
CudaPlan make_points_plan(const loop::Nest& nest, int width, const CudaSideBySide& how);
// Whether vectors of `width` neighbours are stored side by side, but not all of memory that is moved so is known to be aligned for them.
bool begins_anywhere(const loop::Nest& nest, int width);
CudaPlan make_row_plan(const loop::Nest& nest, size_t outer, int threads);
std::string to_string(const CudaPlan& p);

}  // namespace toroid::codegen
