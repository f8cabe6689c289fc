// The functions of the CUDA driver (libcuda.so.1, part of NVIDIA's driver), found and opened at the first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/shared_library.h"

namespace toroid::device::cuda {

// The part of cuda.h that is used here, by its own names.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;

inline constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kIllegalAddress = 700;

// CUdevice_attribute.
enum class Attribute : int {
  MultiprocessorCount = 16,
  L2CacheSize = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  SharedMemoryPerBlockOptin = 97,
};

struct Driver {
  SharedLibrary library;
  // What the names say, with the driver's versioned symbols behind them.
  template <class F>
  using Function = F*;
  Function<CUresult(unsigned)> init = library.function<CUresult(unsigned)>("cuInit");
  Function<CUresult(CUresult, const char**)> error_name = library.function<CUresult(CUresult, const char**)>("cuGetErrorName");
  Function<CUresult(CUresult, const char**)> error_string = library.function<CUresult(CUresult, const char**)>("cuGetErrorString");
  Function<CUresult(int*)> version = library.function<CUresult(int*)>("cuDriverGetVersion");
  Function<CUresult(int*)> device_count = library.function<CUresult(int*)>("cuDeviceGetCount");
  Function<CUresult(CUdevice*, int)> device = library.function<CUresult(CUdevice*, int)>("cuDeviceGet");
  Function<CUresult(char*, int, CUdevice)> device_name = library.function<CUresult(char*, int, CUdevice)>("cuDeviceGetName");
  Function<CUresult(size_t*, CUdevice)> device_memory = library.function<CUresult(size_t*, CUdevice)>("cuDeviceTotalMem_v2");
  Function<CUresult(int*, int, CUdevice)> device_attribute = library.function<CUresult(int*, int, CUdevice)>("cuDeviceGetAttribute");
  Function<CUresult(CUcontext*, CUdevice)> retain_context = library.function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  Function<CUresult(CUcontext)> set_context = library.function<CUresult(CUcontext)>("cuCtxSetCurrent");
  Function<CUresult(CUdeviceptr*, size_t)> allocate = library.function<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  Function<CUresult(CUdeviceptr)> free = library.function<CUresult(CUdeviceptr)>("cuMemFree_v2");
  Function<CUresult(CUdeviceptr, const void*, size_t, CUstream)> copy_in =
      library.function<CUresult(CUdeviceptr, const void*, size_t, CUstream)>("cuMemcpyHtoDAsync_v2");
  Function<CUresult(void*, CUdeviceptr, size_t, CUstream)> copy_out =
      library.function<CUresult(void*, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoHAsync_v2");
  Function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)> copy_within =
      library.function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoDAsync_v2");
  Function<CUresult(CUstream*, unsigned)> create_stream = library.function<CUresult(CUstream*, unsigned)>("cuStreamCreate");
  Function<CUresult(CUstream)> synchronize = library.function<CUresult(CUstream)>("cuStreamSynchronize");
  Function<CUresult(CUevent*, unsigned)> create_event = library.function<CUresult(CUevent*, unsigned)>("cuEventCreate");
  Function<CUresult(CUevent)> destroy_event = library.function<CUresult(CUevent)>("cuEventDestroy_v2");
  Function<CUresult(CUevent, CUstream)> record_event = library.function<CUresult(CUevent, CUstream)>("cuEventRecord");
  Function<CUresult(CUevent)> wait_event = library.function<CUresult(CUevent)>("cuEventSynchronize");
  Function<CUresult(float*, CUevent, CUevent)> elapsed = library.function<CUresult(float*, CUevent, CUevent)>("cuEventElapsedTime");
  Function<CUresult(CUmodule*, const void*)> load_module = library.function<CUresult(CUmodule*, const void*)>("cuModuleLoadData");
  Function<CUresult(CUmodule)> unload_module = library.function<CUresult(CUmodule)>("cuModuleUnload");
  Function<CUresult(CUfunction*, CUmodule, const char*)> module_function =
      library.function<CUresult(CUfunction*, CUmodule, const char*)>("cuModuleGetFunction");
  Function<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)> launch =
      library
          .function<CUresult(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)>(
              "cuLaunchKernel");

  // Throws for anything but success: EnvironmentError with the driver's name and words for it, and `doing`; InternalError where a kernel
  // went wrong.
  void check(CUresult status, const std::string& doing) const;
};

// EnvironmentError, saying what is missing, where there is no driver or it finds no GPU. A later call tries again.
const Driver& driver();

}  // namespace toroid::device::cuda
