// From kernels' texts to their code.
#include <filesystem>
#include <mutex>

#include "base/check.h"
#include "base/files.h"
#include "compile/pipeline.h"
#include "compile/steps_text.h"
#include "jit/jit.h"
#include "toroid/cache.h"

namespace toroid {
namespace {

struct Counted {
  std::mutex mutex;
  KernelCounters counters;
};
Counted& counted() {
  static Counted& c = *new Counted;  // never destroyed: threads may outlive main
  return c;
}

}  // namespace

KernelCounters kernel_counters() {
  std::lock_guard lock(counted().mutex);
  return counted().counters;
}

namespace compiler {
namespace {

void count(const std::vector<jit::Artefact>& artefacts, const Job& job) {
  std::lock_guard lock(counted().mutex);
  KernelCounters& c = counted().counters;
  int64_t& compiled = job.tries ? c.tuning : job.setup.eager ? c.eager : c.programs;
  for (auto& a : artefacts) {
    ++(a.from_cache ? c.found : compiled);
    c.compile_ms += a.compile_ms;
  }
}

// Those of the program, then those of its blocks. owners: the operations that users' kernels are of; empty for others.
void collect(Kernels& k, std::vector<codegen::KernelText*>& out, std::vector<std::string>& owners) {
  for (auto& [node, text] : k.texts) {
    const auto* call = std::get_if<program::Extern>(&k.program.nodes[node].problem);  // only users' have kernels
    out.push_back(&text), owners.push_back(call ? call->op->name : "");
  }
  for (auto& [node, list] : k.blocks)
    for (auto& b : list) collect(b.program, out, owners);
}

// Texts of users' are wrong by their fault.
std::vector<jit::Artefact> compile_all(const std::vector<jit::CompileRequest>& requests, const std::vector<std::string>& owners,
                                       int threads) {
  try {
    return jit::compile_all(requests, threads);
  } catch (const InternalError&) {
    for (size_t i = 0; i < requests.size(); ++i) try {
        if (!owners[i].empty()) jit::compile_all({&requests[i], 1});
      } catch (const InternalError& e) {
        fail<UserError>("{}: the text of its kernel does not compile: {}", owners[i], e.what());
      }
    throw;
  }
}

}  // namespace

Objects compile_kernels(Sent in, const Job& job, CompileReport& report) {
  Objects out{std::move(in.kernels), std::move(in.upload), {}, {}, {}};
  std::vector<codegen::KernelText*> kernels;
  std::vector<std::string> owners;
  collect(out.kernels, kernels, owners);
  const std::string edited = job.options().get(options::kKernelDir);
  std::vector<jit::CompileRequest> requests;
  std::vector<std::string> files;
  for (auto* k : kernels) {
    files.push_back(k->name + "_" + hash_text(k->source).hex().substr(0, 8) + job.target->file_ending());
    const std::filesystem::path replacement = std::filesystem::path(edited) / files.back();
    if (!edited.empty() && std::filesystem::exists(replacement)) {
      k->source = read_file(replacement);
      owners[requests.size()] = replacement.string() + " (option kernel_dir)";
    }
    requests.push_back({.source = k->source, .isa = job.target->facts().isa});
  }
  std::vector<jit::Artefact> artefacts = compile_all(requests, owners, job.compile_threads);
  count(artefacts, job);
  for (size_t i = 0; i < kernels.size(); ++i) {
    report.compiler_ms += artefacts[i].compile_ms;
    const codegen::KernelText& k = *kernels[i];
    const auto [name, is_new] = out.names.try_emplace(hash_text(k.source));
    if (!is_new) continue;
    name->second = out.store.kernels.add(std::move(artefacts[i].object));
    if (!artefacts[i].from_cache) ++report.kernels_compiled;
    out.sources.emplace_back(k.name, k.source);
    job.debug.show(Artifact::OutputCode, "kernels/" + files[i], [&] { return k.source; });
  }
  job.debug.write("steps.json", [&] {
    std::map<const codegen::KernelText*, std::string> file_of;
    for (size_t i = 0; i < kernels.size(); ++i) file_of[kernels[i]] = "kernels/" + files[i];
    return steps_json(out.kernels, file_of);
  });
  return out;
}

}  // namespace compiler
}  // namespace toroid
