// CUDA C++ to machine code for one GPU architecture, or to PTX, by NVIDIA's run-time compiler, which needs no GPU.
#pragma once

#include <string>

namespace toroid::jit {

struct NvrtcInfo {
  std::string library;  // path
  int major = 0, minor = 0;
};

// EnvironmentError, saying what is missing, where the library cannot be loaded.
const NvrtcInfo& nvrtc_info();

// A cubin for "sm_90a", PTX for "compute_80". InternalError with the compiler's words when it refuses the text. Any number of threads.
std::string nvrtc_compile(const std::string& source, const std::string& architecture, const std::string& name);
// The same for those who only ask whether it takes the text: with less effort, and no code. Where NVRTC can do so it takes half the time.
void nvrtc_check(const std::string& source, const std::string& architecture, const std::string& name);

}  // namespace toroid::jit
