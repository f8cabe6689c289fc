// Prints loop bodies as CUDA C++: whole loop kernels, and the pieces of templates.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/plan.h"
#include "codegen/emit.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

// What a kernel takes, in this order: buffers, scratch, counters, tensor maps, sizes; and the functions that its text needs.
class CudaArguments {
 public:
  // "b0", of type memory_type(dtype)*.
  std::string pointer(int buffer, DType dtype);
  // Its number among the pointers.
  size_t place(int buffer, DType dtype);
  // From now on all pointers are one parameter, in which threads can look: pointers.x[0], a void*.
  void take_together() { together_ = true; }
  void mark_written(int buffer) { written_.insert(buffer); }
  void mark_read(int buffer) { read_.insert(buffer); }
  // Memory of the launch's own (u8* scratch), and zeros that it leaves as zeros (u32* counters): see KernelText.
  void use_scratch(const Expr& bytes) { scratch_bytes_ = bytes; }
  void use_counters(const Expr& count) { counters_ = count; }
  // "map0", a TensorMap.
  std::string tensor_map(device::cuda::TensorMap map);
  // "dim0", of type idx.
  std::string size(const sym::Node& symbol);
  // The size has this name from now on, and is no parameter.
  void name_size(const sym::Node& symbol, const std::string& name);

  // Functions of the prelude that are used, more functions by name, and definitions that follow both.
  void need(const StepEmitter& emitter);
  void need(const std::string& function) { functions_.insert(function); }
  void define(const std::string& text) { definitions_ += text; }

  // The kernel around `body`, whose statements see all names above. `wide`: idx has 64 bits. `blocks`: per multiprocessor, at least.
  // `overlaps`: see KernelText; memory that is read is then not promised to be constant, or the compiler would read it before the body
  // waits.
  KernelText kernel(const std::string& name, const std::string& body, int threads, bool wide, int blocks = 0, bool overlaps = false) const;

 private:
  std::vector<int> buffers_;
  std::vector<DType> types_;  // of buffers_
  std::set<int> written_, read_;
  bool together_ = false;
  std::vector<device::cuda::TensorMap> maps_;
  std::vector<Expr> params_;
  std::vector<std::pair<Expr, std::string>> named_sizes_;
  Expr scratch_bytes_ = 0, counters_ = 0;
  std::set<std::string> functions_;
  std::map<std::string, std::string> helpers_;
  std::string definitions_;
};

// Name of a domain's variable in kernels, whatever its symbol is called: equal loops give equal text.
std::string cuda_variable(size_t position);

constexpr const char* kCudaUnroll = "#pragma unroll";
constexpr const char* kCudaOneByOne = "#pragma unroll 1";

// Parts of a body that can run before it, see CudaWriter::points().
struct CudaEarly {
  std::string members, loads, prefetches;
  int registers = 0;  // that the members of one struct take
};

class CudaWriter {
 public:
  // `name`: of this body among those of the kernel.
  CudaWriter(CudaPlan plan, CudaArguments& arguments, std::string name = "");

  // What the kernel calls its block's number and a buffer's memory instead, from now on.
  void use_block(const std::string& name) { block_ = name; }
  void use_pointer(int buffer, const std::string& name) { named_pointers_[buffer] = name; }
  // Statements of a whole kernel.
  std::string kernel_body();
  // Statements for one vector (plan.vector neighbours), whose variables are in scope by their names; the value of Accumulate at
  // neighbour l is accumulators[l].
  std::string points();
  // The same in parts: `loads`, what can be read from memory before the accumulators are there, into members of structs; and the
  // statements, which return and see the structs. `near`: what only the vector's variable places (a bias); `far`: the rest. prefetches:
  // statements that bring what the loads will read into the L2 cache.
  std::string points(CudaEarly& near, CudaEarly& far);
  // Declarations that stand before the first of a row's vectors, with CudaSideBySide: what each store hands on from vector to vector.
  const std::string& carried() const { return carried_; }
  // Statements that all threads of a block run together for one row, whose variables are in scope by their names. Its elements go to
  // the array `row`, not to `buffer`.
  std::string row(int buffer, const std::string& row);

 private:
  std::string pointer(int buffer, DType dtype);
  std::string symbol(const sym::Node& n);
  void decode(const std::vector<int>& vars, const std::string& flat);

  void emit(int k);
  std::string short_form(int k);
  int argument_of_gelu(int k) const;
  bool is_constant(int k) const;
  void emit_store(int k);
  void emit_vector(const std::vector<int>& steps, const std::function<void()>& each = nullptr);
  std::string store_guard(const loop::Statement& s);
  void load_packs(const std::vector<int>& steps);
  void load_early(int k);
  bool loads_early(int k) const;
  bool placed_by_vector(int k) const;
  void store_packs(const std::vector<int>& steps);
  bool is_packed(int k) const;
  bool is_streamed(int k) const;
  bool is_around(int k) const;
  std::string element(DType t, const std::string& pack) const;
  bool is_kept(int k) const;
  void declare_kept(int k);
  std::string kept(int k) const;
  std::vector<int> all_steps() const;

  void wait();
  void flat();
  void cut_vector();
  void tiles();
  void reduction();
  void row_sums();
  void bring_rows();
  void await_rows();
  void fold_groups(const std::vector<int>& folded);
  void store_sums(int k);
  void store_rows();
  void passes();
  void begin_passes();
  void each_pass();
  void uniform(int q);
  bool uniform_in_lane(int k) const;
  std::vector<int> with_uniform(std::vector<int> steps, const std::vector<int>& reduces) const;
  void write_pass(const CudaPass& pass);
  int open_row(const std::vector<int>& online);
  void find_edges();
  void walk(const CudaPass& pass, const std::vector<int>& folded);
  void write_points(const CudaPass& pass, const std::vector<int>& folded);
  void write_edge(const CudaPass& pass, const std::vector<int>& folded, const std::vector<int>& online);
  void finish(int k);
  void define_folded(int k);
  void share(const std::vector<int>& folded);

  std::string fold_name(int k) const { return fmt::format("Fold{}{}", name_, k); }
  std::string fold_over(int k, ScalarOp op, const std::string& type, DType t);
  DType folded_in(int k) const { return accumulator_type(p_.step(p_.step(k).args[0]).dtype); }
  std::string folded_type(int k) const;
  std::string fold_struct(int k) const;
  int lanes() const;
  void count_point(int k);
  std::string accumulator(int k) const;
  std::string each_lane() const;
  void declare(int k);
  void declare_fold(int k);
  void fold_in(int k);
  std::string result(int k);
  std::string position();
  std::string take();

  CudaPlan p_;
  CudaArguments& arguments_;
  std::string name_;
  StepEmitter e_;
  std::string vector_text_;  // what the vector variable is printed as
  std::string guard_;        // of all stores
  std::string valid_;        // the same, for the whole of the kernel
  std::string block_ = "(idx)blockIdx.x";
  bool at_edge_ = false;        // what is written takes one of the elements at the ends of an unaligned row
  bool folded_groups_ = false;  // of row_sums(): what a row's first fold is followed by has been written
  int64_t kept_before_ = 0;     // bytes of shared memory that kept values have so far
  std::string folds_;
  std::vector<bool> rounded_;                   // steps whose values are rounded to halves before they are used otherwise
  std::set<int> declared_;                      // reductions and scans whose fold is in folds_
  CudaEarly *near_ = nullptr, *far_ = nullptr;  // of points()
  std::string carried_;
  std::map<int, std::string> named_pointers_;
};

}  // namespace toroid::codegen
