// What the families of random operations share: the pool of values so far, and what is known of each.
#pragma once

#include <random>

#include "graph/random_graph.h"
#include "graph/recorder.h"

namespace toroid::graph {

// A value of the graph that later operations may read.
struct Drawn {
  Tensor t;
  bool exact = false;  // every evaluation order computes it without rounding
  double bound = 0;    // exact: |value| <= bound ...
  double grain = 1;    // ... and a multiple of grain
  bool wild = false;   // may hold NaN or infinities
  bool writable = true;
  int group = -1;  // values that may share memory have the same number
};

class RandomGenerator {
 public:
  RandomGenerator(uint64_t seed, const RandomGraphOptions& options);
  std::unique_ptr<Graph> run();

 private:
  using Exprs = std::vector<Expr>;
  using Family = std::vector<Drawn> (RandomGenerator::*)();

  // --- drawing ---
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int64_t one_in) { return pick(one_in) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& v) {
    return v[static_cast<size_t>(pick(static_cast<int64_t>(v.size())))];
  }
  // What sizes and inputs of files may be called: like loop variables, values, kernels' own names, keywords, or like no name at all.
  std::string name();
  Expr new_size(int64_t least);
  DType dtype();
  DType float_dtype();
  Exprs some_dims(int64_t rank);
  // A dimension of a tensor of that rank; of one without dimensions the one that PyTorch lets it have.
  int64_t some_dim(int64_t rank) { return rank == 0 ? 0 : pick(rank); }
  int64_t least_rank() const { return options_.degenerate ? 0 : 1; }
  static Expr extent_of(const Exprs& sizes, int64_t d) { return sizes.empty() ? Expr(1) : sizes[static_cast<size_t>(d)]; }
  const Drawn& any() { return one_of(pool_); }
  Drawn any_float();  // cast to f32 when it is not a float
  Drawn any_tame();   // a float without NaN and infinities
  Drawn any_exact();  // throws UserError when there is none: the attempt is dropped
  Drawn any_rank(int64_t least, int64_t most);
  Drawn partner(const Drawn& x);                              // a value that broadcasts with x
  Drawn bounded(const Drawn& x);                              // tanh or sigmoid of a tame x
  Tensor index_into(const Exprs& sizes, const Expr& extent);  // i64 values that are valid indices
  Tensor index_along(const Exprs& sizes, int64_t dim);        // the same for gather and scatter: as large as the tensor, smaller, or empty
  Tensor spoiled(const Tensor& at, const Expr& extent);       // one of the indices may be outside of the extent
  Tensor mask_of(const Drawn& x);                             // bool, of x's sizes
  Drawn fresh_input(DType t, const Exprs& sizes, InputKind kind = InputKind::User);

  // --- what is known of results ---
  static Exprs sizes_of(const Tensor& t);
  static Expr numel(const Exprs& sizes);
  Drawn rough(Tensor t, bool wild = false);
  Drawn exact(Tensor t, double bound, double grain, bool wild = false);
  // exact when all of `from` are and `bound` fits; else rough.
  Drawn derived(Tensor t, std::initializer_list<const Drawn*> from, double bound, double grain);
  Drawn view_of(Tensor t, const Drawn& of, bool writable);
  Drawn cast_to(const Drawn& x, DType t);
  Drawn tame(const Drawn& x);
  Drawn as_float(const Drawn& x);

  // --- families ---
  std::vector<Drawn> unary();
  std::vector<Drawn> unary_exact();
  std::vector<Drawn> special();
  std::vector<Drawn> binary();
  std::vector<Drawn> integer();
  std::vector<Drawn> compare();
  std::vector<Drawn> choose();
  std::vector<Drawn> casts();
  std::vector<Drawn> reduce();
  std::vector<Drawn> reduce_exact();
  std::vector<Drawn> softmax();
  std::vector<Drawn> norm();
  std::vector<Drawn> view();
  std::vector<Drawn> strided_view();
  std::vector<Drawn> rearrange();
  std::vector<Drawn> join();
  std::vector<Drawn> pad();
  std::vector<Drawn> index();
  std::vector<Drawn> scatter();
  std::vector<Drawn> scan();
  std::vector<Drawn> order();
  std::vector<Drawn> product();
  std::vector<Drawn> convolution();
  std::vector<Drawn> pool();
  std::vector<Drawn> attention();
  std::vector<Drawn> complex_numbers();
  std::vector<Drawn> create();
  std::vector<Drawn> data_dependent();
  std::vector<Drawn> in_place();
  std::vector<Drawn> in_place_part();
  std::vector<Drawn> control();
  std::vector<Drawn> bad_index();
  std::shared_ptr<Graph> region(const char* name, const std::vector<Drawn>& operands, size_t results, bool loop);

  void attempt();
  Tensor a_row_of(Tensor t);
  void drop_lost_values();
  static void mix(Drawn& d, const Drawn& result);
  // All that may share memory with x now holds parts of the result.
  void wrote(const Drawn& x, const Drawn& result);

  RandomGraphOptions options_;
  std::mt19937_64 random_, names_;  // names have numbers of their own: graphs of a seed differ in nothing else
  std::unique_ptr<Graph> graph_;
  Recorder recorder_;
  Exprs sizes_ = {1, 2, 3, 4, 7};
  std::vector<Drawn> pool_;
  std::vector<Tensor> last_;  // values that only outputs read: their sizes are known to a run alone
  std::vector<Family> families_;
  int groups_ = 0;
  bool wild_ = false;       // this graph has special values
  bool is_region_ = false;  // all inputs are given
};

}  // namespace toroid::graph
