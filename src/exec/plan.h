// A plan: a flat list of steps over numbered buffers. It is data: it can be printed, parsed (plan_text.h), stored, read (plan_file.h) and
// checked (verify.h). Kernels and constants are named; a Store has them. Loading (load.h) makes an Executable of both.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/compile_options.h"
#include "base/index_fault.h"
#include "device/cuda/tensor_map.h"
#include "dist/collective.h"
#include "exec/pieces.h"
#include "extern/cublaslt/problem.h"
#include "extern/cudnn/problem.h"
#include "extern/onednn/problem.h"
#include "sym/guard.h"
#include "tensor/dispatch.h"

namespace toroid::exec {

// Handed: a step that runs blocks makes the memory. Faults: a record of what launches found wrong with indices, at most one a plan. Peers:
// what GPUs of a group share (dist/p2p).
enum class BufferRole : uint8_t { Input, Constant, Temporary, Output, Handed, Faults, Peers };

// Whether its memory is there when a plan has been loaded.
constexpr bool is_loaded(BufferRole role) { return role == BufferRole::Constant || role == BufferRole::Peers; }

struct BufferPlan {
  std::string name;
  DType dtype = DType::F32;
  Expr numel = 1;
  BufferRole role = BufferRole::Temporary;
  std::string constant = {};  // Constant: its name in the store; Peers: the group
};

// What a launch on a GPU needs besides; see codegen::KernelText.
struct GpuLaunchPlan {
  int threads = 0;
  int shared_bytes = 0;
  bool overlaps = false;
  Expr scratch_bytes = 0, counters = 0;
  std::vector<device::cuda::TensorMap> tensor_maps;
  bool together = false;
};

// One kernel launch. On the CPU, bufs holds the buffers in order, then the scratch memory; tasks are split over the threads of the pool.
// The first 8 bytes of each thread's scratch are -1 when the launch begins.
struct Launch {
  std::string name;    // of the function in the kernel's object
  std::string kernel;  // its name in the store
  GpuLaunchPlan gpu;   // on a GPU; the tasks are blocks
  std::vector<int> buffers;
  std::vector<bool> written;  // of the buffers: whether the launch writes it; empty: unknown
  std::vector<Expr> params;
  Expr tasks = 1;
  Expr scratch_bytes_per_thread = 0;
  bool serial = false;
  Expr bytes = 0, flops = 0;  // what it must move and compute, for reports
  bool in_place = false;      // writes a buffer that it reads: a second run has another result
  std::string where = {};     // source line of what it computes first, where that is known; as in other steps
};

// A call of an operation's reference implementation, or of an opaque one's function, on whole tensors.
struct HostCall {
  std::string name;
  const ops::Op* op = nullptr;  // its row, which is named in texts
  std::vector<Arg<int>> args;   // tensors are positions in `inputs`, -1 for none; sizes get their values at each call
  struct View {
    int buffer = -1;
    DType dtype = DType::F32;
    Expr offset = 0;
    std::vector<Expr> sizes, strides;
  };
  std::vector<View> inputs, outputs;
  bool on_gpu = false;  // of an opaque operation: its function for GPUs works there, on the stream of the run
  std::string where = {};
};

// A call of a library, which has threads of its own; it is prepared when the plan is loaded.
using LibraryProblem = std::variant<external::OneDnnProblem, external::CublasLtProblem, external::CudnnProblem, PiecesProblem>;
struct LibraryCall {
  std::string name;
  LibraryProblem problem;
  int choice = 0;             // cuBLASLt, cuDNN: the implementation that the library expects to be fastest but for so many others
  std::vector<int> buffers;   // in the order of the prepared call's
  std::string constant = {};  // oneDNN: the name in the store of a `b` that is constant
  std::string where = {};
};

struct Plan;

// What a step of control flow runs: a plan of its own, on operands of the step. Result i is result number results[i] of the plan or, for
// ~j, operand j as it is.
struct Block {
  std::string name;
  std::shared_ptr<const Plan> plan;
  std::vector<int> results;
};

// Runs a block on the operands: the first of two where the predicate holds, else the second; or, without a predicate (buffer -1), that of
// the first condition on sizes that holds, else the last, which the host knows without waiting for anything.
struct Branch {
  std::string name;
  HostCall::View predicate;
  std::vector<sym::Relation> conditions;
  std::vector<HostCall::View> operands, results;
  std::vector<Block> blocks;
  std::string where = {};
};

// Runs blocks[0] on (carried, slice i of each of `slices`, unchanging) over and over; it gives the next carried, and what is stacked in
// the results after the carried ones. While blocks[1] says so of (carried, unchanging), or without it once for each slice.
struct Loop {
  std::string name;
  std::vector<HostCall::View> carried, slices, unchanging, results;
  std::vector<Block> blocks;
  std::string where = {};
};

// What the ranks of a group do together, between two pieces of dense memory that do not overlap; see distributed::Collective. Counts are
// elements and get their values when the step runs.
struct CollectiveCall {
  std::string name;  // of the row
  distributed::Kind kind = distributed::Kind::AllReduce;
  distributed::ReduceOp op = distributed::ReduceOp::Sum;  // of those that reduce
  std::string group;
  int64_t ranks = 1;                         // that the group must have, of AllGather and ReduceScatter
  int root = 0;                              // of Broadcast
  Expr count = 0;                            // of all but AllToAll
  std::vector<Expr> given = {}, taken = {};  // of AllToAll: one a rank
  HostCall::View input = {}, output = {};    // of one dimension
  std::string where = {};
};

using StepPlan = std::variant<Launch, HostCall, LibraryCall, Branch, Loop, CollectiveCall>;

struct InputPlan {
  std::string name;
  TensorType type;
  int buffer = -1;
  int user = -1;              // position among the caller's arguments; -1: bound to a constant, or drawn
  std::string constant = {};  // parameters, buffers and constants: the name in the store
  bool mutated = false;
  std::optional<Expr> draws = {};  // seed and offset of the process's random numbers, of which a run takes this many
  bool donated = false;            // a run may write over its memory once it has been read, where the call gives it up (Storage::donated)
};

struct OutputPlan {
  int buffer = -1;  // -1: None or a literal, or a mutation that the steps already made in place
  TensorType type;
  int mutates = -1;        // input that takes the contents
  std::string where = {};  // source line of what computes it
};

struct Plan {
  // Compiled once, in plan.cpp, as they are long.
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  std::string name;
  Device device;                // of all tensors
  CompileOptions options = {};  // that it was compiled with
  std::string code_for = {};    // what its kernels were compiled for: "avx512", "sm_90a"; empty: anything
  bool record = false;          // replay the launches of a call as one, or as few as its other steps allow
  std::vector<BufferPlan> buffers;
  std::vector<StepPlan> steps;
  std::vector<InputPlan> inputs;
  std::vector<OutputPlan> outputs;
  std::vector<sym::Guard> guards;
  std::vector<std::pair<Expr, bool>> symbols;  // with whether the run determines them (unbacked)
  std::vector<IndexSite> sites;                // that the buffer of role Faults speaks of
};

}  // namespace toroid::exec
