// What an NVIDIA GPU did, and when, as CUPTI saw it: kernels (those of replayed graphs too), copies and fills.
//
// The library (libcupti.so: see library_folder.h for where it is looked for) is opened at the first use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toroid::device::cuda {

struct Activity {
  enum class Kind : uint8_t { Kernel, Copy, Fill };
  Kind kind = Kind::Kernel;
  std::string name;  // of the kernel's function; "copy", "fill"
  int64_t start_ns = 0, end_ns = 0;
  int64_t bytes = 0;  // of a copy or fill
};

// "13.0.1". EnvironmentError that says what to install where the library is missing.
std::string cupti_version();

// What all GPUs do during the life of this object; one at a time.
class ActivityTrace {
 public:
  // EnvironmentError where CUPTI is missing or refuses, as it does in some virtual machines, and beside another profiler.
  ActivityTrace();
  ~ActivityTrace();
  ActivityTrace(const ActivityTrace&) = delete;
  ActivityTrace& operator=(const ActivityTrace&) = delete;

  // What ended since the last call, by its start, for work that the caller has waited for. EnvironmentError where CUPTI lost some.
  std::vector<Activity> take();
};

// The records of CUPTI that are read here: the first fields of CUpti_ActivityKernel6 and later; of CUpti_ActivityMemcpy and
// CUpti_ActivityMemset, which agree so far.
struct CuptiKernelRecord {
  uint32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  uint32_t global_cache_requested, global_cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_of_thread, local_of_all, correlation;
  int64_t grid_id;
  const char* name;
};
struct CuptiTransferRecord {
  uint32_t kind, how;
  uint64_t bytes, start, end;
};
// Of a record; nothing for other kinds.
void append_activity(const void* record, std::vector<Activity>& out);

}  // namespace toroid::device::cuda
