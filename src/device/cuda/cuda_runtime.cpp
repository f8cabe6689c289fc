#include "device/cuda/cuda_runtime.h"

#include <algorithm>

#include "base/check.h"
#include "device/errors.h"
#include "device/faults.h"

namespace toroid::device::cuda {
namespace {

struct CudaExecutable final : ExecutableGraph, ExecutableOf {
  using ExecutableOf::ExecutableOf;
};

class CudaGraphData final : public RecordedGraph {
 public:
  CudaGraphData(Gpu& gpu, CUgraph graph) : gpu_(gpu), driver_(gpu.driver_functions()), graph_(graph) {}
  ~CudaGraphData() override { driver_.destroy_graph(graph_); }

  size_t node_count() const override {
    size_t count = 0;
    driver_.check(driver_.graph_nodes(graph_, nullptr, &count), "counting the nodes of a graph");
    return count;
  }
  std::vector<GraphNode> nodes() const override;
  std::unique_ptr<ExecutableGraph> instantiate() const override { return std::make_unique<CudaExecutable>(gpu_, graph_); }
  std::string update(ExecutableGraph& executable) const override {
    gpu_.use();
    CUgraphExecUpdateResultInfo info = {};
    const CUresult status = driver_.update_executable(static_cast<CudaExecutable&>(executable).get(), graph_, &info);
    if (status == kSuccess) return "";
    if (status != kUpdateFailure) driver_.check(status, "updating a graph");
    constexpr const char* kReasons[] = {"",
                                        "unknown",
                                        "it has other nodes or edges",
                                        "a node is of another kind",
                                        "a node runs another function",
                                        "parameters of a node changed that cannot",
                                        "a node cannot be changed",
                                        "a function changed in a way that cannot be",
                                        "attributes of a node changed that cannot"};
    const auto reason = static_cast<size_t>(info.result);
    return reason < std::size(kReasons) && reason > 0 ? kReasons[reason] : kReasons[1];
  }

 private:
  Gpu& gpu_;
  const Driver& driver_;
  CUgraph graph_;
};

std::vector<GraphNode> CudaGraphData::nodes() const {
  gpu_.use();
  size_t count = node_count(), edges = 0;
  std::vector<CUgraphNode> handles(count);
  driver_.check(driver_.graph_nodes(graph_, handles.data(), &count), "listing the nodes of a graph");
  driver_.check(driver_.graph_edges(graph_, nullptr, nullptr, nullptr, &edges), "counting the edges of a graph");
  std::vector<CUgraphNode> from(edges), to(edges);
  std::vector<CUgraphEdgeData> data(edges);
  driver_.check(driver_.graph_edges(graph_, from.data(), to.data(), data.data(), &edges), "listing the edges of a graph");
  constexpr const char* kKinds[] = {"kernel", "copy", "fill", "host call", "graph", "empty", "wait", "record"};
  std::vector<GraphNode> out(count);
  for (size_t i = 0; i < count; ++i) {
    int type = 0;
    driver_.check(driver_.node_type(handles[i], &type), "asking for the kind of a node");
    out[i].kind = type >= 0 && type < static_cast<int>(std::size(kKinds)) ? kKinds[type] : "other";
    CUDA_KERNEL_NODE_PARAMS p = {};
    const char* name = nullptr;
    if (type == 0 && driver_.kernel_node(handles[i], &p) == kSuccess && p.function && driver_.function_name(&name, p.function) == kSuccess)
      out[i].name = name;
  }
  auto index = [&](CUgraphNode n) { return static_cast<size_t>(std::find(handles.begin(), handles.end(), n) - handles.begin()); };
  for (size_t e = 0; e < edges; ++e) out[index(to[e])].after.push_back(index(from[e]));
  return out;
}

class CudaEvent final : public Event {
 public:
  CudaEvent(Runtime& runtime, Gpu& gpu, bool timed) : Event(runtime, timed), gpu_(gpu), driver_(gpu.driver_functions()) {
    gpu_.use();
    constexpr unsigned kNoTiming = 2;
    driver_.check(driver_.create_event(&event_, timed ? 0 : kNoTiming), "making an event");
  }
  ~CudaEvent() override { driver_.destroy_event(event_); }
  CUevent get() const { return event_; }

