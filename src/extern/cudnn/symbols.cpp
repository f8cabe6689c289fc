#include "extern/cudnn/symbols.h"

#include <mutex>

#include "base/check.h"
#include "device/cuda/library_folder.h"

namespace toroid::external::cudnn {

void Library::check(cudnnStatus_t status, const char* doing) const {
  if (status == 0) return;
  char words[512] = "";
  last_error(words, sizeof words - 1);
  fail<EnvironmentError>("cuDNN ({}): {} failed: {}{}{}", library.path(), doing, status_string(status), words[0] ? ": " : "", words);
}

const Library& library() {
  static constexpr const char* kNames[] = {"libcudnn.so.9"};
  static std::mutex mutex;
  static Library* opened = nullptr;  // never destroyed: prepared calls may outlive main
  std::lock_guard lock(mutex);
  if (!opened)
    opened = new Library{SharedLibrary("cuDNN, which computes convolutions on NVIDIA GPUs,", kNames,
                                       device::cuda::library_folder(kNames, "cudnn"),
                                       "Install it (Python package nvidia-cudnn-cu13, or NVIDIA's own), name the folder of libcudnn.so.9 "
                                       "in TOROID_CUDA_DIR, or take cudnn out of the option conv_backends.")};
  return *opened;
}

}  // namespace toroid::external::cudnn
