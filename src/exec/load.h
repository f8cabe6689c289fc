// From a plan and what it names to something that runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "device/cpu/isa.h"
#include "device/cuda/gpu.h"
#include "dist/nccl/communicator.h"
#include "exec/store.h"
#include "extern/library_call.h"

namespace toroid::exec {

// A function that can be launched, on the CPU or a GPU, and what keeps it.
struct KernelCode {
  KernelFunction function = nullptr;
  std::shared_ptr<const void> owner;
  device::cuda::Kernel gpu;
};

// What a plan names, in this process and on its device.
struct Loaded {
  struct Step {
    KernelCode kernel;                                     // Launch
    std::shared_ptr<const external::LibraryCall> library;  // LibraryCall
    std::vector<Loaded> blocks;                            // Branch, Loop
    // CollectiveCall on a GPU: what carries it, which recorded graphs need for as long as they live; or why it goes through the host.
    std::shared_ptr<distributed::nccl::Communicator> communicator;
    std::string refusal;
  };
  std::vector<Step> steps;
  std::vector<Tensor> constants;  // of buffers
  std::vector<Tensor> inputs;     // of inputs that are bound to a constant
  std::shared_future<double> filling;
};

// The plan on a device of the kind that it was compiled for. UserError for another kind, and for a plan that verify() refuses.
Plan verified(Plan plan, const Device& device);

// UserError where the store lacks something, and for calls of functions for GPUs that this process has not registered. EnvironmentError for
// kernels that this machine cannot run, damaged objects, and libraries that are missing or refuse a call. All ranks of a group load a plan
// with collectives on GPUs alike: they make what carries these.
Loaded load_parts(const Plan& plan, const Store& store);

// What kernels for this very processor are compiled for (Plan::code_for): "avx512 +vnni".
std::string code_for_this_processor();
// Whether this processor has what such a text names.
bool processor_runs(std::string_view code_for);

// The same with copies of the memory that the program keeps from run to run: for another caller of the program.
Loaded with_own_state(const Plan& plan, Loaded loaded);

// The same with the memory that another one of the program keeps from run to run.
Loaded with_state_of(const Plan& plan, Loaded loaded, const Loaded& other);

// The same with other contents of constants, by name; what was prepared with one of them is prepared anew. Those that the program has are
// moved to its device, in `others` too. UserError for a program that writes to one.
Loaded with_constants(const Plan& plan, Loaded loaded, std::map<std::string, Tensor>& others);

// The constants that a program, its blocks included, reads and does not write, by name; one may come several times.
void for_each_constant(const Plan& plan, const Loaded& loaded, const std::function<void(const std::string&, const Tensor&)>& use);

// The calls of one step: of the reference implementation (`resolve` gives sizes their values), and of a library.
std::vector<Tensor> call(const HostCall& h, const std::vector<Tensor>& inputs, const std::function<Expr(const Expr&)>& resolve);
// ... into memory of the results' sizes and dtypes, which an opaque operation writes itself.
void call_into(const HostCall& h, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               const std::function<Expr(const Expr&)>& resolve);
// ... by the operation's function for GPUs, into memory of the calling thread's work on that GPU.
void call_on_gpu(const HostCall& h, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                 const std::function<Expr(const Expr&)>& resolve, const Device& device);
std::shared_ptr<const external::LibraryCall> prepare(const LibraryCall& c, const Device& device, const Tensor& constant);

class Executable;
// THE way to run a plan, made here or read from a file. UserError for a plan that verify() refuses, that is for another kind of device, or
// that names what the store lacks; EnvironmentError as load_parts().
std::unique_ptr<Executable> load(Plan plan, const Store& store, const Device& device);

}  // namespace toroid::exec
