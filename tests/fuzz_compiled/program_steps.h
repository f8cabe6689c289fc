// The way of a program from lowering to its schedule, one pass at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/stages.h"
#include "program/verify.h"

namespace toroid::test {

// Takes a graph through all steps for one device and looks at the program after each: it keeps the rules of the IR, its text reads back as
// the same program, and both mean what the graph means, to the bits of each other.
class ProgramCheck {
 public:
  struct What {
    bool interprets_each = true;  // else only what lowering gives, and the last
    bool kernels = false;         // compares kernels of the last program with those of its text, and with those of its nodes by themselves
  };
  ProgramCheck(const graph::Graph& g, std::vector<Tensor> inputs, compiler::Setup setup, const device::cuda::GpuInfo* gpu);
  // What is wrong, and after which step; empty where nothing is.
  std::string fault(const What& what);
  bool refused() const { return refused_; }  // by the interpreter of graphs

 private:
  std::string fault_of(const program::Program& p, program::Stage stage, bool interprets);
  std::string fault_of_kernels(const program::Program& p);
  std::map<size_t, codegen::KernelText> kernels(program::Program p);  // by node

  const graph::Graph& graph_;
  std::vector<Tensor> inputs_;
  Stages stages_;
  std::string latest_;  // text
  bool refused_ = false;
};

}  // namespace toroid::test
