// What makes a traced graph run: the compiler, or the reference evaluator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/compile_options.h"
#include "graph/graph.h"

namespace toroid::front {

struct BackendOptions {
  CompileOptions options = {};
  Device device = {};                       // where the graph runs
  std::vector<Device> output_devices = {};  // where its outputs belong; empty: there
  std::vector<size_t> donated = {};         // user inputs whose memory a run may write over, where a call gives it up (Storage::donated)
  bool eager = false;                       // of one operation: its program is not kept on disk, which is not worth it for a kernel
  std::vector<std::string> notes = {};      // see compiler::Setup
};

// Runs a graph on its user inputs, which may be on any device: returns its outputs, and writes those inputs that the graph writes.
using Program = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using Backend = std::function<Program(std::unique_ptr<graph::Graph>, const BackendOptions&)>;

// The program on other tensors in place of those (first) that its graph was bound to, each of the same dtype, sizes, strides and device;
// nothing is compiled. Empty where the program holds more of a tensor than its address (folded constants), or its backend cannot.
using OtherTensors = std::span<const std::pair<Tensor, Tensor>>;
Program rebound(const Program& program, OtherTensors others);

// How far tuning the program in the background has come, what it found, or why it failed (option tune_in_background); empty without.
std::string background_tuning(const Program& program);

// The program of a graph, which is compiled when it first runs; errors of that come then.
Program compiled_when_used(const Backend& backend, std::unique_ptr<graph::Graph> g, const BackendOptions& options);

// Whether all ranks of a group compile a graph side by side, as they time it together: where ranks are threads that share a function, none
// may wait for another one's program.
bool is_tuned_together(const graph::Graph& g, const CompileOptions& options);

// "compiled", "reference", and what was registered. UserError with near names for others.
Backend find_backend(const std::string& name);
// Adds or replaces a backend, for the whole process.
void register_backend(const std::string& name, Backend backend);

}  // namespace toroid::front
