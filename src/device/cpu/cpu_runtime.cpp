#include "device/cpu/cpu_runtime.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/options.h"
#include "base/thread_pool.h"
#include "device/cpu/host_memory.h"
#include "device/errors.h"
#include "device/faults.h"

namespace toroid::device::cpu {

namespace detail {
constinit thread_local Recorder* recorder = nullptr;
}

void run(const Launch& l) {
  if (l.tasks <= 0) return;
  ThreadPool::Loop loop{l.tasks, nullptr, const_cast<Launch*>(&l), l.threads};
  loop.body = [](void* context, int64_t begin, int64_t end, int thread) {
    auto* it = static_cast<const Launch*>(context);
    it->function(it->bufs, it->params, begin, end, thread);
  };
  if (l.scratch_bytes > 0)
    loop.begins = [](void* context, int thread) {
      auto* it = static_cast<const Launch*>(context);
      mark_fresh(it->scratch, it->scratch_bytes, thread);
    };
  if (!l.alone && l.tasks > 1) return ThreadPool::global().run(loop);
  if (loop.begins) loop.begins(loop.ctx, 0);
  l.function(l.bufs, l.params, 0, l.tasks, 0);
}

namespace {

using Clock = std::chrono::steady_clock;
using Nodes = std::vector<Recorder::Node>;

class CpuExecutable final : public ExecutableGraph {
 public:
  explicit CpuExecutable(Nodes nodes) : nodes_(std::move(nodes)) { point_to_own(); }

  void replay() {
    std::lock_guard lock(mutex_);
    const int64_t limit_ms = get_option(options::kReplayTimeoutMs);
    const bool stalls = take_fault(Fault::Stall);
    const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
    for (auto& n : nodes_) {
      while (stalls && limit_ms > 0 && Clock::now() <= end) std::this_thread::yield();
      if (limit_ms > 0 && Clock::now() > end)
        fail_on_device(DeviceErrorCode::LaunchTimeout, "replaying a graph",
                       fmt::format("\"{}\" had not begun after {} ms (option replay_timeout_ms)", n.name, limit_ms));
      if (n.launch.function)
        run(n.launch);
      else
        n.call();
    }
  }
  // Takes the other's arguments where the launches are the same. Otherwise the reason comes back.
  std::string update(const Nodes& other) {
    std::lock_guard lock(mutex_);
    if (other.size() != nodes_.size()) return fmt::format("it has {} nodes, not {}", other.size(), nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto &a = nodes_[i], &b = other[i];
      if (a.kind != b.kind || a.launch.function != b.launch.function)
        return fmt::format("node {} is {} \"{}\", not {} \"{}\"", i, b.kind, b.name, a.kind, a.name);
      if (a.after != b.after) return fmt::format("node {} (\"{}\") depends on other nodes", i, b.name);
    }
    nodes_ = other;
    point_to_own();
    return "";
  }

 private:
  void point_to_own() {
    for (auto& n : nodes_) {
      n.launch.bufs = n.bufs.data();
      n.launch.params = n.params.data();
    }
  }

  std::mutex mutex_;
  Nodes nodes_;
};

class CpuGraph final : public RecordedGraph {
 public:
  explicit CpuGraph(Nodes nodes) : nodes_(std::move(nodes)) {}
  size_t node_count() const override { return nodes_.size(); }
  std::vector<GraphNode> nodes() const override {
    std::vector<GraphNode> out;
    for (auto& n : nodes_) out.push_back({n.name, n.kind, n.after});
    return out;
  }
  std::unique_ptr<ExecutableGraph> instantiate() const override {
    if (take_fault(Fault::InstantiateOutOfMemory))
      fail_on_device(DeviceErrorCode::OutOfMemory, "instantiating a graph", "injected by a test");
    return std::make_unique<CpuExecutable>(nodes_);
  }
  std::string update(ExecutableGraph& executable) const override { return static_cast<CpuExecutable&>(executable).update(nodes_); }

 private:
  Nodes nodes_;
};

}  // namespace

class CpuEvent final : public Event {
 public:
  using Event::Event;

 private:
  friend class CpuStream;
  void do_record(Stream& stream) override;
  void do_synchronize() override {}
  bool do_query() override { return true; }
  double do_elapsed_ms(Event& end) override {
    return std::chrono::duration<double, std::milli>(static_cast<CpuEvent&>(end).at_ - at_).count();
  }

  Clock::time_point at_;
  std::vector<size_t> after_;  // in a capture: the nodes it stands behind
};

class CpuStream final : public Stream {
 public:
  using Stream::Stream;
  StreamKey key() const override { return nullptr; }  // no two streams work at a time
  Recorder* recorder() { return capture() ? &recorder_ : nullptr; }
  const std::vector<size_t>& latest() const { return recorder_.latest_; }