 private:
  void do_record(Stream& stream) override;
  void do_synchronize() override {
    gpu_.use();
    driver_.check(driver_.wait_event(event_), "waiting for an event");
  }
  bool do_query() override { return gpu_.passed(event_); }
  double do_elapsed_ms(Event& end) override {
    float ms = 0;
    driver_.check(driver_.elapsed(&ms, event_, static_cast<CudaEvent&>(end).event_), "asking for the time of an event");
    return ms;
  }

  Gpu& gpu_;
  const Driver& driver_;
  CUevent event_ = nullptr;
};

// The driver's streams that are not in use, by priority. They are never destroyed: memory remembers which stream used it.
struct IdleStreams {
  std::mutex mutex;
  std::vector<std::pair<int, CUstream>> list;
};

class CudaStream final : public Stream {
 public:
  // idle: where the driver's stream goes afterwards; null: nowhere.
  CudaStream(Runtime& runtime, Gpu& gpu, CUstream stream, int priority, IdleStreams* idle)
      : Stream(runtime), gpu_(gpu), driver_(gpu.driver_functions()), stream_(stream), priority_(priority), idle_(idle) {}
  ~CudaStream() override {
    if (!idle_) return;
    std::lock_guard lock(idle_->mutex);
    idle_->list.emplace_back(priority_, stream_);
  }
  CUstream get() const { return stream_; }
  StreamKey key() const override { return stream_; }

 private:
  friend class CudaEvent;
  void do_synchronize() override { gpu_.synchronize(stream_); }
  bool do_query() override {
    gpu_.use();
    const CUresult status = driver_.query_stream(stream_);
    if (status != kNotReady) driver_.check(status, "asking whether a stream's work is done");
    return status == kSuccess;
  }
  void do_wait(Event& event) override {
    gpu_.use();
    driver_.check(driver_.stream_wait_event(stream_, static_cast<CudaEvent&>(event).get(), 0), "waiting for an event");
  }
  void do_launch(ExecutableGraph& graph) override {
    gpu_.use();
    driver_.check(driver_.launch_graph(static_cast<CudaExecutable&>(graph).get(), stream_), "replaying a graph");
  }
  void do_copy(void* to, const void* from, size_t bytes) override {
    gpu_.use();
    driver_.check(driver_.copy_any(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream_), "copying");
  }
  void do_begin_capture(CaptureErrorMode mode) override {
    gpu_.use();
    driver_.check(driver_.begin_capture(stream_, static_cast<int>(mode)), "beginning a capture");
  }
  std::unique_ptr<RecordedGraph> do_end_capture() override {
    gpu_.use();
    CUgraph graph = nullptr;
    const CUresult status = driver_.end_capture(stream_, &graph);
    if (status != kSuccess && graph) driver_.destroy_graph(graph);
    driver_.check(status, "capturing a graph");
    TOROID_CHECK(graph, "a capture has ended without a graph");
    return std::make_unique<CudaGraphData>(gpu_, graph);
  }

  Gpu& gpu_;
  const Driver& driver_;
  CUstream stream_;
  int priority_;
  IdleStreams* idle_;
};

void CudaEvent::do_record(Stream& stream) {
  gpu_.use();
  driver_.check(driver_.record_event(event_, static_cast<CudaStream&>(stream).get()), "recording an event");
}

class CudaRuntime final : public Runtime {
 public:
  explicit CudaRuntime(int index)
      : index_(index), gpu_(gpu(index)), default_stream_(std::make_shared<CudaStream>(*this, gpu_, gpu_.default_stream(), 0, nullptr)) {}
  Device device() const override { return Device::cuda(index_); }
  DeviceMemory& memory() override { return gpu_.memory(); }
  std::shared_ptr<Stream> make_stream(int priority) override {
    auto out = std::make_shared<CudaStream>(*this, gpu_, raw_stream(priority), priority, &idle_);
    std::lock_guard lock(mutex_);
    std::erase_if(streams_, [](auto& s) { return s.expired(); });
    streams_.push_back(out);
    return out;
  }
  std::shared_ptr<Stream> adopt_stream(void* native) override {
    const auto legacy = reinterpret_cast<CUstream>(uintptr_t{1});  // CU_STREAM_LEGACY: null is this GPU's own default stream here
    return std::make_shared<CudaStream>(*this, gpu_, native ? static_cast<CUstream>(native) : legacy, 0, nullptr);
  }
  std::shared_ptr<Event> make_event(bool timed) override { return std::make_shared<CudaEvent>(*this, gpu_, timed); }
  const std::shared_ptr<Stream>& default_stream() override { return default_stream_; }

