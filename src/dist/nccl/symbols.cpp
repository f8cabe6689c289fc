#include "dist/nccl/symbols.h"

#include <cstdlib>
#include <memory>
#include <mutex>

#include "base/check.h"
#include "base/options.h"
#include "device/cuda/library_folder.h"

namespace toroid::distributed::nccl {

const Library& library() {
  static constexpr const char* kNames[] = {"libnccl.so.2"};
  static constexpr int kOldest = 21900;
  static std::mutex mutex;
  static Library* opened = nullptr;  // never destroyed: communicators may outlive main
  std::lock_guard lock(mutex);
  if (opened) return *opened;
  // A rank may record a collective that the others just run, as when its operands alone have moved. With registration of the buffers of
  // graphs the ranks would talk to each other while one records, and wait for ever.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  auto found = std::make_unique<Library>(Library{
      SharedLibrary("NCCL, which carries collectives between NVIDIA GPUs,", kNames, device::cuda::library_folder(kNames, "nccl"),
                    "Install it (Python package nvidia-nccl-cu13, Debian package libnccl2), or name the folder of libnccl.so.2, or of "
                    "the toolkit beside it, in TOROID_CUDA_DIR.")});
  int version = 0;
  const ncclResult_t status = found->version(&version);
  if (status != ncclSuccess)
    fail<EnvironmentError>("NCCL ({}): asking for its version failed: {}", found->library.path(), found->error_string(status));
  if (version < kOldest)
    fail<EnvironmentError>("NCCL ({}) is version {}.{}.{}; 2.19 or later is needed", found->library.path(), version / 10000,
                           version / 100 % 100, version % 100);
  opened = found.release();
  settle_option(options::kCudaDir, "NCCL was opened");
  return *opened;
}

}  // namespace toroid::distributed::nccl