 private:
  friend class CpuEvent;
  void do_synchronize() override {}
  bool do_query() override { return true; }
  void do_wait(Event& event) override;
  void do_launch(ExecutableGraph& graph) override { static_cast<CpuExecutable&>(graph).replay(); }
  void do_copy(void* to, const void* from, size_t bytes) override {
    auto work = [=] { std::memmove(to, from, bytes); };
    if (Recorder* r = recorder()) return r->add_call(bytes_text(bytes), "copy", work);
    work();
  }
  void do_begin_capture(CaptureErrorMode) override {
    nodes_ = std::make_shared<Nodes>();
    take_part(nodes_);
    detail::recorder = &recorder_;
  }
  void take_part(std::shared_ptr<Nodes> nodes) {
    nodes_ = std::move(nodes);
    recorder_.nodes_ = nodes_.get();
    recorder_.latest_.clear();
  }
  std::unique_ptr<RecordedGraph> do_end_capture() override {
    detail::recorder = nullptr;
    for (auto& s : capture()->streams()) static_cast<CpuStream&>(*s).recorder_.nodes_ = nullptr;
    // All nodes must be in front of what this stream would do next.
    std::vector<bool> joined(nodes_->size(), false);
    std::vector<size_t> open = recorder_.latest_;
    while (!open.empty()) {
      const size_t i = open.back();
      open.pop_back();
      if (joined[i]) continue;
      joined[i] = true;
      open.insert(open.end(), (*nodes_)[i].after.begin(), (*nodes_)[i].after.end());
    }
    const auto lost = std::find(joined.begin(), joined.end(), false);
    if (lost != joined.end())
      fail_on_device(DeviceErrorCode::CaptureUnjoined, "capturing a graph",
                     fmt::format("nothing waits for \"{}\"", (*nodes_)[static_cast<size_t>(lost - joined.begin())].name));
    return std::make_unique<CpuGraph>(std::move(*nodes_));
  }

  Recorder recorder_;
  std::shared_ptr<Nodes> nodes_;  // of the latest capture
};

void CpuEvent::do_record(Stream& stream) {
  at_ = Clock::now();
  if (stream.capture()) after_ = static_cast<CpuStream&>(stream).latest();
}

namespace {

class CpuRuntime final : public Runtime {
 public:
  Device device() const override { return Device::cpu(); }
  DeviceMemory& memory() override { return host_memory(); }
  std::shared_ptr<Stream> make_stream(int) override { return std::make_shared<CpuStream>(*this); }
  std::shared_ptr<Stream> adopt_stream(void*) override { return default_stream(); }
  std::shared_ptr<Event> make_event(bool timed) override { return std::make_shared<CpuEvent>(*this, timed); }
  const std::shared_ptr<Stream>& default_stream() override { return default_stream_; }

 private:
  void do_synchronize() override {}
  void stream_changed(Stream* s) override { detail::recorder = s ? static_cast<CpuStream*>(s)->recorder() : nullptr; }

  std::shared_ptr<Stream> default_stream_ = std::make_shared<CpuStream>(*this);
};

}  // namespace

void CpuStream::do_wait(Event& event) {
  auto& e = static_cast<CpuEvent&>(event);
  if (!capture()) return;
  if (recorder_.nodes_ == nullptr || nodes_ != static_cast<CpuStream&>(*capture()->origin()).nodes_)
    take_part(static_cast<CpuStream&>(*capture()->origin()).nodes_);
  for (size_t i : e.after_)
    if (std::find(recorder_.latest_.begin(), recorder_.latest_.end(), i) == recorder_.latest_.end()) recorder_.latest_.push_back(i);
}

void Recorder::add_launch(std::string name, const Launch& l, std::span<void* const> bufs, std::span<const int64_t> params) {
  if (l.tasks <= 0) return;
  nodes_->push_back({std::move(name), "kernel", latest_, l, {bufs.begin(), bufs.end()}, {params.begin(), params.end()}, nullptr});
  latest_ = {nodes_->size() - 1};
}

void Recorder::add_call(std::string name, std::string kind, std::function<void()> work) {
  nodes_->push_back({std::move(name), std::move(kind), latest_, {}, {}, {}, std::move(work)});
  latest_ = {nodes_->size() - 1};
}

Runtime& runtime() {
  static CpuRuntime& r = *new CpuRuntime;
  return r;
}

}  // namespace toroid::device::cpu
