#include "ops/cuda_kernels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "ops/custom.h"
#include "ops/opaque.h"
#include "toroid/cuda_kernel.h"

namespace toroid {
namespace ops {
namespace {

struct FunctionForGpus {
  CudaFunction function;
  bool capturable = true;
};
using GpuForm = std::variant<CudaKernel, FunctionForGpus>;

struct GpuForms {
  std::shared_mutex mutex;
  std::unordered_map<const Op*, std::shared_ptr<const GpuForm>> by_row;  // and by functional form
};
GpuForms& gpu_forms() {
  static GpuForms& r = *new GpuForms;  // never destroyed: threads may outlive main
  return r;
}

// Null where the operation has none. It lives as long as the process.
template <class T>
const T* gpu_form(const Op& op) {
  GpuForms& r = gpu_forms();
  std::shared_lock lock(r.mutex);
  const auto it = r.by_row.find(&op);
  return it == r.by_row.end() ? nullptr : std::get_if<T>(it->second.get());
}

void add_gpu_form(const Op& op, GpuForm made) {
  const auto shared = std::make_shared<const GpuForm>(std::move(made));
  GpuForms& r = gpu_forms();
  std::unique_lock lock(r.mutex);
  const auto [it, fresh] = r.by_row.emplace(&op, shared);
  TOROID_USER_CHECK(fresh, "{} has a {} already", op.name,
                    std::holds_alternative<CudaKernel>(*it->second) ? "kernel" : "function for GPUs");
  r.by_row.emplace(&functional_form(op), shared);
}

bool takes(CustomFunction::Kind kind, const Param& p) {
  using Kind = CustomFunction::Kind;
  if (p.type == ParamType::Tensor) return kind == (p.list ? Kind::Tensors : Kind::Tensor);
  if (p.type == ParamType::Int) return kind == Kind::Int || kind == Kind::Size;
  return kind == (p.type == ParamType::Float ? Kind::Float : p.type == ParamType::Bool ? Kind::Bool : Kind::Text);
}

}  // namespace

bool has_cuda_kernel(const Op& op) { return gpu_form<CudaKernel>(op) != nullptr; }
bool has_cuda_function(const Op& op) { return gpu_form<FunctionForGpus>(op) != nullptr; }

bool is_capturable(const Op& op) {
  const auto* f = gpu_form<FunctionForGpus>(op);
  return f && f->capturable;
}

void run_cuda_function(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, const CudaStream& stream) {
  const auto* f = gpu_form<FunctionForGpus>(op);
  TOROID_CHECK(f, "{} has no function for GPUs", op.name);
  run_opaque(op, args, outputs, "function for GPUs", [&](auto given) { f->function.run(given, stream); });
}

CudaKernelLaunch cuda_kernel_launch(const Op& op, std::span<const Arg<const TensorType*>> args) {
  const auto* kernel = gpu_form<CudaKernel>(op);
  TOROID_CHECK(kernel, "{} has no kernel", op.name);
  MetaCall c(op, args);
  c.decide = [](const sym::Relation& r) -> bool {
    fail<UserError>("its launch rule compares sizes, {}, that are known only when the program runs; a formula may compute with them",
                    sym::to_string(r));
  };
  CudaLaunch launch;
  ask_rule(c, "launch rule", [&](auto given) { launch = kernel->launch.run(given); });
  constexpr int kMaxThreads = 1024, kMaxShared = 227 << 10;
  TOROID_USER_CHECK(launch.threads >= 1 && launch.threads <= kMaxThreads && launch.shared_bytes >= 0 && launch.shared_bytes <= kMaxShared,
                    "{}: its launch rule asks for {} threads and {} bytes of shared memory a block; a GPU has 1 to {}, and up to {}",
                    op.name, launch.threads, launch.shared_bytes, kMaxThreads, kMaxShared);
  CudaKernelLaunch out{kernel->name, {}, launch.blocks.expr(), launch.threads, launch.shared_bytes, {}};
  for (auto& [name, value] : launch.defines) out.text += fmt::format("#define {} {}\n", name, value);
  out.text += kernel->text;
  for (auto& p : launch.params) out.params.push_back(p.expr());
  return out;
}

}  // namespace ops

std::string cuda_literal(double x) {
  TOROID_USER_CHECK(std::isfinite(x), "cuda_literal: {} is no number that text can have", x);
  char digits[64];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), std::abs(x), std::chars_format::hex);
  TOROID_CHECK(error == std::errc(), "a number takes more than {} characters", sizeof digits);
  return (std::signbit(x) ? "-0x" : "0x") + std::string(digits, end);
}

void register_cuda_kernel(const CustomOpBase& base, CudaKernel kernel) {
  const ops::Op& op = base.op();
  TOROID_USER_CHECK(ops::is_opaque(op),
                    "{} is made of operations, which have kernels; one of your own is for an opaque operation (opaque_op)", op.name);
  TOROID_USER_CHECK(kernel.launch.run && !kernel.name.empty() && kernel.text.find(kernel.name) != std::string::npos,
                    "{}: a kernel needs the name of a function in its text, and a launch rule", op.name);
  const auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto in_name = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  TOROID_USER_CHECK(letter(kernel.name[0]) && std::all_of(kernel.name.begin(), kernel.name.end(), in_name),
                    "{}: the name of its kernel, \"{}\", is no name of a function", op.name, kernel.name);
  const auto& params = op.schema.params;
  bool fits = kernel.launch.params.size() == params.size();
  for (size_t i = 0; fits && i < params.size(); ++i) fits = ops::takes(kernel.launch.params[i], params[i]);
  TOROID_USER_CHECK(fits, "{}: the launch rule of its kernel takes other arguments than the operation; expected those of its type rule",
                    op.name);
  ops::add_gpu_form(op, std::move(kernel));
}

void register_cuda_function(const CustomOpBase& base, CudaFunction f, const CudaFunctionOptions& options) {
  const ops::Op& op = base.op();
  TOROID_USER_CHECK(ops::is_opaque(op),
                    "{} is made of operations, which run on GPUs; a function of your own is for an opaque operation (opaque_op)", op.name);
  TOROID_USER_CHECK(f.run, "{}: its function for GPUs is empty", op.name);
  const auto& wanted = ops::opaque_params(op);
  TOROID_USER_CHECK(f.params.size() == wanted.size(),
                    "{}: its function for GPUs takes {} parameters before the stream; expected the {} of its function", op.name,
                    f.params.size(), wanted.size());
  const auto other = std::mismatch(wanted.begin(), wanted.end(), f.params.begin()).first - wanted.begin();
  TOROID_USER_CHECK(f.params == wanted, "{}: parameter {} of its function for GPUs has another type than in its function", op.name, other);
  ops::add_gpu_form(op, ops::FunctionForGpus{std::move(f), options.capturable.value_or(!op.effect)});
}

}  // namespace toroid
