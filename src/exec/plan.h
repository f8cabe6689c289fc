// An executable: a flat list of steps over numbered buffers. It is data; running it binds sizes, places buffers and calls kernels.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "extern/library_call.h"
#include "tensor/dispatch.h"

namespace toroid::exec {

enum class BufferRole : uint8_t { Input, Constant, Temporary, Output };

struct BufferPlan {
  std::string name;
  DType dtype = DType::F32;
  Expr numel = 1;
  BufferRole role = BufferRole::Temporary;
  Tensor data;  // Constant
};

using KernelFunction = void (*)(void* const* bufs, const int64_t* params, int64_t begin, int64_t end, int thread);

// One kernel launch. bufs holds the buffers in order, then the scratch memory; tasks are split over the threads of the pool. The first 8
// bytes of each thread's scratch are -1 when the launch begins.
struct Launch {
  std::string name;
  KernelFunction function = nullptr;
  std::shared_ptr<const void> code;  // keeps the function alive
  std::vector<int> buffers;
  std::vector<Expr> params;
  Expr tasks = 1;
  Expr scratch_bytes_per_thread = 0;
  bool serial = false;
  Expr bytes = 0, flops = 0;  // what it must move and compute, for reports
};

// A call on whole tensors (a library or reference implementation). It returns its results; they are copied to `outputs`.
struct HostCall {
  std::string name;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&, const std::function<Expr(const Expr&)>& resolve)> function;
  struct View {
    int buffer = -1;
    DType dtype = DType::F32;
    Expr offset = 0;
    std::vector<Expr> sizes, strides;
  };
  std::vector<View> inputs, outputs;
};

// A prepared call of a library, with threads of its own.
struct LibraryCall {
  std::string name;
  std::shared_ptr<const external::LibraryCall> call;
  std::vector<int> buffers;  // in the order of the call's
};

using StepPlan = std::variant<Launch, HostCall, LibraryCall>;

struct InputPlan {
  std::string name;
  TensorType type;
  int buffer = -1;
  int user = -1;  // position among the caller's arguments; -1: bound to `data`
  Tensor data;    // parameters, buffers and constants
  bool mutated = false;
};

struct OutputPlan {
  int buffer = -1;  // -1: None or a literal, or a mutation that the steps already made in place
  TensorType type;
  int mutates = -1;  // input that takes the contents
};

struct Plan {
  bool record = false;  // replay the launches of a call as one; plans with other steps run step by step
  std::vector<BufferPlan> buffers;
  std::vector<StepPlan> steps;
  std::vector<InputPlan> inputs;
  std::vector<OutputPlan> outputs;
  std::vector<sym::Relation> guards;
  std::vector<std::pair<Expr, bool>> symbols;  // with whether the run determines them (unbacked)
};

// Offsets of temporaries in one arena, by first-fit over live ranges: no two buffers that are live at once overlap. Sizes in bytes.
struct LiveRange {
  int64_t bytes = 0;
  int first = 0, last = 0;  // steps, inclusive
};
struct Arena {
  std::vector<int64_t> offsets;  // -1 for an empty range
  int64_t bytes = 0;
};
Arena place(const std::vector<LiveRange>& ranges);

}  // namespace toroid::exec
