#include "jit/jit.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/check.h"
#include "base/compile_scope.h"
#include "base/log.h"
#include "base/options.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "device/cpu/isa.h"
#include "device/cuda/architecture.h"
#include "jit/compiler_library.h"
#include "jit/nvrtc.h"

namespace toroid::jit {

using device::cuda::is_gpu_code;

namespace {

// Objects kept in memory, so that equal kernels of one process do not even read the disk.
constexpr size_t kMemoryBytes = size_t(32) << 20;

struct Target {
  const char* cpu;
  const char* tune_cpu;
  std::string features;
  int vector_bits;
};

Target target_of(const std::string& name) {
  if (is_gpu_code(name)) return {"", "", name, 0};
  bool native = name.empty() || name == "native" || name == "auto";
  device::Isa isa = native ? device::host().isa : device::isa_from_name(name);
  switch (isa) {
    case device::Isa::Scalar:
      return {"x86-64", "haswell", "", 128};
    case device::Isa::Avx2:
      return {"x86-64-v3", "haswell", "", 256};
    case device::Isa::Avx512:
      break;
  }
  Target target{"x86-64-v4", "skylake-avx512", "", 512};
  if (native && device::host().avx512_vnni) target.features += "+avx512vnni";
  if (native && device::host().avx512_bf16) target.features += target.features.empty() ? "+avx512bf16" : ",+avx512bf16";
  return target;
}

Hash128 key_of(const CompileRequest& request, const Target& target) {
  return Hasher()
      .add(is_gpu_code(request.isa) ? "nvrtc r1" : TOROID_JIT_REVISION)
      .add(request.source)
      .add(target.cpu)
      .add(target.tune_cpu)
      .add(target.features)
      .add(target.vector_bits)
      .add(request.opt_level)
      .add(request.vectorize)
      .finish();
}

std::string run_nvrtc(const CompileRequest& request, const Hash128& key, double* ms) {
  const Stopwatch watch;
  std::string code = nvrtc_compile(request.source, request.isa, key.hex() + ".cu");
  *ms = watch.ms();
  log(Artifact::Cache, fmt::format("compiled {}.cu for {} in {:.1f} ms", key.hex(), request.isa, *ms));
  return code;
}

std::string run_compiler(const CompileRequest& request, const Target& target, const Hash128& key, double* ms) {
  if (is_gpu_code(request.isa)) return run_nvrtc(request, key, ms);
  const CompilerLibrary& library = compiler_library();
  const CompilerUse until_it_has_returned;
  std::string name = key.hex() + ".c";
  ToroidJitOptions options{};
  options.cpu = target.cpu;
  options.tune_cpu = target.tune_cpu;
  options.features = target.features.c_str();
  options.vector_bits = target.vector_bits;
  options.opt_level = request.opt_level;
  options.vectorize = request.vectorize;
  options.name = name.c_str();
  ToroidJitResult result{};
  struct Release {
    const CompilerLibrary& library;
    ToroidJitResult* result;
    ~Release() { library.release(result); }
  } release{library, &result};
  const Stopwatch watch;
  bool good = library.compile(request.source.data(), request.source.size(), &options, &result);
  *ms = watch.ms();
  if (!good) fail<InternalError>("{} refused the text of a kernel:\n{}", library.version, result.error ? result.error : "out of memory");
  log(Artifact::Cache, fmt::format("compiled {} in {:.1f} ms (front end {:.1f}, passes {:.1f}, machine code {:.1f})", name, *ms,
                                   result.parse_ms, result.passes_ms, result.codegen_ms));
  return std::string(reinterpret_cast<const char*>(result.object), result.size);
}

}  // namespace

std::string compiler_revision(const std::string& isa) {
  if (!is_gpu_code(isa)) {
    const Target t = target_of(isa);
    return fmt::format("{}, {} {} {}", TOROID_JIT_REVISION, t.cpu, t.tune_cpu, t.features);
  }
  try {
    return fmt::format("nvrtc {}.{}, {}", nvrtc_info().major, nvrtc_info().minor, isa);
  } catch (const EnvironmentError&) {
    return "nvrtc none, " + isa;
  }
}

Hash128 key_of(const CompileRequest& request) { return key_of(request, target_of(request.isa)); }

CompilerInfo compiler_info() {
  const CompilerLibrary& library = compiler_library();
  return {library.path, library.version};
}

KernelCompiler::KernelCompiler(std::shared_ptr<ArtefactCache> cache) : cache_(std::move(cache)) {}

// Under mutex_.
void KernelCompiler::remember(const Hash128& key, Object object) {
  size_t bytes = object->size();
  if (!memory_.emplace(key, std::move(object)).second) return;
  memory_bytes_ += bytes;
  order_.push_back(key);
  while (memory_bytes_ > kMemoryBytes) {
    auto oldest = memory_.find(order_.front());
    memory_bytes_ -= oldest->second->size();
    memory_.erase(oldest);
    order_.pop_front();
  }
}

Artefact KernelCompiler::found_for(const CompileRequest& request, const Hash128& key, const Object& object) {
  const auto made = request.ahead ? ahead_.end() : ahead_.find(key);
  if (made == ahead_.end()) return {*object, 0, true, key};
  const double ms = made->second;
  ahead_.erase(made);
  return {*object, ms, false, key};
}

Artefact KernelCompiler::compile(const CompileRequest& request) {
  TOROID_USER_CHECK(request.opt_level >= 0 && request.opt_level <= 3, "optimization level {} is not known: expected 0 to 3",
                    request.opt_level);
  Target target = target_of(request.isa);
  Hash128 key = key_of(request, target);
  std::promise<Object> promise;
  std::shared_future<Object> flight;
  {
    std::lock_guard lock(mutex_);
    if (auto it = memory_.find(key); it != memory_.end()) {
      ++counters_.memory_hits;
      return found_for(request, key, it->second);
    }
    auto [it, fresh] = flights_.try_emplace(key);
    if (fresh) {
      it->second = promise.get_future().share();
    } else {
      flight = it->second;
      ++counters_.joined;
    }
  }
  if (flight.valid()) {
    const Object object = flight.get();
    std::lock_guard lock(mutex_);
    return found_for(request, key, object);
  }

  try {
    double ms = 0;
    std::optional<std::string> found = cache_ ? cache_->load(key) : std::nullopt;
    auto object = std::make_shared<const std::string>(found ? std::move(*found) : run_compiler(request, target, key, &ms));
    if (!found && cache_) cache_->store(key, *object, request.source);
    {
      std::lock_guard lock(mutex_);
      if (!found) {
        ++counters_.compiled;
        counters_.compile_ms += ms;
        if (request.ahead) ahead_[key] = ms;
      }
      remember(key, object);
      flights_.erase(key);
    }
    promise.set_value(object);
    return {*object, ms, found.has_value(), key};
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      flights_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::vector<Artefact> KernelCompiler::compile_all(std::span<const CompileRequest> requests, int threads) {
  threads = compile_threads(threads);
  // Equal requests are compiled once; the others copy, so that no thread idles on a flight.
  std::vector<size_t> first(requests.size()), work;
  std::unordered_map<Hash128, size_t> seen;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto [it, fresh] = seen.try_emplace(key_of(requests[i]), i);
    first[i] = it->second;
    if (fresh) work.push_back(i);
  }
  std::vector<Artefact> results(requests.size());
  std::vector<std::exception_ptr> failures(requests.size());
  std::atomic<size_t> next{0};
  auto run = [&, within = compiles_here] {
    const CompileScope compiling(within);
    for (size_t k = next++; k < work.size(); k = next++) {
      size_t i = work[k];
      try {
        results[i] = compile(requests[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (size_t t = 1; t < std::min(size_t(threads), work.size()); ++t) {
      try {
        helpers.emplace_back(run);
      } catch (const std::system_error& e) {
        log(Artifact::Cache, fmt::format("compiling with {} threads instead of {}: {}", t, threads, e.what()));
        break;
      }
    }
    run();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (first[i] == i) continue;
    results[i] = results[first[i]];
    results[i].compile_ms = 0;
    results[i].from_cache = true;
  }
  return results;
}

CompilerCounters KernelCompiler::counters() const {
  std::lock_guard lock(mutex_);
  return counters_;
}

std::shared_ptr<KernelCompiler> shared_compiler() {
  static std::mutex mutex;
  static auto& compiler = *new std::shared_ptr<KernelCompiler>;  // never destroyed: threads may outlive main
  static uint64_t version = 0;
  std::lock_guard lock(mutex);
  uint64_t now = options_version();
  if (!compiler || version != now) {
    std::string problem;
    std::shared_ptr<ArtefactCache> cache = shared_cache(&problem);
    if (!cache) log(Artifact::Cache, fmt::format("kernels are not kept on disk: {}", problem));
    if (!compiler || compiler->cache() != cache.get()) compiler = std::make_shared<KernelCompiler>(std::move(cache));
    version = now;
  }
  return compiler;
}

Artefact compile_c(const CompileRequest& request) { return shared_compiler()->compile(request); }

std::vector<Artefact> compile_all(std::span<const CompileRequest> requests, int threads) {
  return shared_compiler()->compile_all(requests, threads);
}

}  // namespace toroid::jit
