#include "jit/nvrtc.h"

#include <memory>
#include <mutex>
#include <vector>

#include "base/check.h"
#include "base/options.h"
#include "base/shared_library.h"
#include "device/cuda/architecture.h"

namespace toroid::jit {
namespace {

// The part of nvrtc.h that is used here.
using Program = struct _nvrtcProgram*;
constexpr int kSuccess = 0;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

struct Nvrtc {
  SharedLibrary library{"NVRTC, which compiles kernels for NVIDIA GPUs,", kNames, get_option(options::kCudaDir),
                        "Install NVRTC (Python package nvidia-cuda-nvrtc, or the CUDA toolkit) and name the folder of libnvrtc.so in "
                        "TOROID_CUDA_DIR."};
  const char* (*error_string)(int) = library.function<const char*(int)>("nvrtcGetErrorString");
  int (*version)(int*, int*) = library.function<int(int*, int*)>("nvrtcVersion");
  int (*create)(Program*, const char* text, const char* name, int, const char* const*, const char* const*) =
      library.function<int(Program*, const char*, const char*, int, const char* const*, const char* const*)>("nvrtcCreateProgram");
  int (*compile)(Program, int, const char* const* options) = library.function<int(Program, int, const char* const*)>("nvrtcCompileProgram");
  int (*log_size)(Program, size_t*) = library.function<int(Program, size_t*)>("nvrtcGetProgramLogSize");
  int (*log)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetProgramLog");
  int (*cubin_size)(Program, size_t*) = library.function<int(Program, size_t*)>("nvrtcGetCUBINSize");
  int (*cubin)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetCUBIN");
  int (*ptx_size)(Program, size_t*) = library.function<int(Program, size_t*)>("nvrtcGetPTXSize");
  int (*ptx)(Program, char*) = library.function<int(Program, char*)>("nvrtcGetPTX");
  int (*destroy)(Program*) = library.function<int(Program*)>("nvrtcDestroyProgram");
  NvrtcInfo info{library.path(), 0, 0};

  Nvrtc() {
    version(&info.major, &info.minor);
    settle_option(options::kCudaDir, "NVRTC was opened");
  }
};

const Nvrtc& nvrtc() {
  static std::mutex mutex;
  static auto& opened = *new std::unique_ptr<Nvrtc>;  // null: a later call tries again
  std::lock_guard lock(mutex);
  if (!opened) opened = std::make_unique<Nvrtc>();
  return *opened;
}

enum class Effort { Full, Least };

std::string compile(const std::string& source, const std::string& architecture, const std::string& name, Effort effort) {
  const Nvrtc& n = nvrtc();
  Program program = nullptr;
  auto check = [&](int status, const char* doing) {
    if (status != kSuccess) fail<InternalError>("NVRTC {} \"{}\": {}", doing, name, n.error_string(status));
  };
  check(n.create(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr), "could not take the text of");
  struct Destroy {
    const Nvrtc& n;
    Program* program;
    ~Destroy() { n.destroy(program); }
  } destroy{n, &program};
  // Functions without a word about it are for the GPU. Divisions and roots to 2 units in the last place, as functions are.
  const std::string arch = "--gpu-architecture=" + architecture;
  std::vector<const char*> options = {arch.c_str(),       "--std=c++17",       "--device-as-default-execution-space",
                                      "--prec-div=false", "--prec-sqrt=false", "--minimal"};
  constexpr int kHasEffort = 13;  // of NVRTC's versions
  if (effort == Effort::Least && n.info.major >= kHasEffort) options.push_back("--Ofast-compile=mid");
  if (n.compile(program, static_cast<int>(options.size()), options.data()) != kSuccess) {
    size_t size = 0;
    n.log_size(program, &size);
    std::string words(size, '\0');
    if (size) n.log(program, words.data());
    fail<InternalError>("NVRTC {}.{} refused the text of kernel \"{}\" for {}:\n{}", n.info.major, n.info.minor, name, architecture, words);
  }
  const bool ptx = device::cuda::is_ptx(architecture);
  size_t size = 0;
  check((ptx ? n.ptx_size : n.cubin_size)(program, &size), "gave no code for");
  std::string code(size, '\0');
  check((ptx ? n.ptx : n.cubin)(program, code.data()), "gave no code for");
  return code;
}

}  // namespace

const NvrtcInfo& nvrtc_info() { return nvrtc().info; }

std::string nvrtc_compile(const std::string& source, const std::string& architecture, const std::string& name) {
  return compile(source, architecture, name, Effort::Full);
}

void nvrtc_check(const std::string& source, const std::string& architecture, const std::string& name) {
  compile(source, architecture, name, Effort::Least);
}

}  // namespace toroid::jit
