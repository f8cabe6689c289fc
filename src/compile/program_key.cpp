#include "compile/program_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/backend.h"
#include "base/files.h"
#include "base/log.h"
#include "compile/source_revision.h"
#include "device/cpu/isa.h"
#include "device/cpu/launch.h"
#include "device/cuda/gpu.h"
#include "exec/plan_file.h"
#include "extern/gpu_libraries.h"
#include "jit/jit.h"
#include "ops/custom.h"
#include "package/manifest.h"
#include "tensor/layout.h"

namespace toroid::compiler {
namespace {

constexpr int kRevision = 1;  // of what keys are made of

// All that a target says of itself. A fact that is added has to be named here before this compiles.
std::string text_of(const target::Facts& facts) {
  const auto& [device, isa, key, workers, tf32, copies_pieces, int8, gradients, spare_operations] = facts;
  return fmt::format("{} {} ({}), {} workers, tf32 {}, pieces {}, int8 {}, gradients {}, spare operations {}", to_string(device), isa, key,
                     workers, tf32, copies_pieces, int8, gradients, spare_operations);
}

// The same of the processor.
std::string text_of(const device::HostInfo& host) {
  const auto& [isa, f16c, bf16, vnni, model, l1d, l2, l3, line, cores] = host;
  return fmt::format("{}, {} f16c {} bf16 {} vnni {}, caches {} {} {} lines {}, {} cores", model, device::name_of(isa), f16c, bf16, vnni,
                     l1d, l2, l3, line, cores);
}

// And of a GPU, whichever of several alike it is.
std::string text_of(const device::cuda::GpuInfo& gpu) {
  const auto& [name, architecture, bus, driver, multiprocessors, memory, l2, shared] = gpu;
  return fmt::format("{}, {}, driver {}, {} multiprocessors, caches {} {}", name, architecture, driver, multiprocessors, l2, shared);
}

// Of tensors that a program is bound to: which are the same, and which have memory in common, by the first that each meets.
void add_sharing(Hasher& h, const std::vector<const Tensor*>& bound) {
  const auto range = [](const Tensor& t) {
    const std::byte* const begin = t.raw_data();
    return std::pair(begin, begin + toroid::extent_of(t) * static_cast<int64_t>(size_of(t.dtype())));
  };
  for (size_t i = 0; i < bound.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      if (bound[i]->impl() == bound[k]->impl()) h.add(i).add(k).add(true);
      const auto [a, a_end] = range(*bound[i]);
      const auto [b, b_end] = range(*bound[k]);
      if (a < b_end && b < a_end) h.add(i).add(k).add(false).add(a - b);
    }
}

std::string hash_of_lock_file(const CompileOptions& options) {
  const std::string path = options.get(options::kTuneLock);
  if (path.empty() || !tunes(options.mode())) return "";
  try {
    return hash_text(read_file(path)).hex();
  } catch (const Error&) {
    return "";  // the compile says what is wrong with it
  }
}

bool any_node(const graph::Graph& g, bool (*holds)(const graph::Node&)) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](auto& n) {
    return holds(*n) || std::any_of(n->regions.begin(), n->regions.end(), [&](auto& r) { return any_node(*r, holds); });
  });
}

}  // namespace

Hash128 ProgramKey::hash() const {
  Hasher h;
  for (auto& [name, value] : parts) h.add(name).add(value);
  return h.finish();
}

ProgramKey key_of(std::string subject, const Setup& setup) {
  const auto& options = setup.options;
  const auto target = backend::make_backend(setup.device, options);
  ProgramKey key{std::move(subject)};
  key.add("version",
          fmt::format("key {}, package {}, plan {}, kernels {}", kRevision, package::kFormat, exec::kPlanVersion, device::cpu::kKernelAbi));
  key.add("toroid", source_revision());
  key.add("compiler", jit::compiler_revision(target->facts().isa));
  key.add("target", fmt::format("{}; {}", target->code_for(), text_of(target->facts())));
  key.add("processor", text_of(device::host()));
  if (setup.device.is_cuda()) {
    key.add("GPU", text_of(device::cuda::gpu(setup.device.index).info()));
    if (tunes(options.mode())) key.add("libraries", external::gpu_libraries());
  }
  key.add("options", options.key());
  if (const std::string lock = hash_of_lock_file(options); !lock.empty()) key.add("lock file", lock);
  if (!setup.donated.empty()) key.add("donated inputs", fmt::format("{}", fmt::join(setup.donated, ", ")));
  return key;
}

