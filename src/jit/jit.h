// C text to object code that device::LoadedCode can load, and CUDA C++ text to cubins: content-keyed, cached on disk and in memory,
// compiled in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "jit/artefact_cache.h"

namespace toroid::jit {

struct CompileRequest {
  std::string source;
  // "avx512", "avx2", "scalar"; "native": all that this processor offers; "sm_90a", "compute_80": CUDA C++ for GPUs, see
  // device/cuda/architecture.h.
  std::string isa = "native";
  int opt_level = 1;       // 0: none; 1: short pass list for explicit vector code; 2, 3: LLVM's O2 and O3
  bool vectorize = false;  // let LLVM vectorize plain loops
  bool ahead = false;      // for whoever asks for it next: to them it is as if they had compiled it
};

struct Artefact {
  std::string object;       // an ELF64 relocatable file, a cubin, or PTX
  double compile_ms = 0;    // 0 when this call did not compile
  bool from_cache = false;  // found on disk, in memory, or compiled by another thread meanwhile
  Hash128 key;
};

// Names one artefact: hash of the source, the instruction set, the compiler's revision and the flags.
Hash128 key_of(const CompileRequest& request);

// What the machine code of `isa` (as in CompileRequest) depends on besides the source: the compiler's revision and the instruction set.
// "clang 19.1 r1, x86-64-v4 skylake-avx512 +avx512vnni", "nvrtc 13.0, sm_90a"; "nvrtc none, ..." where NVRTC cannot be loaded.
std::string compiler_revision(const std::string& isa);

// Where libtoroid_jit.so was found and which compiler it holds. Opens it if that has not happened yet;
// throws EnvironmentError, saying what is missing and how to install it, when there is none.
struct CompilerInfo {
  std::string library;
  std::string version;
};
CompilerInfo compiler_info();

struct CompilerCounters {
  uint64_t compiled = 0;
  uint64_t memory_hits = 0;
  uint64_t joined = 0;  // waited for another thread that compiled the same key
  double compile_ms = 0;
};

// The compiler with its caches. All functions may be called from any number of threads.
class KernelCompiler {
 public:
  // Without a cache (null) nothing is kept on disk.
  explicit KernelCompiler(std::shared_ptr<ArtefactCache> cache);

  // The artefact from memory or disk, else compiled and kept. Threads that ask for one key at once compile it once.
  // Throws InternalError with the compiler's diagnostics when the text is not valid C, EnvironmentError when no compiler is found.
  Artefact compile(const CompileRequest& request);
  // The same for many, in the order of the requests; equal ones are compiled once. `threads` <= 0: option compile_threads.
  // When some fail, the others are still compiled and the first failure is thrown.
  std::vector<Artefact> compile_all(std::span<const CompileRequest> requests, int threads = 0);

  CompilerCounters counters() const;
  ArtefactCache* cache() const { return cache_.get(); }

 private:
  using Object = std::shared_ptr<const std::string>;
  void remember(const Hash128& key, Object object);
  // What a request gets that is not compiled now. Under the lock.
  Artefact found_for(const CompileRequest& request, const Hash128& key, const Object& object);

  const std::shared_ptr<ArtefactCache> cache_;
  mutable std::mutex mutex_;  // of all below
  CompilerCounters counters_;
  std::unordered_map<Hash128, std::shared_future<Object>> flights_;
  std::unordered_map<Hash128, Object> memory_;
  std::unordered_map<Hash128, double> ahead_;  // compiled ahead, and not asked for yet: milliseconds that it took
  std::deque<Hash128> order_;                  // of memory_, oldest first
  size_t memory_bytes_ = 0;
};

// The compiler on the cache that the options name now.
std::shared_ptr<KernelCompiler> shared_compiler();
Artefact compile_c(const CompileRequest& request);
std::vector<Artefact> compile_all(std::span<const CompileRequest> requests, int threads = 0);

}  // namespace toroid::jit
