#include "jit/compiler_library.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/check.h"

namespace toroid::jit {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libtoroid_jit.so";

std::vector<std::string> places() {
  if (const char* set = std::getenv("TOROID_JIT_LIBRARY"); set && *set) return {set};
  std::vector<std::string> result;
  auto add_around = [&](const fs::path& folder) {
    for (const char* relative : {"", "../lib", "../lib/toroid"})
      result.push_back((folder / relative / kFileName).lexically_normal().string());
  };
  std::error_code ignored;
  Dl_info self{};
  // For the main program dladdr repeats argv[0], which need not be a path: /proc knows better.
  fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  if (::dladdr(reinterpret_cast<const void*>(&compiler_library), &self) && self.dli_fname) {
    fs::path holder = fs::weakly_canonical(self.dli_fname, ignored);
    if (!ignored && holder != program && fs::exists(holder, ignored)) add_around(holder.parent_path());
  }
  if (!program.empty()) add_around(program.parent_path());
  result.push_back(kFileName);
  return result;
}

template <class F>
F symbol(void* handle, const char* name, const std::string& path) {
  void* address = ::dlsym(handle, name);
  if (!address)
    fail<EnvironmentError>("\"{}\" is not Toroid's compiler: it lacks {}; install the one of this version or unset TOROID_JIT_LIBRARY",
                           path, name);
  return reinterpret_cast<F>(address);
}

// The file that holds an address of it: what was opened by its name alone lies wherever the loader found it.
std::string path_of(const void* address, const std::string& otherwise) {
  Dl_info info{};
  std::error_code ignored;
  if (!::dladdr(address, &info) || !info.dli_fname) return otherwise;
  const fs::path p = fs::weakly_canonical(info.dli_fname, ignored);
  return ignored ? otherwise : p.string();
}

// None, and why, where no file of that name can be opened.
std::unique_ptr<CompilerLibrary> open_library(std::string& reasons) {
  for (const std::string& place : places()) {
    std::error_code ignored;
    bool is_path = place.find('/') != std::string::npos;
    if (is_path && !fs::exists(place, ignored)) {
      reasons += fmt::format("\n  {}: no such file", place);
      continue;
    }
    void* handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char* why = ::dlerror();
      reasons += fmt::format("\n  {}: {}", place, why ? why : "cannot be opened");
      continue;
    }
    auto library = std::make_unique<CompilerLibrary>();
    int32_t abi = symbol<decltype(&toroid_jit_abi)>(handle, "toroid_jit_abi", place)();
    if (abi != TOROID_JIT_ABI) {
      fail<EnvironmentError>("\"{}\" belongs to another version of Toroid (interface {}, expected {}); install the one of this version",
                             place, abi, TOROID_JIT_ABI);
    }
    library->version = symbol<decltype(&toroid_jit_version)>(handle, "toroid_jit_version", place)();
    library->compile = symbol<decltype(&toroid_jit_compile)>(handle, "toroid_jit_compile", place);
    library->path = path_of(reinterpret_cast<const void*>(library->compile), place);
    library->release = symbol<decltype(&toroid_jit_release)>(handle, "toroid_jit_release", place);
    return library;
  }
  return nullptr;
}

// The one that is open, or is opened now.
const CompilerLibrary* find_library(std::string& reasons) {
  static std::mutex mutex;
  static auto& library = *new std::unique_ptr<CompilerLibrary>;  // never destroyed: threads may outlive main
  std::lock_guard lock(mutex);
  if (!library) library = open_library(reasons);
  return library.get();
}

}  // namespace

const CompilerLibrary& compiler_library() {
  std::string reasons;
  if (const CompilerLibrary* found = find_library(reasons)) return *found;
  fail<EnvironmentError>(
      "a kernel must be compiled, but the compiler {} cannot be loaded (kernels in the cache run without it); looked "
      "at:{}\n"
      "Put {}, which a build with LLVM 19 makes, beside the program, or name it in TOROID_JIT_LIBRARY. Where a library is missing that it "
      "needs itself, install LLVM 19 (Debian: apt-get install libclang-cpp19 libllvm19).",
      kFileName, reasons, kFileName);
}

namespace {

std::shared_mutex& uses() {
  static auto& m = *new std::shared_mutex;
  return m;
}

void wait_for_uses() {
  static std::atomic<bool> called{false};
  if (!called.exchange(true)) uses().lock();
}

}  // namespace

// What is registered last is called first: behind the objects that the library has made when it was loaded, and by its first compile.
CompilerUse::CompilerUse() {
  [[maybe_unused]] static const int behind_loading = std::atexit(wait_for_uses);
  uses().lock_shared();
}
CompilerUse::~CompilerUse() {
  [[maybe_unused]] static const int behind_compiling = std::atexit(wait_for_uses);
  uses().unlock_shared();
}

std::string compiler_folder() {
  std::string ignored;
  const CompilerLibrary* found = find_library(ignored);
  return found ? fs::path(found->path).parent_path().string() : "";
}

}  // namespace toroid::jit
