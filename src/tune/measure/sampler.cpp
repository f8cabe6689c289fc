#include "tune/measure/sampler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/thread_pool.h"
#include "device/cpu/isa.h"
#include "device/cuda/gpu.h"
#include "toroid/device_graph.h"

namespace toroid::tune {
namespace {

int64_t gap_bytes(size_t i) { return static_cast<int64_t>(i % 7 * 28 + 4) << 10; }

// The inputs in several places of memory, with gaps of different sizes between them: as many as have most_bytes. What alone has more than
// `large` bytes is in all of them the same.
std::vector<std::vector<Tensor>> places_of(std::vector<Tensor> inputs, const Device& device, size_t most, size_t most_bytes, size_t large) {
  const auto bytes_of = [](const Tensor& t) { return static_cast<size_t>(t.numel()) * size_of(t.dtype()); };
  size_t bytes = 1;
  for (auto& t : inputs) bytes += bytes_of(t) > large ? 0 : bytes_of(t);
  const size_t count = std::clamp<size_t>(most_bytes / bytes, 1, most);
  std::vector<std::vector<Tensor>> places = {std::move(inputs)};
  std::vector<Tensor> gaps;
  while (places.size() < count) {
    std::vector<Tensor> copies;
    for (auto& t : places[0]) {
      if (bytes_of(t) > large) {
        copies.push_back(t);
        continue;
      }
      gaps.push_back(Tensor::empty({gap_bytes(gaps.size())}, DType::U8, device));
      copies.push_back(Tensor::empty(t.sizes(), t.dtype(), device));
      copy_elements(t, copies.back());
    }
    places.push_back(std::move(copies));
  }
  return places;
}

class CpuSampler {
 public:
  CpuSampler(Executables candidates, size_t count, std::vector<Tensor> inputs, const SamplerOptions& options)
      : candidates_(std::move(candidates)), options_(options), runs_(count, 0) {
    places_ = places_of(std::move(inputs), Device::cpu(), std::min(options.most_places, kMostPlaces), kPlacedBytes, kLarge);
    if (options.flush_bytes > 0) other_.resize(options.flush_bytes);
  }

  double sample(size_t i) {
    exec::Executable& e = candidates_(i);
    // Not where the sample before was, whose inputs the caches may hold: the reference is sampled more often than the others.
    const std::vector<Tensor>& inputs = places_[samples_++ % places_.size()];
    int& runs = runs_[i];
    if (runs == 0) {
      run(e, inputs);  // allocates, and touches its memory
      const double ns = time(e, inputs, 1);
      runs = other_.empty() ? static_cast<int>(std::clamp(std::ceil(options_.least_us * 1000 / std::max(ns, 1.0)), 1.0, 10'000.0)) : 1;
    }
    // The candidate that ran before has left the caches in its own state, and the inputs were elsewhere.
    if (other_.empty() && (runs > 1 || places_.size() > 1)) run(e, inputs);
    return time(e, inputs, runs);
  }

 private:
  // What the last level of the caches holds, so that the places do not push each other out: then all would be timed from memory.
  static constexpr size_t kMostPlaces = 8, kPlacedBytes = size_t{16} << 20, kLarge = size_t{4} << 20;

  void run(exec::Executable& e, const std::vector<Tensor>& inputs) { results_ = e.run(inputs, options_.symbols); }

  double time(exec::Executable& e, const std::vector<Tensor>& inputs, int runs) {
    flush();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i) run(e, inputs);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / runs;
  }

  void flush() {
    ThreadPool::global().parallel_for(static_cast<int64_t>(other_.size() / kPiece), [&](int64_t begin, int64_t end, int) {
      std::memset(other_.data() + begin * static_cast<int64_t>(kPiece), ++mark_, static_cast<size_t>(end - begin) * kPiece);
    });
  }

  static constexpr size_t kPiece = 1 << 16;
  Executables candidates_;
  SamplerOptions options_;
  std::vector<int> runs_;  // of a sample; 0: not warm yet
  std::vector<std::vector<Tensor>> places_;
  size_t samples_ = 0;
  std::vector<std::byte> other_;
  std::atomic<int> mark_{0};
  std::vector<Tensor> results_;  // of the latest run: until the next one has its own, as in a loop that keeps its results
};

// Replays graphs of several runs, between which the cache is flushed. What the flushes take is measured by a graph of flushes alone.
// Each place of the inputs has a recording of its own, whose results lie elsewhere, too.
class GpuSampler {
 public:
  GpuSampler(Executables candidates, size_t count, const Device& device, std::vector<Tensor> inputs, const SamplerOptions& options)
      : candidates_(std::move(candidates)), options_(options), device_(device), timed_(count) {
    places_ = places_of(std::move(inputs), device_, options_.most_places, kPlacedBytes, kPlacedBytes);
    if (options.flush_bytes == 0) return;
    other_ = Tensor::empty({static_cast<int64_t>(options.flush_bytes)}, DType::U8, device_);
    flushes_ = record([&] { flush(); }, kFlushed);
    std::vector<double> ns;
    for (int i = 0; i < 9; ++i) ns.push_back(replay(*flushes_, kFlushed));
    std::sort(ns.begin(), ns.end());
    flush_ns_ = ns[ns.size() / 2];
  }

