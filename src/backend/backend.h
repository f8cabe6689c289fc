// The devices that programs are compiled for: targets that also make code and load it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/constant_memory.h"
#include "codegen/kernel_text.h"
#include "device/cuda/gpu.h"
#include "target/program_pass.h"

namespace toroid::backend {

class Backend : public target::Target {
 public:
  using Target::Target;
  // The kernel of a scheduled program's node that is neither a call nor a library's. See codegen::generate.
  virtual codegen::KernelText generate(const program::Node& node, program::Program& p, codegen::ConstantMemory& constants) const = 0;
  // Of a kernel's text in a file: ".c".
  virtual std::string file_ending() const = 0;
  // What its kernels are compiled for, see exec::Plan.
  virtual std::string code_for() const = 0;
};

// absent: what is compiled for need not be there: a processor with the instructions that the option isa names, or this GPU in place of the
// device.
std::unique_ptr<Backend> make_backend(const Device& device, const CompileOptions& options, const device::cuda::GpuInfo* absent = nullptr);

// The pass tables of all backends, for people and for options that name passes.
struct PassTable {
  const char* backend;
  program::Stage to;
  std::span<const target::ProgramPass> passes;
};
std::vector<PassTable> pass_tables();

}  // namespace toroid::backend
