#include "extern/onednn/symbols.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/options.h"

namespace toroid::external {
namespace {

template <class F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(handle, name));
  return function != nullptr;
}

std::unique_ptr<DnnlLibrary> open_library(const std::string& path) {
  constexpr const char* kAdvice =
      "install oneDNN 2 (Debian: apt-get install libdnnl2), name its file in the option onednn_library, or take onednn out of the options "
      "gemm_backends and conv_backends";
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = ::dlerror();
    fail<EnvironmentError>("oneDNN cannot be opened: {}; {}", why ? why : path, kAdvice);
  }
  auto library = std::make_unique<DnnlLibrary>();
  const char* missing = nullptr;
#define TOROID_DNNL_FIND(name) \
  if (!find(handle, #name, library->name)) missing = #name;
  TOROID_DNNL_FUNCTIONS(TOROID_DNNL_FIND)
#undef TOROID_DNNL_FIND
  if (missing) fail<EnvironmentError>("\"{}\" is not oneDNN 2: it lacks {}; {}", path, missing, kAdvice);
  const dnnl_version_t* version = library->dnnl_version();
  library->version = fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
  if (version->major != DNNL_VERSION_MAJOR)
    fail<EnvironmentError>("\"{}\" is oneDNN {}, this build of Toroid needs version {}; {}", path, library->version, DNNL_VERSION_MAJOR,
                           kAdvice);
  find(handle, "omp_get_max_threads", library->omp_get_max_threads);
  find(handle, "omp_set_num_threads", library->omp_set_num_threads);
  if (library->dnnl_engine_create(&library->engine, dnnl_cpu, 0) != dnnl_success)
    fail<EnvironmentError>("oneDNN {} of \"{}\" has no engine for the CPU; {}", library->version, path, kAdvice);
  return library;
}

}  // namespace

const DnnlLibrary& dnnl_library() {
  static std::mutex mutex;
  // Never destroyed: prepared calls may outlive main.
  static auto& libraries = *new std::map<std::string, std::unique_ptr<DnnlLibrary>>;
  std::lock_guard lock(mutex);
  auto& library = libraries[get_option(options::kOneDnnLibrary)];
  if (!library) library = open_library(get_option(options::kOneDnnLibrary));
  return *library;
}

}  // namespace toroid::external
