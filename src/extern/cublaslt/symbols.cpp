#include "extern/cublaslt/symbols.h"

#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/options.h"

namespace toroid::external::cublaslt {

void Library::check(cublasStatus_t status, const char* doing) const {
  if (status != 0) fail<EnvironmentError>("cuBLASLt ({}): {} failed: {}", library.path(), doing, status_string(status));
}

const Library& library() {
  static constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
  static std::mutex mutex;
  static Library* opened = nullptr;  // never destroyed: prepared calls may outlive main
  std::lock_guard lock(mutex);
  if (!opened) {
    opened = new Library{SharedLibrary("cuBLASLt, which multiplies matrices on NVIDIA GPUs,", kNames, get_option(options::kCudaDir),
                                       "Install it (Python package nvidia-cublas, or the CUDA toolkit), name the folder of libcublasLt.so "
                                       "in TOROID_CUDA_DIR, or take cublaslt out of the option gemm_backends.")};
    settle_option(options::kCudaDir, "cuBLASLt was opened");
  }
  return *opened;
}

}  // namespace toroid::external::cublaslt
