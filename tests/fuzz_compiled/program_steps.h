// The way of a program from lowering to its schedule, one pass at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "choice/verify.h"
#include "compile/stages.h"

namespace toroid::test {

struct ProgramStep {
  const char* name;
  choice::Stage stage;  // of what it gives
  std::function<choice::Program(choice::Program)> run;
};

// The steps that compiler::schedule takes. gpu: null for the CPU.
std::vector<ProgramStep> schedule_steps(const compiler::Setup& setup, const device::cuda::GpuInfo* gpu);

// Takes a graph through all steps for one device and looks at the program after each: it keeps the rules of the IR, its text reads back as
// the same program, and both mean what the graph means, to the bits of each other.
class ProgramCheck {
 public:
  struct What {
    bool interprets_each = true;  // else only what lowering gives, and the last
    bool kernels = false;         // compares kernels of the last program and of its text
  };
  ProgramCheck(const graph::Graph& g, std::vector<Tensor> inputs, compiler::Setup setup, const device::cuda::GpuInfo* gpu);
  // What is wrong, and after which step; empty where nothing is.
  std::string fault(const What& what);
  bool refused() const { return refused_; }  // by the interpreter of graphs

 private:
  std::string fault_of(const choice::Program& p, choice::Stage stage, bool interprets);
  std::string fault_of_kernels(const choice::Program& p);
  std::vector<std::string> kernels(choice::Program p);

  const graph::Graph& graph_;
  std::vector<Tensor> inputs_;
  const device::cuda::GpuInfo* gpu_;
  Stages stages_;
  std::string latest_;  // text
  bool refused_ = false;
};

}  // namespace toroid::test
