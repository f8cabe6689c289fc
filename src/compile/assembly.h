// From a scheduled program to a plan that runs: its kernels' texts, their code, and the memory of constants.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "choice/program.h"
#include "codegen/constant_memory.h"
#include "codegen/kernel_text.h"
#include "compile/debug_folder.h"
#include "compile/model.h"
#include "exec/store.h"
#include "jit/jit.h"

namespace toroid::compiler {

// Constants that have been brought to a device, by where they were.
class MovedConstants {
 public:
  // Brought there now, where that has not been done yet.
  Tensor get(const Tensor& t, const Device& device);
  // Undefined where it has not been brought.
  Tensor find(const Tensor& t);

 private:
  std::mutex mutex_;
  std::vector<std::pair<Tensor, Tensor>> moved_;  // from, to
};

// One program on its way; the steps in their order. Those up to build() touch no device.
class Assembly {
 public:
  // What a step of control flow runs: a region of a graph, taken to its schedule.
  struct Inner {
    exec::Block block;
    std::unique_ptr<CompileReport> report;
    std::unique_ptr<Assembly> assembly;
  };

  // report outlives it.
  Assembly(choice::Program program, Setup setup, CompileReport& report, std::shared_ptr<const backend::Backend> target, DebugFolder debug)
      : setup_(std::move(setup)), report_(report), debug_(std::move(debug)), target_(std::move(target)), program_(std::move(program)) {}

  // Takes constants that are on another device from there, so that several programs have one copy.
  void share(std::shared_ptr<MovedConstants> constants) { moved_ = std::move(constants); }
  // Makes the blocks of control flow, each by this program's options and its own.
  void add_blocks(const std::function<Inner(const graph::Graph&, const Setup&)>& make);
  // Kernel texts, those of blocks too.
  void generate();
  // All kernels are compiled at once, those of blocks too; equal ones once. threads: of jit::compile_all.
  void build(int threads = 0);
  // Weights that lie in the host's memory start on their way to the GPU.
  void upload();
  // The end: the plan, and what it names.
  exec::Loadable plan();

  const choice::Program& program() const { return program_; }
  const std::vector<codegen::KernelText>& kernels() const { return kernels_; }
  // Text of each distinct kernel, by name.
  std::vector<std::pair<std::string, std::string>> take_sources() { return std::move(sources_); }

 private:
  std::vector<Assembly*> all();
  std::shared_future<double> pack();
  void take_objects(exec::Store& store);
  exec::Plan plan(exec::Store& store);
  exec::LibraryCall library_call(const choice::Node& n, exec::Store& store);
  std::vector<exec::Block> assemble_blocks(std::vector<Inner>& list, exec::Store& store);
  void add_inputs(exec::Plan& plan, exec::Store& store);
  exec::Launch launch(const choice::Node& n, const codegen::KernelText& k, const std::string& object);

  const Setup setup_;
  CompileReport& report_;
  DebugFolder debug_;
  std::shared_ptr<const backend::Backend> target_;
  choice::Program program_;
  std::map<const choice::Node*, std::vector<Inner>> blocks_;  // of each node of control flow
  codegen::ConstantMemory constants_;
  std::vector<codegen::KernelText> kernels_;
  std::vector<std::string> objects_;              // parallel to kernels_: their names in the store
  std::vector<exec::LibraryCall> library_calls_;  // one a node that a library computes
  std::vector<std::pair<std::string, std::string>> sources_;
  std::vector<jit::Artefact> artefacts_;   // of all kernels, those of blocks too
  std::vector<std::string> files_;         // parallel to artefacts_
  std::shared_ptr<MovedConstants> moved_;  // null: not shared
  std::map<int, Tensor> uploaded_;         // inputs that are on their way to the GPU, by buffer
};

}  // namespace toroid::compiler
