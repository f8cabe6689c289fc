// What executable graphs take of a GPU's memory: a model of the driver, which does not say it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace toroid::device::cuda {

// The driver keeps four kinds of things of a graph, each in chunks of 2 MiB that graphs share and that it never returns to the device; a
// graph's things of one kind lie in one chunk. Sizes as measured with driver 580 (CUDA 13.0) on an H200: the model gives the chunks of 200
// graphs of 1 to 64 graphs of 400 and 30 of 1000 launches exactly.
class GraphMemory {
 public:
  static constexpr int kKinds = 4;
  static constexpr int64_t kChunk = int64_t{2} << 20;
  using Places = std::array<size_t, kKinds>;  // the chunk of each kind

  GraphMemory();
  // Bytes that a graph of so many launches counts for: its parts of chunks that are full of such graphs.
  static int64_t share(size_t launches);
  // Where one more graph lies. taken: bytes that the device had less after it was made.
  Places add(size_t launches, int64_t taken);
  void remove(size_t launches, const Places& places);
  // Of the device's memory, by this process' graphs so far: as the model has it, and as it was measured.
  int64_t forecast() const;
  int64_t taken() const;

 private:
  mutable std::mutex mutex_;
  std::array<std::vector<int64_t>, kKinds> free_;  // bytes of each chunk
  int64_t forecast_ = 0, taken_ = 0;
};

}  // namespace toroid::device::cuda
