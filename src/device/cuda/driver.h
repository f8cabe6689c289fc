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

using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;

struct CUlaunchAttribute {
  int id;
  alignas(8) char value[64];
};
struct CUlaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  unsigned attribute_count;
};
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  CUcontext context;
};
struct CUgraphEdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};
struct CUgraphExecUpdateResultInfo {
  int result;
  CUgraphNode error_node, error_from_node;
};
struct CUipcMemHandle {
  char bytes[64];
};
// CUtensorMap: a parameter of kernels.
struct alignas(64) EncodedTensorMap {
  uint64_t words[16];
};

inline constexpr CUresult kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600, kPeerAccessAlreadyEnabled = 704,
                          kUpdateFailure = 910;

inline constexpr unsigned kLazyPeerAccess = 1;  // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

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
  Function<CUresult(char*, int, CUdevice)> device_bus = library.function<CUresult(char*, int, CUdevice)>("cuDeviceGetPCIBusId");
  Function<CUresult(size_t*, CUdevice)> device_memory = library.function<CUresult(size_t*, CUdevice)>("cuDeviceTotalMem_v2");
  Function<CUresult(int*, int, CUdevice)> device_attribute = library.function<CUresult(int*, int, CUdevice)>("cuDeviceGetAttribute");
  Function<CUresult(CUcontext*, CUdevice)> retain_context = library.function<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain");
  Function<CUresult(CUcontext)> set_context = library.function<CUresult(CUcontext)>("cuCtxSetCurrent");
  Function<CUresult(CUdeviceptr*, size_t)> allocate = library.function<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2");
  Function<CUresult(size_t*, size_t*)> memory_info = library.function<CUresult(size_t*, size_t*)>("cuMemGetInfo_v2");
  Function<CUresult(CUdeviceptr)> free = library.function<CUresult(CUdeviceptr)>("cuMemFree_v2");
  Function<CUresult(CUdeviceptr, const void*, size_t, CUstream)> copy_in =
      library.function<CUresult(CUdeviceptr, const void*, size_t, CUstream)>("cuMemcpyHtoDAsync_v2");
  Function<CUresult(void*, CUdeviceptr, size_t, CUstream)> copy_out =
      library.function<CUresult(void*, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoHAsync_v2");
  Function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)> copy_within =
      library.function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoDAsync_v2");
  Function<CUresult(CUstream*, unsigned)> create_stream = library.function<CUresult(CUstream*, unsigned)>("cuStreamCreate");
  Function<CUresult(CUstream*, unsigned, int)> create_stream_with_priority =
      library.function<CUresult(CUstream*, unsigned, int)>("cuStreamCreateWithPriority");
  Function<CUresult(CUstream)> query_stream = library.function<CUresult(CUstream)>("cuStreamQuery");
  Function<CUresult(CUstream, CUevent, unsigned)> stream_wait_event =
      library.function<CUresult(CUstream, CUevent, unsigned)>("cuStreamWaitEvent");
  Function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)> copy_any =
      library.function<CUresult(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyAsync");
  Function<CUresult(void**, size_t, unsigned)> allocate_host = library.function<CUresult(void**, size_t, unsigned)>("cuMemHostAlloc");
  Function<CUresult(void*)> free_host = library.function<CUresult(void*)>("cuMemFreeHost");
  Function<CUresult(CUevent)> query_event = library.function<CUresult(CUevent)>("cuEventQuery");
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
  Function<CUresult(CUfunction, int, int)> set_function_attribute = library.function<CUresult(CUfunction, int, int)>("cuFuncSetAttribute");
  Function<CUresult(const CUlaunchConfig*, CUfunction, void**, void**)> launch =
      library.function<CUresult(const CUlaunchConfig*, CUfunction, void**, void**)>("cuLaunchKernelEx");
  Function<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)> fill =
      library.function<CUresult(CUdeviceptr, unsigned char, size_t, CUstream)>("cuMemsetD8Async");
  Function<CUresult(CUdeviceptr, unsigned, size_t, CUstream)> fill_words =
      library.function<CUresult(CUdeviceptr, unsigned, size_t, CUstream)>("cuMemsetD32Async");
  Function<CUresult(EncodedTensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int,
                    int, int)>
      encode_tiled = library.function<CUresult(EncodedTensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const uint32_t*,
                                               const uint32_t*, int, int, int, int)>("cuTensorMapEncodeTiled");
  Function<CUresult(EncodedTensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*, const int*, uint32_t, uint32_t,
                    const uint32_t*, int, int, int, int)>
      encode_im2col =
          library.function<CUresult(EncodedTensorMap*, int, uint32_t, void*, const uint64_t*, const uint64_t*, const int*, const int*,
                                    uint32_t, uint32_t, const uint32_t*, int, int, int, int)>("cuTensorMapEncodeIm2col");
  // --- memory of other GPUs ---
  Function<CUresult(int*, CUdevice, CUdevice)> can_reach = library.function<CUresult(int*, CUdevice, CUdevice)>("cuDeviceCanAccessPeer");
  Function<CUresult(int*, int, CUdevice, CUdevice)> link_attribute =
      library.function<CUresult(int*, int, CUdevice, CUdevice)>("cuDeviceGetP2PAttribute");
  Function<CUresult(CUcontext, unsigned)> enable_reach = library.function<CUresult(CUcontext, unsigned)>("cuCtxEnablePeerAccess");
  Function<CUresult(CUipcMemHandle*, CUdeviceptr)> export_memory =
      library.function<CUresult(CUipcMemHandle*, CUdeviceptr)>("cuIpcGetMemHandle");
  Function<CUresult(CUdeviceptr*, CUipcMemHandle, unsigned)> import_memory =
      library.function<CUresult(CUdeviceptr*, CUipcMemHandle, unsigned)>("cuIpcOpenMemHandle_v2");
  Function<CUresult(CUdeviceptr)> close_memory = library.function<CUresult(CUdeviceptr)>("cuIpcCloseMemHandle");
  Function<CUresult()> synchronize_context = library.function<CUresult()>("cuCtxSynchronize");

  // --- graphs ---
  Function<CUresult(CUstream, int)> begin_capture = library.function<CUresult(CUstream, int)>("cuStreamBeginCapture_v2");
  Function<CUresult(CUstream, CUgraph*)> end_capture = library.function<CUresult(CUstream, CUgraph*)>("cuStreamEndCapture");
  Function<CUresult(CUstream, int*, uint64_t*, CUgraph*, const CUgraphNode**, const void**, size_t*)> capture_info =
      library.function<CUresult(CUstream, int*, uint64_t*, CUgraph*, const CUgraphNode**, const void**, size_t*)>(
          "cuStreamGetCaptureInfo_v3");
  Function<CUresult(CUstream, const CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned)> follow =
      library.function<CUresult(CUstream, const CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned)>(
          "cuStreamUpdateCaptureDependencies_v2");
  Function<CUresult(CUgraphExec*, CUgraph, uint64_t)> instantiate =
      library.function<CUresult(CUgraphExec*, CUgraph, uint64_t)>("cuGraphInstantiateWithFlags");
  Function<CUresult(CUgraph)> destroy_graph = library.function<CUresult(CUgraph)>("cuGraphDestroy");
  Function<CUresult(CUgraphExec)> destroy_executable = library.function<CUresult(CUgraphExec)>("cuGraphExecDestroy");
  Function<CUresult(CUgraphExec, CUstream)> launch_graph = library.function<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch");
  Function<CUresult(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*)> set_node =
      library.function<CUresult(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS*)>("cuGraphExecKernelNodeSetParams_v2");
  Function<CUresult(CUgraph, CUgraphNode*, size_t*)> graph_nodes =
      library.function<CUresult(CUgraph, CUgraphNode*, size_t*)>("cuGraphGetNodes");

  Function<CUresult(int*)> exchange_capture_mode = library.function<CUresult(int*)>("cuThreadExchangeStreamCaptureMode");
  Function<CUresult(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*)> graph_edges =
      library.function<CUresult(CUgraph, CUgraphNode*, CUgraphNode*, CUgraphEdgeData*, size_t*)>("cuGraphGetEdges_v2");
  Function<CUresult(CUgraphNode, int*)> node_type = library.function<CUresult(CUgraphNode, int*)>("cuGraphNodeGetType");
  Function<CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)> kernel_node =
      library.function<CUresult(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*)>("cuGraphKernelNodeGetParams_v2");
  Function<CUresult(const char**, CUfunction)> function_name = library.function<CUresult(const char**, CUfunction)>("cuFuncGetName");
  Function<CUresult(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*)> update_executable =
      library.function<CUresult(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*)>("cuGraphExecUpdate_v2");

  // DeviceError for anything but success, with the driver's name and words for it, the likely cause and what to do.
  void check(CUresult status, std::string_view doing) const {
    if (status != kSuccess) [[unlikely]]
      refuse(status, doing);
  }
  [[noreturn]] void refuse(CUresult status, std::string_view doing) const;
};

// EnvironmentError, saying what is missing, where there is no driver or it finds no GPU. A later call tries again.
const Driver& driver();

}  // namespace toroid::device::cuda
