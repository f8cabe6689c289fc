#include "device/cuda/gpu.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/options.h"
#include "device/cuda/cuda_runtime.h"
#include "device/cuda/lap.h"
#include "device/errors.h"
#include "device/index_faults.h"

namespace toroid::device::cuda {
namespace {
constexpr size_t kNumberBytes = 16;
}

Gpu::Gpu(int index) : driver_(driver()), index_(index) {
  int count = 0;
  driver_.check(driver_.device_count(&count), "counting GPUs");
  if (index < 0 || index >= std::min(count, static_cast<int>(kMostGpus)))
    fail<EnvironmentError>("there is no GPU cuda:{}: the driver finds {} (cuda:0 to cuda:{})", index, count, count - 1);
  driver_.check(driver_.device(&device_, index), "looking up the GPU");
  const CUdevice device = device_;
  char name[256] = {};
  driver_.check(driver_.device_name(name, sizeof name, device), "asking for the GPU's name");
  info_.name = name;
  char bus[32] = {};
  driver_.check(driver_.device_bus(bus, sizeof bus, device), "asking where the GPU is");
  info_.bus = bus;
  driver_.check(driver_.version(&info_.driver_version), "asking for the driver's version");
  driver_.check(driver_.device_memory(&info_.memory_bytes, device), "asking for the GPU's memory");
  auto attribute = [&](Attribute a) {
    int value = 0;
    driver_.check(driver_.device_attribute(&value, static_cast<int>(a), device), "asking for an attribute of the GPU");
    return value;
  };
  info_.multiprocessors = attribute(Attribute::MultiprocessorCount);
  info_.l2_bytes = static_cast<size_t>(attribute(Attribute::L2CacheSize));
  info_.shared_bytes = static_cast<size_t>(attribute(Attribute::SharedMemoryPerBlockOptin));
  const int major = attribute(Attribute::ComputeCapabilityMajor), minor = attribute(Attribute::ComputeCapabilityMinor);
  info_.architecture = fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");  // "a": with the instructions of that chip alone
  if (major < 8) fail<EnvironmentError>("{} has compute capability {}.{}; 8.0 or later is needed", info_.name, major, minor);
  driver_.check(driver_.retain_context(&context_, device), "opening the GPU");
  use();
  constexpr unsigned kNonBlocking = 1;
  for (CUstream* s : {&stream_, &recording_stream_}) driver_.check(driver_.create_stream(s, kNonBlocking), "making a stream");
  memory_ = std::make_unique<DeviceMemory>(std::make_unique<Source>(*this));
}

Gpu::~Gpu() = default;

void Gpu::use() const {
  static thread_local CUcontext current = nullptr;
  if (current == context_) return;
  driver_.check(driver_.set_context(context_), "switching to the GPU");
  current = context_;
}

void Gpu::reach(const Gpu& other) {
  use();
  int can = 0;
  driver_.check(driver_.can_reach(&can, device_, other.device_), "asking which GPUs reach each other");
  if (!can) fail<EnvironmentError>("cuda:{} cannot reach the memory of cuda:{}: no link joins them", index_, other.index_);
  const CUresult status = driver_.enable_reach(other.context_, 0);
  if (status != kPeerAccessAlreadyEnabled) driver_.check(status, "reaching the memory of another GPU");
}

namespace {

// The one of now, null: the driver. Old ones stay, as memory goes back to them.
std::atomic<const SegmentAllocator*> segment_allocator{nullptr};

}  // namespace

void set_segment_allocator(const SegmentAllocator* allocator) {
  static std::mutex mutex;
  static auto& given = *new std::deque<SegmentAllocator>;
  const std::lock_guard lock(mutex);
  if (allocator) given.push_back(*allocator);
  segment_allocator = allocator ? &given.back() : nullptr;
}

class Gpu::Source final : public MemorySource {
 public:
  explicit Source(Gpu& gpu) : gpu_(gpu), driver_(gpu.driver_) {}
  Device device() const override { return Device::cuda(gpu_.index_); }
  std::string description() const override { return fmt::format("cuda:{} ({})", gpu_.index_, gpu_.info_.name); }
  size_t total_bytes() const override { return gpu_.info_.memory_bytes; }
  void* allocate(size_t bytes) override {
    gpu_.use();
    const Relaxed relaxed(driver_);
    if (const SegmentAllocator* from = segment_allocator.load()) {
      void* p = nullptr;
      if (from->allocate(bytes, &p) != 0 || !p) return nullptr;
      const std::lock_guard lock(mutex_);
      givers_[p] = from;
      return p;
    }
    CUdeviceptr p = 0;
    const CUresult status = driver_.allocate(&p, bytes);
    if (status == kOutOfMemory) return nullptr;
    driver_.check(status, "allocating memory");
    return reinterpret_cast<void*>(p);
  }
  void free(void* p, size_t) override {
    gpu_.use();
    if (const SegmentAllocator* to = giver_of(p)) {
      if (to->release(p) != 0) fail<EnvironmentError>("{}: the allocator of the segments takes none back", description());
      return;
    }
    driver_.check(driver_.free(reinterpret_cast<CUdeviceptr>(p)), "freeing memory");
  }
  bool can_free() const override { return !runtime().captures(); }
  void synchronize() override { runtime().wait_for_work(); }
  StreamKey current_stream() const override { return gpu_.stream(); }
  std::shared_ptr<void> mark(StreamKey stream) override { return gpu_.mark(stream); }
  bool passed(void* mark) override { return gpu_.passed(mark); }