 private:
  // Stream by stream, those without a handle too: the driver refuses to wait for a GPU on which anything is captured, by whomever.
  void do_synchronize() override {
    std::vector<CUstream> open;
    {
      std::lock_guard lock(mutex_);
      open = all_;
      for (auto& s : streams_)
        if (auto stream = s.lock(); stream && stream->capture()) std::erase(open, stream->get());
    }
    gpu_.synchronize();
    for (CUstream s : open) gpu_.synchronize(s);
  }
  CUstream raw_stream(int priority) {
    {
      std::lock_guard lock(idle_.mutex);
      auto it = std::find_if(idle_.list.begin(), idle_.list.end(), [&](auto& s) { return s.first == priority; });
      if (it != idle_.list.end()) {
        CUstream out = it->second;
        idle_.list.erase(it);
        return out;
      }
    }
    gpu_.use();
    constexpr unsigned kNonBlocking = 1;
    CUstream out = nullptr;
    gpu_.driver_functions().check(gpu_.driver_functions().create_stream_with_priority(&out, kNonBlocking, priority), "making a stream");
    std::lock_guard lock(mutex_);
    all_.push_back(out);
    return out;
  }
  void stream_changed(Stream* s) override { gpu_.set_stream(s ? static_cast<CudaStream*>(s)->get() : nullptr); }

  const int index_;
  Gpu& gpu_;
  IdleStreams idle_;
  std::shared_ptr<Stream> default_stream_;
  std::mutex mutex_;  // of the two below
  std::vector<std::weak_ptr<CudaStream>> streams_;
  std::vector<CUstream> all_;  // that were ever made
};

class PinnedSource final : public MemorySource {
 public:
  explicit PinnedSource(Gpu& gpu, int index) : gpu_(gpu), driver_(gpu.driver_functions()), index_(index) {}
  Device device() const override { return Device::cpu(); }
  std::string description() const override { return fmt::format("the host, pinned for cuda:{}", index_); }
  size_t total_bytes() const override { return runtime_of(Device::cpu()).memory().source().total_bytes(); }
  void* allocate(size_t bytes) override {
    gpu_.use();
    const Relaxed relaxed(driver_);
    constexpr unsigned kPortable = 1;
    void* p = nullptr;
    const CUresult status = driver_.allocate_host(&p, bytes, kPortable);
    if (status == kOutOfMemory) return nullptr;
    driver_.check(status, "pinning memory");
    return p;
  }
  void free(void* p, size_t) override {
    gpu_.use();
    driver_.check(driver_.free_host(p), "freeing pinned memory");
  }
  bool can_free() const override { return !runtime(index_).captures(); }
  void synchronize() override { runtime(index_).wait_for_work(); }
  std::shared_ptr<void> mark(StreamKey stream) override { return gpu_.mark(stream); }
  bool passed(void* mark) override { return gpu_.passed(mark); }

 private:
  Gpu& gpu_;
  const Driver& driver_;
  const int index_;
};

// One of each index, never destroyed.
template <class T, class Make>
T& of_index(int index, Make&& make) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<T>>& all = *new std::map<int, std::unique_ptr<T>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<T>& it = all[index];
  if (!it) it = make();
  return *it;
}

}  // namespace

Runtime& runtime(int index) {
  return of_index<CudaRuntime>(index, [&] { return std::make_unique<CudaRuntime>(index); });
}

DeviceMemory& pinned_memory(int index) {
  return of_index<DeviceMemory>(index, [&] { return std::make_unique<DeviceMemory>(std::make_unique<PinnedSource>(gpu(index), index)); });
}

}  // namespace toroid::device::cuda
