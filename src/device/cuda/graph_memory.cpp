#include "device/cuda/graph_memory.h"

#include <algorithm>

namespace toroid::device::cuda {
namespace {

struct Kind {
  int64_t bytes, per_launch;
  int64_t used;  // of the chunk that is there before the first graph
};
constexpr int64_t kKiB = 1024;
constexpr Kind kSizes[GraphMemory::kKinds] = {{64 * kKiB, 0, 0}, {47 * kKiB + 512, 0, 9 * (47 * kKiB + 512)}, {kKiB, 1792, 0}, {0, 512, 0}};

int64_t bytes_of(const Kind& k, size_t launches) { return k.bytes + k.per_launch * static_cast<int64_t>(launches); }
int64_t in_chunks(int64_t bytes) { return (bytes + GraphMemory::kChunk - 1) / GraphMemory::kChunk * GraphMemory::kChunk; }

}  // namespace

GraphMemory::GraphMemory() {
  for (size_t k = 0; k < kKinds; ++k) free_[k] = {kChunk - kSizes[k].used};
}

int64_t GraphMemory::share(size_t launches) {
  int64_t n = 0;
  for (auto& k : kSizes) {
    const int64_t bytes = std::max<int64_t>(bytes_of(k, launches), 1);
    n += bytes > kChunk ? in_chunks(bytes) : kChunk / (kChunk / bytes);
  }
  return n;
}

GraphMemory::Places GraphMemory::add(size_t launches, int64_t taken) {
  std::lock_guard lock(mutex_);
  Places places;
  for (size_t k = 0; k < kKinds; ++k) {
    auto& chunks = free_[k];
    const int64_t bytes = bytes_of(kSizes[k], launches);
    auto room = std::find_if(chunks.begin(), chunks.end(), [&](int64_t free) { return free >= bytes; });
    if (room == chunks.end()) {
      forecast_ += in_chunks(bytes);
      room = chunks.insert(chunks.end(), in_chunks(bytes));
    }
    *room -= bytes;
    places[k] = static_cast<size_t>(room - chunks.begin());
  }
  taken_ += std::max<int64_t>(taken, 0);
  return places;
}

void GraphMemory::remove(size_t launches, const Places& places) {
  std::lock_guard lock(mutex_);
  for (size_t k = 0; k < kKinds; ++k) free_[k][places[k]] += bytes_of(kSizes[k], launches);
}

int64_t GraphMemory::forecast() const {
  std::lock_guard lock(mutex_);
  return forecast_;
}

int64_t GraphMemory::taken() const {
  std::lock_guard lock(mutex_);
  return taken_;
}

}  // namespace toroid::device::cuda
