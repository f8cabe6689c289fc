// Random well-typed graphs from a seed, for comparing whatever runs graphs with the interpreter.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

struct RandomGraphOptions {
  int nodes = 12;
  bool dynamic_sizes = true;
  bool in_place = true;        // also writes through views; the functionalize pass must run before the interpreter can
  bool mixed_dtypes = true;    // f64, f16, bf16, i64, i32, u8 and bool besides f32
  bool data_dependent = true;  // sizes that only a run tells (nonzero, masked_select), now and then
  bool control_flow = false;   // cond, while_loop and scan, also nested
  bool while_loops = true;     // of control flow: while_loop besides cond and scan
  bool special_values = true;  // NaN and infinities in some inputs, and operations that make them
  bool degenerate = false;     // sizes of 0 (symbols included), operands without dimensions, empty ones whose ranks differ
  // For differences: each float is an f64, and no operation overwrites one element twice.
  bool doubles = false;
  bool complex_numbers = false;  // products, quotients and Fourier transforms of complex numbers between real ones
  bool bad_indices = false;      // one operation may get an index that its dimension does not have; its result is an output
};

// Pointwise operations with broadcasting, reductions, views, joins, indexing, scans, sorts, products, convolutions, pools, norms,
// attention, casts and in-place operations. Values stay moderate, and operations whose result jumps (comparisons, rounding, positions)
// only read values that every evaluation order computes exactly, so that results can be compared with a tolerance. The same seed and
// options give the same graph.
std::unique_ptr<Graph> random_graph(uint64_t seed, const RandomGraphOptions& options = {});

// Gives each parameter the values that its name stands for. random_graph has done so; parsed text holds no data.
void fill_parameters(Graph& g);

// Inputs that fit the graph; symbols get small random values. Inputs named "wild..." hold NaN and infinities besides numbers, bools named
// "bad..." are true at one place or at none; integer inputs are not negative where the dtype has no negative values. `strided`: some of
// them are not row-major in memory.
std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed, bool strided = false);

}  // namespace toroid::graph