  double sample(size_t i) {
    Timed& t = timed_[i];
    if (t.runs == 0) prepare(i);
    const size_t at = t.samples++ % places_.size();
    if (!t.graphs[at]) {
      exec::Executable& e = candidates_(i);
      t.graphs[at] = record([&] { flush(), e.run(places_[at], options_.symbols); }, t.runs, t.least_gap + gap_bytes(at));
    }
    // As long as the kernels are that short, the difference of two graphs says nothing.
    return std::max(replay(*t.graphs[at], t.runs) - flush_ns_, 10.0);
  }

 private:
  struct Timed {
    int runs = 0;  // of a sample; 0: not warm yet
    size_t samples = 0;
    int64_t least_gap = 0;                           // bytes: what is larger lies in other segments of memory than what is smaller
    std::vector<std::unique_ptr<CudaGraph>> graphs;  // of each place
  };
  static constexpr int kFlushed = 8, kMostRuns = 200;
  static constexpr size_t kPlacedBytes = size_t{256} << 20;

  device::cuda::Gpu& gpu() const { return device::cuda::gpu(device_.index); }
  void flush() {
    if (other_.defined()) gpu().fill_zero(other_.raw_data(), static_cast<size_t>(other_.numel()));
  }

  // gap: bytes in front of what is allocated while it is recorded.
  std::unique_ptr<CudaGraph> record(const std::function<void()>& once, int runs, int64_t gap = 0) {
    auto graph = std::make_unique<CudaGraph>(device_);
    graph->capture([&] {
      const Tensor before = Tensor::empty({gap}, DType::U8, device_);
      for (int i = 0; i < runs; ++i) once();
    });
    graph->replay();
    return graph;
  }

  void prepare(size_t i) {
    exec::Executable& e = candidates_(i);
    const auto run = [&] { e.run(places_[0], options_.symbols); };
    run();
    constexpr int64_t kLarge = 1 << 20;
    for (const Tensor& result : e.run(places_[0], options_.symbols))
      if (result.numel() * static_cast<int64_t>(size_of(result.dtype())) > kLarge) timed_[i].least_gap = kLarge;
    gpu().synchronize();
    const double ns = gpu().time_ms(run) * 1e6;  // with what the host takes for it, if that is longer
    const double wanted = std::ceil(options_.least_us * 1000 / std::max(ns, 1.0)) * 4;
    timed_[i].runs = other_.defined() ? kFlushed : static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(kMostRuns)));
    timed_[i].graphs.resize(places_.size());
  }

  // Nanoseconds of a run.
  double replay(CudaGraph& graph, int runs) {
    const double ms = gpu().time_ms([&] { graph.replay(); });
    gpu().synchronize();
    return ms * 1e6 / runs;
  }

  Executables candidates_;
  SamplerOptions options_;
  Device device_;
  std::vector<std::vector<Tensor>> places_;
  std::vector<Timed> timed_;
  Tensor other_;
  std::unique_ptr<CudaGraph> flushes_;
  double flush_ns_ = 0;
};

}  // namespace

Sample time_executables(Executables candidates, size_t count, const Device& device, std::vector<Tensor> inputs,
                        const SamplerOptions& options) {
  if (device.is_cuda()) {
    auto sampler = std::make_shared<GpuSampler>(std::move(candidates), count, device, std::move(inputs), options);
    return [sampler](size_t i) { return sampler->sample(i); };
  }
  auto sampler = std::make_shared<CpuSampler>(std::move(candidates), count, std::move(inputs), options);
  return [sampler](size_t i) { return sampler->sample(i); };
}

size_t cache_bytes(const Device& device) {
  if (device.is_cuda()) return 2 * device::cuda::gpu(device.index).info().l2_bytes;
  // What a CPU's last level holds for whom, the other processes of the machine decide: the caches of the cores alone.
  return 2 * device::host().l2_bytes * static_cast<size_t>(ThreadPool::global().size());
}

}  // namespace toroid::tune