void add_graph(ProgramKey& key, const graph::Graph& g, const Setup& setup) {
  key.add("graph", hash_text(graph::to_string(g)).hex());
  std::string hints;  // of which a program is made that is not tuned, too, but which serves others as well
  if (tunes(setup.options.mode()))
    for (auto& s : g.symbols)
      if (s.hint) hints += fmt::format("{}{} {}", hints.empty() ? "" : ", ", sym::to_string(s.expr), *s.hint);
  if (!hints.empty()) key.add("usual sizes", hints);
  const bool frozen = setup.options.get(options::kFreezing);
  Hasher elements, sharing;
  std::vector<const Tensor*> bound;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const auto& in = g.inputs[i];
    if (!in.data.defined()) continue;
    bound.push_back(&in.data);
    sharing.add(i);
    if (frozen || in.kind == graph::InputKind::Constant) elements.add(i).add(hash_of(in.data));
  }
  if (bound.empty()) return;
  add_sharing(sharing, bound);
  key.add("constants", elements.finish().hex());
  key.add("shared memory", sharing.finish().hex());
}

Hash128 hash_of(const Tensor& t) {
  const Tensor here = moved(t, Device::cpu());
  Hasher h;
  h.add(here.dtype()).add(here.sizes().size());
  for (int64_t n : here.sizes()) h.add(n);
  for (int64_t n : here.strides()) h.add(n);
  return h.add_bytes(here.raw_data(), static_cast<size_t>(toroid::extent_of(here)) * size_of(here.dtype())).finish();
}

std::string difference(const ProgramKey& was, const ProgramKey& now) {
  const auto value = [](const ProgramKey& k, const std::string& name) {
    const auto at = std::find_if(k.parts.begin(), k.parts.end(), [&](auto& p) { return p.first == name; });
    return at == k.parts.end() ? std::string() : at->second;
  };
  std::string out;
  const auto tell = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  for (auto& [name, is] : now.parts) {
    const std::string before = value(was, name);
    if (before == is) continue;
    std::string option;
    if (name == "options") option = toroid::difference(CompileOptions::parse(before), CompileOptions::parse(is));
    tell(option.empty() ? fmt::format("{} was {}, is {}", name, before.empty() ? "none" : before, is.empty() ? "none" : is) : option);
  }
  for (auto& [name, before] : was.parts)
    if (std::none_of(now.parts.begin(), now.parts.end(), [&, &name = name](auto& p) { return p.first == name; }))
      tell(fmt::format("{} was {}, is none", name, before));
  return out;
}

std::string refusal_to_keep(const Setup& setup) {
#ifdef TOROID_MUTANTS
  return "this library has planted bugs";
#endif
  const CompileOptions& o = setup.options;
  if (!o.get(options::kKernelDir).empty()) return "the option kernel_dir names kernels that may be edited at any time";
  if (o.get(options::kCompileDebug)) return "the option compile_debug asks for what a compile writes";
  if (o.get(options::kVerifyPasses)) return "the option verify_passes asks for the passes";
  for (Artifact a :
       {Artifact::Graph, Artifact::Loops, Artifact::Fusion, Artifact::Kernels, Artifact::OutputCode, Artifact::Schedule, Artifact::Choices})
    if (log_enabled(a)) return fmt::format("the log artifact {} asks for what a compile says", name_of(a));
  return "";
}

std::string refusal_to_keep(const graph::Graph& g, const Device& device, std::span<const Tensor> bound) {
  if (any_node(g, [](const graph::Node& n) { return n.op->collective; })) return "ranks compile programs with collectives together";
  if (any_node(g, [](const graph::Node& n) { return ops::is_registered(*n.op); })) return "nobody knows when a custom operation changes";
  // Its copy there would be stored in its place, and the next program bound to that. The elements of constants are part of the key.
  for (size_t i = 0; i < bound.size(); ++i)
    if (bound[i].defined() && bound[i].device() != device && g.inputs[i].kind != graph::InputKind::Constant)
      return "it captures a tensor of another device";
  return "";
}

}  // namespace toroid::compiler
