// One NVIDIA GPU: memory, copies and launches, in order on one stream.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/driver.h"
#include "device/cuda/graph_memory.h"
#include "device/cuda/tensor_map.h"
#include "device/memory.h"

namespace toroid::device::cuda {

// A default one is an H100 or H200.
struct GpuInfo {
  std::string name;                     // "NVIDIA H200"
  std::string architecture = "sm_90a";  // what NVRTC compiles for
  std::string bus;                      // "0000:1b:00.0": which of the host's it is
  int driver_version = 0;               // 13000 is CUDA 13.0
  int multiprocessors = 132;
  size_t memory_bytes = 0, l2_bytes = size_t{50} << 20, shared_bytes = 227 << 10;  // shared: of a block
  // Has the instructions of Hopper: wgmma, copies by tensor maps, launches that overlap.
  bool is_hopper() const { return architecture == "sm_90a"; }
};

// A function of a loaded cubin, which it keeps loaded.
struct Kernel {
  CUfunction function = nullptr;
  std::shared_ptr<const void> module;
};

struct LaunchShape {
  int64_t blocks = 1;
  int threads = 1;        // of a block
  int shared_bytes = 0;   // dynamic shared memory of a block
  bool overlaps = false;  // programmatic dependent launch: the kernel waits for its predecessor itself
};

class Gpu;

// A graph that can be launched.
class ExecutableOf {
 public:
  ExecutableOf(Gpu& gpu, CUgraph graph);
  ~ExecutableOf();
  ExecutableOf(const ExecutableOf&) = delete;
  ExecutableOf& operator=(const ExecutableOf&) = delete;
  CUgraphExec get() const { return executable_; }
  size_t nodes() const { return nodes_; }

 private:
  Gpu& gpu_;
  CUgraphExec executable_ = nullptr;
  size_t nodes_ = 0;
  GraphMemory::Places places_ = {};
};

// Work that was recorded once and runs as one launch.
class Graph {
 public:
  Graph(Gpu& gpu, CUgraph recorded) : recorded_(recorded), executable_(gpu, recorded) {}
  // Gives a recorded launch other arguments, from the next run on.
  void set_arguments(CUgraphNode node, const Kernel& kernel, const LaunchShape& shape, std::span<void* const> arguments);
  size_t nodes() const { return executable_.nodes(); }

 private:
  friend class Gpu;
  struct Recorded {
    CUgraph graph;
    ~Recorded() { driver().destroy_graph(graph); }
  } recorded_;
  ExecutableOf executable_;
};

// The calling thread may meanwhile allocate and load modules, although work is captured.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~Relaxed() { driver_.exchange_capture_mode(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  const Driver& driver_;
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED, then the one before
};

// Where the segments of GPUs' memory come from, in place of the driver: an allocator of the same process, which counts them with its own.
// C functions, called by any thread with the GPU's context current; 0: done.
struct SegmentAllocator {
  int32_t (*allocate)(uint64_t bytes, void** memory) = nullptr;  // at a multiple of 512
  int32_t (*release)(void* memory) = nullptr;                    // nothing that was started uses it any more
};
// From now on; null: the driver again. What an allocator gave goes back to it, so that it must work as long as that is in use.
void set_segment_allocator(const SegmentAllocator* allocator);

// What is to be copied to a GPU.
struct HostBlock {
  void* to = nullptr;
  const void* from = nullptr;  // ordinary memory
  size_t bytes = 0;
};

// Any number of threads. What they start runs in the order of the calls, after the calls have returned; synchronize() waits for it.
class Gpu {
 public:
  explicit Gpu(int index);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuInfo& info() const { return info_; }
  const Driver& driver_functions() const { return driver_; }

  // Its memory. What is freed may be handed out again at once for work of the same stream, whose order keeps the users apart.
  DeviceMemory& memory() const { return *memory_; }
  std::shared_ptr<void> allocate(size_t bytes) { return memory_->allocate(bytes); }
  std::shared_ptr<void> mark(StreamKey stream);  // see MemorySource
  bool passed(void* mark);
  size_t free_bytes() const;  // that the driver still has to give, to this process and others

  void copy_in(void* to, const void* from, size_t bytes);   // from may be changed when the call returns
  void copy_out(void* to, const void* from, size_t bytes);  // waits for it
  void copy_within(void* to, const void* from, size_t bytes);

