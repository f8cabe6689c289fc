// What compiling for the CPU and for GPUs does differently.
#pragma once

#include <memory>
#include <string>

#include "codegen/cpu/generate.h"
#include "compile/setup.h"
#include "device/cuda/gpu.h"
#include "exec/plan.h"
#include "lower/lowering.h"
#include "sched/fuse.h"

namespace toroid::compiler {

class Target {
 public:
  virtual ~Target() = default;
  // Whether products and convolutions of 8 bits are faster than those of floats.
  virtual bool has_whole_products() const { return false; }
  // Which problems have templates.
  virtual void set_templates(lower::LowerOptions& how) const = 0;
  // What comes before tuning and fusion. `choices` as below.
  virtual void prepare(choice::Program& /*p*/, const CompileOptions& /*options*/, std::vector<std::string>& /*choices*/) const {}
  // What follows fusion: who computes what, and what else joins or parts. `choices` gets a line for each decision that had an alternative.
  virtual choice::Program schedule(choice::Program p, const CompileOptions& options, sched::FusionReport& report,
                                   std::vector<std::string>& choices) const = 0;
  // Ways worth a trial to compute node i of a scheduled program (see tune::Decision), the most hopeful first, without the one that is taken
  // by default.
  virtual std::vector<choice::Config> ways(const choice::Program& p, size_t node) const = 0;
  // Of tune::Pipeline.
  virtual std::vector<choice::Config> neighbours(const choice::Program& p, size_t node, const choice::Config& way) const = 0;
  // See codegen::generate.
  virtual codegen::KernelText generate(const choice::Node& node, choice::Program& p, codegen::ConstantMemory& constants) const = 0;
  // Of jit::CompileRequest.
  virtual std::string isa() const = 0;
  // Of a kernel's text in a file: ".c".
  virtual std::string file_ending() const = 0;
  // Of exec::Plan.
  virtual std::string code_for() const = 0;
};

// Of setup.device; `absent`: a GPU that is compiled for in its place, and need not be there.
std::unique_ptr<Target> make_target(const Setup& setup, const device::cuda::GpuInfo* absent = nullptr);

}  // namespace toroid::compiler