 private:
  Runtime& runtime() const { return cuda::runtime(gpu_.index_); }
  // The allocator that gave a segment, which is not remembered any longer; null: the driver.
  const SegmentAllocator* giver_of(void* p) {
    const std::lock_guard lock(mutex_);
    const auto at = givers_.find(p);
    if (at == givers_.end()) return nullptr;
    const SegmentAllocator* giver = at->second;
    givers_.erase(at);
    return giver;
  }

  Gpu& gpu_;
  const Driver& driver_;
  std::mutex mutex_;
  std::map<void*, const SegmentAllocator*> givers_;
};

size_t Gpu::free_bytes() const {
  use();
  size_t free = 0, total = 0;
  driver_.check(driver_.memory_info(&free, &total), "asking for free memory");
  return free;
}

// A point in a stream's work that can be asked for later.
std::shared_ptr<void> Gpu::mark(StreamKey stream) {
  use();
  CUevent event = nullptr;
  constexpr unsigned kNoTiming = 2;
  driver_.check(driver_.create_event(&event, kNoTiming), "making an event");
  std::shared_ptr<void> out(event, [this](void* e) { driver_.destroy_event(static_cast<CUevent>(e)); });
  driver_.check(driver_.record_event(event, static_cast<CUstream>(const_cast<void*>(stream))), "recording an event");
  return out;
}

bool Gpu::passed(void* mark) {
  use();
  const Relaxed relaxed(driver_);
  const CUresult status = driver_.query_event(static_cast<CUevent>(mark));
  if (status != kNotReady) driver_.check(status, "asking whether an event has happened");
  return status == kSuccess;
}

void Gpu::copy_in(void* to, const void* from, size_t bytes) {
  use();
  const auto address = reinterpret_cast<CUdeviceptr>(to);
  if (bytes <= kNumberBytes && bytes % sizeof(unsigned) == 0) {  // numbers: as values in the stream, for which nobody waits
    for (size_t i = 0; i < bytes; i += sizeof(unsigned)) {
      unsigned word;
      std::memcpy(&word, static_cast<const std::byte*>(from) + i, sizeof word);
      driver_.check(driver_.fill_words(address + i, word, 1, stream()), "copying to the GPU");
    }
    return;
  }
  refuse_in_capture(Device::cuda(index_), "copying to the GPU, which waits for it,");
  wait_watched();
  driver_.check(driver_.copy_in(address, from, bytes, stream()), "copying to the GPU");
  // Memory that is not pinned has been read when the call returns, except for the last part, which the driver may stage.
  synchronize(stream());
}

void Gpu::copy_out(void* to, const void* from, size_t bytes) {
  use();
  refuse_in_capture(Device::cuda(index_), "copying from the GPU, which waits for it,");
  wait_watched();
  driver_.check(driver_.copy_out(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream()), "copying from the GPU");
  synchronize(stream());
  check_index_faults(Device::cuda(index_));
}

void Gpu::copy_within(void* to, const void* from, size_t bytes) {
  use();
  driver_.check(driver_.copy_within(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream()),
                "copying on the GPU");
}

void Gpu::fill_zero(void* to, size_t bytes) {
  use();
  driver_.check(driver_.fill(reinterpret_cast<CUdeviceptr>(to), 0, bytes, stream()), "clearing memory");
}

Kernel Gpu::load(const std::string& cubin, const std::string& function, int shared_bytes, bool overlaps) const {
  use();
  const Relaxed relaxed(driver_);
  CUmodule module = nullptr;
  driver_.check(driver_.load_module(&module, cubin.data()), "loading kernel " + function);
  Kernel k;
  k.module = std::shared_ptr<const void>(module, [this](const void* m) {
    use();
    driver_.unload_module(static_cast<CUmodule>(const_cast<void*>(m)));
  });
  driver_.check(driver_.module_function(&k.function, module, function.c_str()), "finding kernel " + function);
  constexpr int kMaxDynamicSharedSize = 8, kPreferredCarveout = 9;
  // Kernels that overlap others all alike: a multiprocessor runs empty before it divides its memory between cache and shared memory in
  // another way. Between kernels that do not overlap that costs nothing: those that need little shared memory leave it to the driver.
  if (overlaps || shared_bytes > 0)
    driver_.check(driver_.set_function_attribute(k.function, kPreferredCarveout, static_cast<int>(get_option(options::kCudaSharedPercent))),
                  "dividing the memory for " + function);
  if (shared_bytes > 0)
    driver_.check(driver_.set_function_attribute(k.function, kMaxDynamicSharedSize, shared_bytes), "giving shared memory to " + function);
  return k;
}

void Gpu::launch(const Kernel& kernel, const LaunchShape& shape, std::span<void* const> arguments) {
  if (shape.blocks <= 0) return;
  TOROID_CHECK(shape.blocks < (int64_t{1} << 31), "a launch of {} blocks", shape.blocks);
  use();
  constexpr int kProgrammaticStreamSerialization = 6;
  CUlaunchAttribute overlaps = {kProgrammaticStreamSerialization, {1}};
  const CUlaunchConfig config = {{static_cast<unsigned>(shape.blocks), 1, 1},
                                 {static_cast<unsigned>(shape.threads), 1, 1},
                                 static_cast<unsigned>(shape.shared_bytes),
                                 stream(),
                                 &overlaps,
                                 shape.overlaps ? 1u : 0u};
  driver_.check(driver_.launch(&config, kernel.function, const_cast<void**>(arguments.data()), nullptr), "launching a kernel");
}

void Gpu::wait_watched() {
  if (watched_ || get_option(options::kReplayTimeoutMs) > 0) synchronize(stream());
}

void Gpu::synchronize(CUstream stream) {
  use();
  const int64_t limit_ms = get_option(options::kReplayTimeoutMs);
  if (limit_ms == 0 && !watched_) return driver_.check(driver_.synchronize(stream), "waiting for the GPU");
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kBetweenWatches{10};
  const auto begin = Clock::now(), end = begin + std::chrono::milliseconds(limit_ms);
  auto next = begin + kBetweenWatches;
  for (;;) {
    const CUresult status = driver_.query_stream(stream);
    const auto now = Clock::now();
    if (status != kNotReady) {
      driver_.check(status, "waiting for the GPU");
      return ask_watches(now - begin, true);
    }
    if (watched_ && now >= next) {
      ask_watches(now - begin, false);
      next = now + kBetweenWatches;
    }
    if (limit_ms > 0 && now > end)
      fail_on_device(DeviceErrorCode::LaunchTimeout, "waiting for the GPU",
                     fmt::format("its work was not done after {} ms (option replay_timeout_ms)", limit_ms));
    std::this_thread::yield();
  }
}

void Gpu::ask_watches(std::chrono::nanoseconds waited, bool is_over) {
  for (auto& ask : watches()) (*ask)(std::chrono::duration_cast<std::chrono::milliseconds>(waited), is_over);
}

std::shared_ptr<const Gpu::Watch> Gpu::watch(Watch watch) {
  auto out = std::make_shared<const Watch>(std::move(watch));
  std::lock_guard lock(watches_mutex_);
  watches_.push_back(out);
  watched_ = true;
  return out;
}

std::vector<std::shared_ptr<const Gpu::Watch>> Gpu::watches() {
  std::lock_guard lock(watches_mutex_);
  std::vector<std::shared_ptr<const Watch>> out;
  std::erase_if(watches_, [&](auto& w) {
    auto held = w.lock();
    if (held) out.push_back(std::move(held));
    return w.expired();
  });
  watched_ = !watches_.empty();
  return out;
}

double Gpu::time_ms(const std::function<void()>& work) {
  Lap lap(*this);
  lap.time(work);
  return lap.wait_ms();
}

Gpu& gpu(int index) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Gpu>>& gpus = *new std::map<int, std::unique_ptr<Gpu>>;  // never destroyed: tensors may outlive main
  std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& g = gpus[index];
  if (!g) g = std::make_unique<Gpu>(index);
  return *g;
}

}  // namespace toroid::device::cuda
