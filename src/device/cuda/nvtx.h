// Names on the timelines of NVIDIA's tools (Nsight Systems, Nsight Compute): ranges of the calling thread, in the domain "Toroid".
#pragma once

#include <string>

namespace toroid::device::cuda {

// Whether this build has NVTX: its header, nvtx3/nvToolsExt.h, was there.
bool has_nvtx();
// EnvironmentError that says what to install where it has not.
void require_nvtx();

// A text that the tools know from now on, so that beginning a range costs no more than a call.
class NvtxName {
 public:
  explicit NvtxName(const std::string& text);

 private:
  friend class NvtxRange;
  void* handle_ = nullptr;
};

// A range of this object's life. name: null for none.
class NvtxRange {
 public:
  explicit NvtxRange(const NvtxName* name) : open_(name != nullptr) {
    if (open_) begin(*name);
  }
  ~NvtxRange() {
    if (open_) end();
  }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  static void begin(const NvtxName& name);
  static void end();

  bool open_;
};

}  // namespace toroid::device::cuda
