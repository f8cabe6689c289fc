#include "device/cuda/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TOROID_HAS_NVTX 1
#else
#define TOROID_HAS_NVTX 0
#endif

#include "base/check.h"

namespace toroid::device::cuda {

bool has_nvtx() { return TOROID_HAS_NVTX; }

void require_nvtx() {
  if (!has_nvtx())
    fail<EnvironmentError>(
        "the option nvtx is on, and this build of Toroid has no NVTX: the header nvtx3/nvToolsExt.h was missing; install it (in the CUDA "
        "toolkit: package cuda-nvtx; or the Python package nvidia-nvtx), name its folder in TOROID_NVTX_INCLUDE of the build's settings "
        "and build again, or switch the option off");
}

#if TOROID_HAS_NVTX
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("Toroid");
  return domain;
}

}  // namespace

NvtxName::NvtxName(const std::string& text) : handle_(nvtxDomainRegisterStringA(domain(), text.c_str())) {}

void NvtxRange::begin(const NvtxName& name) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = static_cast<nvtxStringHandle_t>(name.handle_);
  nvtxDomainRangePushEx(domain(), &event);
}

void NvtxRange::end() { nvtxDomainRangePop(domain()); }
#else
NvtxName::NvtxName(const std::string&) {}
void NvtxRange::begin(const NvtxName&) { require_nvtx(); }
void NvtxRange::end() {}
#endif

}  // namespace toroid::device::cuda