  // The same as copy_in for much memory, many times as fast; done when the call returns.
  void upload(std::span<const HostBlock> blocks);

  void fill_zero(void* to, size_t bytes);

  // shared_bytes: the most dynamic shared memory that a launch will ask for. overlaps: as launches will say.
  Kernel load(const std::string& cubin, const std::string& function, int shared_bytes = 0, bool overlaps = false) const;
  // arguments: addresses of the kernel's parameters.
  void launch(const Kernel& kernel, const LaunchShape& shape, std::span<void* const> arguments);

  // Records what `work`, on this thread, starts here instead of starting it. Nothing in it may wait for the GPU or allocate.
  std::unique_ptr<Graph> record(const std::function<void()>& work);
  // Within `work`: what is started next follows these launches alone, not the latest one.
  void record_after(std::span<const CUgraphNode> nodes);
  // Within `work`: the latest launch on the calling thread's stream, as a node of the graph.
  CUgraphNode recorded_node() const;
  // Whether a capture of the calling thread's stream was ended by a call that none can hold.
  bool capture_is_broken() const;
  void launch(const Graph& graph);
  GraphMemory& graph_memory() { return graph_memory_; }

  // The stream of the calling thread's work, for libraries too.
  CUstream stream() const {
    CUstream s = current_[static_cast<size_t>(index_)];
    return s ? s : stream_;
  }
  CUstream default_stream() const { return stream_; }
  // Makes another stream that of the calling thread's work (null: the default one); returns what it was.
  CUstream set_stream(CUstream s) { return std::exchange(current_[static_cast<size_t>(index_)], s); }
  // Waits until all work of the default stream, or of another one, is done. DeviceError where it takes longer than the option
  // replay_timeout_ms allows.
  void synchronize() { synchronize(stream_); }
  void synchronize(CUstream stream);
  // What whoever waits for this GPU asks again and again, with how long the wait lasts, and once when it is over: it throws where the work
  // cannot end by itself, or is of no use. It is asked as long as the caller keeps what this returns.
  using Watch = std::function<void(std::chrono::milliseconds waited, bool is_over)>;
  std::shared_ptr<const Watch> watch(Watch watch);
  void use() const;  // makes this GPU the calling thread's
  // Kernels of this GPU may use the memory of another one. EnvironmentError where the two have no way to each other.
  void reach(const Gpu& other);
  // Milliseconds that the GPU spends on what `work` starts.
  double time_ms(const std::function<void()>& work);

 private:
  class Source;
  // Before copies of memory that is not pinned, which wait in the driver for what is under way: it asks no watch, and knows no limit.
  void wait_watched();
  std::vector<std::shared_ptr<const Watch>> watches();
  void ask_watches(std::chrono::nanoseconds waited, bool is_over);
  static constexpr size_t kMostGpus = 64;
  struct Stage;

  const Driver& driver_;
  int index_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr, recording_stream_ = nullptr;
  std::mutex recordings_;                                                              // one at a time
  static inline constinit thread_local std::array<CUstream, kMostGpus> current_ = {};  // of this thread, by index; null: the default one
  GpuInfo info_;
  std::unique_ptr<DeviceMemory> memory_;
  GraphMemory graph_memory_;
  std::mutex watches_mutex_;  // of:
  std::vector<std::weak_ptr<const Watch>> watches_;
  std::atomic<bool> watched_{false};
  std::mutex upload_mutex_;  // of:
  std::vector<std::shared_ptr<Stage>> stages_;
};

// A tensor map with its numbers known, in bytes and in the order of the driver's function; and its encoding for a buffer at `address`.
struct TensorMapSizes {
  static constexpr size_t kMostDimensions = 5;
  DType dtype = DType::F32;
  bool tf32 = false;
  int swizzle = 0;
  int64_t offset = 0;
  uint32_t rank = 0;
  uint64_t sizes[kMostDimensions] = {}, strides[kMostDimensions] = {};
  uint32_t box[kMostDimensions] = {};
  std::optional<TensorMap::Window> window;
};
TensorMapSizes evaluate(const TensorMap& map, const std::function<int64_t(const Expr&)>& value);
EncodedTensorMap encode(const TensorMapSizes& map, void* address);

// The GPU of an index, made at the first call. EnvironmentError where there is none.
Gpu& gpu(int index);

}  // namespace toroid::device::cuda
