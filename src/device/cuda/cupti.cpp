#include "device/cuda/cupti.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/shared_library.h"
#include "device/cuda/library_folder.h"

namespace toroid::device::cuda {
namespace {

// The part of cupti.h that is used here, by its own names and with its own values.
using CUptiResult = int;
enum : uint32_t {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_KERNEL = 3,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10
};
constexpr uint32_t kTraced[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
constexpr uint32_t CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1;
constexpr size_t kBufferBytes = size_t{1} << 20, kBufferAlignment = 8;

using RequestBuffer = void(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CompleteBuffer = void(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);

struct Cupti {
  SharedLibrary library;
  template <class F>
  using Function = F*;
  Function<CUptiResult(uint32_t*)> version = library.function<CUptiResult(uint32_t*)>("cuptiGetVersion");
  Function<CUptiResult(CUptiResult, const char**)> result_string =
      library.function<CUptiResult(CUptiResult, const char**)>("cuptiGetResultString");
  Function<CUptiResult(uint32_t)> enable = library.function<CUptiResult(uint32_t)>("cuptiActivityEnable");
  Function<CUptiResult(uint32_t)> disable = library.function<CUptiResult(uint32_t)>("cuptiActivityDisable");
  Function<CUptiResult(RequestBuffer*, CompleteBuffer*)> set_callbacks =
      library.function<CUptiResult(RequestBuffer*, CompleteBuffer*)>("cuptiActivityRegisterCallbacks");
  Function<CUptiResult(uint8_t*, size_t, void**)> next_record =
      library.function<CUptiResult(uint8_t*, size_t, void**)>("cuptiActivityGetNextRecord");
  Function<CUptiResult(uint32_t)> flush = library.function<CUptiResult(uint32_t)>("cuptiActivityFlushAll");
  Function<CUptiResult(void*, uint32_t, size_t*)> dropped =
      library.function<CUptiResult(void*, uint32_t, size_t*)>("cuptiActivityGetNumDroppedRecords");

  void check(CUptiResult status, const char* doing) const {
    if (status == 0) return;
    const char* words = nullptr;
    result_string(status, &words);
    fail<EnvironmentError>("CUPTI ({}) refuses {}: {} ({})", library.path(), doing, words ? words : "no reason", status);
  }
};

const Cupti& cupti() {
  static constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  static std::mutex mutex;
  static Cupti* opened = nullptr;  // never destroyed: it calls back
  std::lock_guard lock(mutex);
  if (!opened)
    opened = new Cupti{SharedLibrary("CUPTI, which records what NVIDIA GPUs do,", kNames, library_folder(kNames, "cuda_cupti"),
                                     "Install it (Python package nvidia-cuda-cupti, or the CUDA toolkit) and name the folder of "
                                     "libcupti.so in TOROID_CUDA_DIR.")};
  return *opened;
}

// What CUPTI has handed over, from threads of its own.
struct Collected {
  std::mutex mutex;
  std::vector<Activity> activities;
  size_t lost = 0;
  bool tracing = false;
};
Collected& collected() {
  static Collected& all = *new Collected;
  return all;
}

void request(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void complete(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  const Cupti& c = cupti();
  Collected& all = collected();
  std::lock_guard lock(all.mutex);
  void* record = nullptr;
  while (c.next_record(buffer, valid, &record) == 0) append_activity(record, all.activities);
  size_t lost = 0;
  if (c.dropped(context, stream, &lost) == 0) all.lost += lost;
  std::free(buffer);
}

std::string readable(const char* name) {
  int status = -1;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

void disable_all(const Cupti& c) {
  for (uint32_t kind : kTraced) c.disable(kind);
}

}  // namespace

void append_activity(const void* record, std::vector<Activity>& out) {
  const uint32_t kind = *static_cast<const uint32_t*>(record);
  if (kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto& r = *static_cast<const CuptiKernelRecord*>(record);
    out.push_back({Activity::Kind::Kernel, readable(r.name ? r.name : "?"), int64_t(r.start), int64_t(r.end), 0});
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMCPY || kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& r = *static_cast<const CuptiTransferRecord*>(record);
    const bool fills = kind == CUPTI_ACTIVITY_KIND_MEMSET;
    out.push_back(
        {fills ? Activity::Kind::Fill : Activity::Kind::Copy, fills ? "fill" : "copy", int64_t(r.start), int64_t(r.end), int64_t(r.bytes)});
  }
}

std::string cupti_version() {
  uint32_t v = 0;
  cupti().check(cupti().version(&v), "its version");
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

ActivityTrace::ActivityTrace() {
  const Cupti& c = cupti();
  Collected& all = collected();
  {
    std::lock_guard lock(all.mutex);
    TOROID_CHECK(!all.tracing, "two traces at a time");
    all.tracing = true;
    all.activities.clear();
    all.lost = 0;
  }
  try {
    c.check(c.set_callbacks(request, complete), "to hand over records");
    for (uint32_t kind : kTraced) c.check(c.enable(kind), "to record what the GPU does");
  } catch (...) {
    disable_all(c);
    std::lock_guard lock(all.mutex);
    all.tracing = false;
    throw;
  }
}

ActivityTrace::~ActivityTrace() {
  disable_all(cupti());
  cupti().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::lock_guard lock(collected().mutex);
  collected().tracing = false;
}

std::vector<Activity> ActivityTrace::take() {
  const Cupti& c = cupti();
  c.check(c.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "to hand over its records");
  Collected& all = collected();
  std::vector<Activity> out;
  std::lock_guard lock(all.mutex);
  if (all.lost > 0) fail<EnvironmentError>("CUPTI lost {} records of what the GPU did", std::exchange(all.lost, 0));
  out.swap(all.activities);
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.start_ns < b.start_ns; });
  return out;
}

}  // namespace toroid::device::cuda
