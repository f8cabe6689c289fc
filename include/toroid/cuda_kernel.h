// Kernels for NVIDIA GPUs that compute opaque operations (toroid/opaque_op.h) there, as CUDA C++ text.
//
//   register_cuda_kernel(scale, {.name = "scale",
//                                .text = R"(extern "C" __global__ void scale(const float* x, float* y, long long n) {
//                                  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
//                                  if (i < n) y[i] = BY * x[i];
//                                })",
//                                .launch = [](const MemoryType& x, double by) {
//                                  const SymInt n = x.sizes[0] * x.sizes[1];
//                                  return CudaLaunch{.blocks = (n + 255) / 256, .params = {n}, .defines = {{"BY", cuda_literal(by)}}};
//                                }});
#pragma once

#include "toroid/opaque_op.h"

namespace toroid {

// C++ text of a number with all its bits, whatever the locale: "0x1.8p+1" is 3. UserError for infinities and NaN.
std::string cuda_literal(double x);

// How a kernel is launched, in one dimension: sizes may be formulas of the program's sizes, which get their values when it runs.
struct CudaLaunch {
  SymInt blocks = 1;
  int threads = 256;                // of a block, 1 to 1024
  std::vector<SymInt> params = {};  // follow the kernel's pointers, as long long
  int shared_bytes = 0;             // dynamic shared memory of a block
  // Lines `#define NAME VALUE` before the text: what is known when compiling, such as a type or a number.
  std::vector<std::pair<std::string, std::string>> defines = {};
};

// A function of the operation's arguments with its types erased. It takes what the operation's type rule takes (MemoryType,
// std::vector<MemoryType>, SymInt, int64_t, double, bool, std::string), and runs when a program is compiled: sizes that are open then may
// be computed with, but not compared.
class CudaLaunchRule {
 public:
  CudaLaunchRule() = default;
  template <class F>
  requires(!std::same_as<std::decay_t<F>, CudaLaunchRule>) CudaLaunchRule(F f)
      : CudaLaunchRule(std::function(std::move(f))) {}  // NOLINT: functions are written as they are
  template <class... P>
  CudaLaunchRule(std::function<CudaLaunch(P...)> f) : params{detail::spec_kind_of<P>()...} {  // NOLINT
    if (f) run = [f = std::move(f)](std::span<const OpaqueTypeRule::Arg> args) { return detail::apply_to<P...>(f, args); };
  }

  std::vector<CustomFunction::Kind> params;
  std::function<CudaLaunch(std::span<const OpaqueTypeRule::Arg>)> run;
};

struct CudaKernel {
  std::string name;  // of the function in the text: extern "C" __global__ void
  // For NVRTC, without a host: it has no headers but those that NVRTC brings. The kernel takes a pointer to row-major memory for each
  // tensor among the arguments, in their order (those that it writes hold their contents), and for each result, then `params`.
  std::string text;
  CudaLaunchRule launch;
};

// Gives an operation a kernel, which takes the place of its function in what runs on an NVIDIA GPU; the two must compute the same. It is
// compiled with the program, is a launch of it like any other (recorded, and stored in packages, which need no registration then), and
// follows what the program does before on the same stream. Without a kernel, and in programs that were compiled before, the function
// works on copies in the host's memory. UserError for an operation that is not opaque, or has a kernel or a function for GPUs
// (toroid/cuda_function.h) already, and for a launch rule that takes other arguments.
void register_cuda_kernel(const CustomOpBase& op, CudaKernel kernel);

}  // namespace toroid
