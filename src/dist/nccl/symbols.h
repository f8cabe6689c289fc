// The functions of NCCL that Toroid calls, found at run time.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/shared_library.h"
#include "device/cuda/driver.h"

namespace toroid::distributed::nccl {

// The part of nccl.h that is used here, by its own names and with its own values.
using ncclComm_t = struct ncclComm*;
using ncclResult_t = int;
struct ncclUniqueId {
  char internal[128];
};

enum : ncclResult_t { ncclSuccess = 0, ncclInProgress = 7 };
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9
};

inline constexpr int kUndefined = INT_MIN;

// ncclConfig_t as of 2.28.0, with the values of NCCL_CONFIG_INITIALIZER: `version` tells a later library which fields there are, `size` an
// earlier one how many to read.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 22800;
  int blocking = kUndefined;
  int cgaClusterSize = kUndefined;
  int minCTAs = kUndefined;
  int maxCTAs = kUndefined;
  const char* netName = nullptr;
  int splitShare = kUndefined;
  int trafficClass = kUndefined;
  const char* commName = nullptr;
  int collnetEnable = kUndefined;
  int CTAPolicy = kUndefined;
  int shrinkShare = kUndefined;
  int nvlsCTAs = kUndefined;
  int nChannelsPerNetPeer = kUndefined;
  int nvlinkCentricSched = kUndefined;
};
static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, cgaClusterSize) == 20 && offsetof(ncclConfig_t, minCTAs) == 24 &&
              offsetof(ncclConfig_t, maxCTAs) == 28);
static_assert(offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40);
static_assert(offsetof(ncclConfig_t, trafficClass) == 44 && offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, collnetEnable) == 56 && offsetof(ncclConfig_t, CTAPolicy) == 60);
static_assert(offsetof(ncclConfig_t, shrinkShare) == 64 && offsetof(ncclConfig_t, nvlsCTAs) == 68);
static_assert(offsetof(ncclConfig_t, nChannelsPerNetPeer) == 72 && offsetof(ncclConfig_t, nvlinkCentricSched) == 76);
static_assert(sizeof(ncclConfig_t) == 80 && sizeof(ncclUniqueId) == 128);

struct Library {
  using Stream = device::cuda::CUstream;  // cudaStream_t is the same
  SharedLibrary library;
  template <class F>
  using Function = F*;
  Function<ncclResult_t(int*)> version = library.function<ncclResult_t(int*)>("ncclGetVersion");
  Function<ncclResult_t(ncclUniqueId*)> unique_id = library.function<ncclResult_t(ncclUniqueId*)>("ncclGetUniqueId");
  using Init = ncclResult_t(ncclComm_t*, int ranks, ncclUniqueId, int rank, ncclConfig_t*);
  Init* init = library.function<Init>("ncclCommInitRankConfig");
  Function<ncclResult_t(ncclComm_t, ncclResult_t*)> async_error =
      library.function<ncclResult_t(ncclComm_t, ncclResult_t*)>("ncclCommGetAsyncError");
  Function<ncclResult_t(ncclComm_t)> finalize = library.function<ncclResult_t(ncclComm_t)>("ncclCommFinalize");
  Function<ncclResult_t(ncclComm_t)> destroy = library.function<ncclResult_t(ncclComm_t)>("ncclCommDestroy");
  Function<ncclResult_t(ncclComm_t)> abort = library.function<ncclResult_t(ncclComm_t)>("ncclCommAbort");
  using AllReduce = ncclResult_t(const void* send, void* receive, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t, Stream);
  AllReduce* all_reduce = library.function<AllReduce>("ncclAllReduce");
  AllReduce* reduce_scatter = library.function<AllReduce>("ncclReduceScatter");  // count: of what is received
  using AllGather = ncclResult_t(const void* send, void* receive, size_t count, ncclDataType_t, ncclComm_t, Stream);
  AllGather* all_gather = library.function<AllGather>("ncclAllGather");  // count: of what is sent
  using Broadcast = ncclResult_t(const void* send, void* receive, size_t count, ncclDataType_t, int root, ncclComm_t, Stream);
  Broadcast* broadcast = library.function<Broadcast>("ncclBroadcast");
  using Send = ncclResult_t(const void*, size_t count, ncclDataType_t, int peer, ncclComm_t, Stream);
  Send* send = library.function<Send>("ncclSend");
  using Receive = ncclResult_t(void*, size_t count, ncclDataType_t, int peer, ncclComm_t, Stream);
  Receive* receive = library.function<Receive>("ncclRecv");
  Function<ncclResult_t()> group_start = library.function<ncclResult_t()>("ncclGroupStart");
  Function<ncclResult_t()> group_end = library.function<ncclResult_t()>("ncclGroupEnd");
  Function<const char*(ncclResult_t)> error_string = library.function<const char*(ncclResult_t)>("ncclGetErrorString");
  Function<const char*(ncclComm_t)> last_error = library.function<const char*(ncclComm_t)>("ncclGetLastError");
};

// Opened once, never closed. EnvironmentError where it is missing or older than 2.19; a later call tries again.
const Library& library();

}  // namespace toroid::distributed::nccl
