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

struct Kernels {
  std::shared_mutex mutex;
  std::unordered_map<const Op*, std::shared_ptr<const CudaKernel>> by_row;  // and by functional form
};
Kernels& kernels() {
  static Kernels& k = *new Kernels;  // never destroyed: threads may outlive main
  return k;
}

std::shared_ptr<const CudaKernel> kernel_of(const Op& op) {
  Kernels& k = kernels();
  std::shared_lock lock(k.mutex);
  const auto it = k.by_row.find(&op);
  return it == k.by_row.end() ? nullptr : it->second;
}

bool takes(CustomFunction::Kind kind, const Param& p) {
  using Kind = CustomFunction::Kind;
  if (p.type == ParamType::Tensor) return kind == (p.list ? Kind::Tensors : Kind::Tensor);
  if (p.type == ParamType::Int) return kind == Kind::Int || kind == Kind::Size;
  return kind == (p.type == ParamType::Float ? Kind::Float : p.type == ParamType::Bool ? Kind::Bool : Kind::Text);
}

}  // namespace

bool has_cuda_kernel(const Op& op) { return is_opaque(op) && kernel_of(op); }

CudaKernelLaunch cuda_kernel_launch(const Op& op, std::span<const Arg<const TensorType*>> args) {
  const auto kernel = kernel_of(op);
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
  const auto shared = std::make_shared<const CudaKernel>(std::move(kernel));
  auto& k = ops::kernels();
  std::unique_lock lock(k.mutex);
  TOROID_USER_CHECK(k.by_row.emplace(&op, shared).second, "{} has a kernel already", op.name);
  k.by_row.emplace(&ops::functional_form(op), shared);
}

}  // namespace toroid
