// What a device does besides kernels: streams, events, copies, capture and replay. The rules stand here, for all devices; what derives
// from these classes does the work.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "device/memory.h"
#include "toroid/device_graph.h"

namespace toroid::device {

class Runtime;
class Stream;
class Event;

// A node of recorded work, for people and tests.
struct GraphNode {
  std::string name, kind;  // kind: kernel, copy, ...
  std::vector<size_t> after;
};

class ExecutableGraph {
 public:
  virtual ~ExecutableGraph() = default;
};

class RecordedGraph {
 public:
  virtual ~RecordedGraph() = default;
  virtual std::vector<GraphNode> nodes() const = 0;
  virtual size_t node_count() const = 0;
  virtual std::unique_ptr<ExecutableGraph> instantiate() const = 0;
  // Makes the executable graph do what this one does, where that needs no new one. Otherwise the reason comes back.
  virtual std::string update(ExecutableGraph& executable) const = 0;
};

// A capture under way: the streams in it, and what is kept for its graph.
class Capture {
 public:
  Capture(Runtime& runtime, std::shared_ptr<Stream> origin, CaptureErrorMode mode);
  ~Capture();

  // Breaks the capture, and throws the DeviceError that a call is not possible in one.
  [[noreturn]] void refuse(std::string_view call);
  // Whether a call that touches the whole device breaks it, coming from the calling thread.
  bool forbids_unsafe_calls() const;
  void join(const std::shared_ptr<Stream>& s);
  const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  const std::shared_ptr<Stream>& origin() const { return streams_.front(); }
  std::thread::id thread() const { return thread_; }
  uint64_t id() const { return id_; }
  CaptureErrorMode mode() const { return mode_; }
  // Marks it as broken by a call; the first one counts.
  void break_by(std::string_view call);
  std::string broken_by() const;  // empty: it is not
  // What the graph keeps, by the thread that captures: objects that its work needs; and work of the host before each replay, which may
  // start copies on the stream of the replay.
  struct Kept {
    std::vector<std::shared_ptr<const void>> objects;
    std::vector<std::function<void(Stream&)>> before_replay;
  };
  void retain(std::shared_ptr<const void> object) { kept_.objects.push_back(std::move(object)); }
  void before_replay(std::function<void(Stream&)> work) { kept_.before_replay.push_back(std::move(work)); }
  Kept take_kept() { return std::move(kept_); }

 private:
  Runtime& runtime_;
  const CaptureErrorMode mode_;
  const uint64_t id_;
  const std::thread::id thread_ = std::this_thread::get_id();
  mutable std::mutex mutex_;  // of the two below
  std::vector<std::shared_ptr<Stream>> streams_;
  std::string broken_by_;
  Kept kept_;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(Runtime& runtime) : runtime_(runtime) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Runtime& runtime() const { return runtime_; }
  Capture* capture() const { return capture_; }
  virtual StreamKey key() const = 0;

  void synchronize();
  bool query();
  void wait(Event& event);
  void launch(ExecutableGraph& graph);
  // Starts a copy of bytes between any of: memory of the device, and of the host, which must be pinned to go on beside the host.
  void copy(void* to, const void* from, size_t bytes);

  // Begins to record. `capture` outlives it.
  void begin_capture(Capture& capture);
  // Ends it, whatever has happened. DeviceError where it was broken, or streams have not been joined.
  std::unique_ptr<RecordedGraph> end_capture();

 private:
  friend class Capture;
  virtual void do_synchronize() = 0;
  virtual bool do_query() = 0;
  virtual void do_wait(Event& event) = 0;
  virtual void do_launch(ExecutableGraph& graph) = 0;
  virtual void do_copy(void* to, const void* from, size_t bytes) = 0;
  virtual void do_begin_capture(CaptureErrorMode mode) = 0;
  virtual std::unique_ptr<RecordedGraph> do_end_capture() = 0;

  Runtime& runtime_;
  Capture* capture_ = nullptr;
};

class Event {
 public:
  Event(Runtime& runtime, bool timed) : runtime_(runtime), timed_(timed) {}
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  Runtime& runtime() const { return runtime_; }
  void record(Stream& stream);
  void synchronize();
  bool query();
  double elapsed_ms(Event& end);
  bool recorded() const { return recorded_; }
  // That it was last recorded in; null: none, or one that has ended.
  Capture* capture() const;

 private:
  virtual void do_record(Stream& stream) = 0;
  virtual void do_synchronize() = 0;
  virtual bool do_query() = 0;
  virtual double do_elapsed_ms(Event& end) = 0;
  friend class Stream;
  void check_not_captured(const char* doing) const;

  Runtime& runtime_;
  const bool timed_;
  bool recorded_ = false;
  uint64_t captured_by_ = 0;  // id of a capture
};

// One device. Made once a process, never destroyed.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual Device device() const = 0;
  virtual DeviceMemory& memory() = 0;
  virtual std::shared_ptr<Stream> make_stream(int priority) = 0;
  // One of another library, by its native handle.
  virtual std::shared_ptr<Stream> adopt_stream(void* native) = 0;
  virtual std::shared_ptr<Event> make_event(bool timed) = 0;
  virtual const std::shared_ptr<Stream>& default_stream() = 0;
  // That captures use which name no stream.
  const std::shared_ptr<Stream>& capture_stream();
  // Of the calling thread.
  std::shared_ptr<Stream> current_stream();
  std::shared_ptr<Stream> set_current_stream(std::shared_ptr<Stream> s);  // the one before
  // Of the calling thread's current stream; null: nothing is captured.
  Capture* current_capture();
  // Waits for all that was started on the device.
  void synchronize();
  void wait_for_work() { do_synchronize(); }  // the same while work is captured, except for that work
  // Breaks captures that a call which touches the whole device may not meet, and throws.
  void check_unsafe(std::string_view call);
  bool captures() const { return capture_count_ > 0; }

 private:
  friend class Capture;
  virtual void do_synchronize() = 0;
  virtual void stream_changed(Stream* /*now; null: the default one*/) {}

  std::mutex mutex_;  // of the two below
  std::vector<Capture*> captures_;
  std::shared_ptr<Stream> capture_stream_;
  std::atomic<int> capture_count_{0};
};

// EnvironmentError where there is no such device.
Runtime& runtime_of(const Device& device);

namespace detail {
inline std::atomic<int> captures{0};
}
// Whether anything is captured, on any device by any thread.
inline bool captures_under_way() { return detail::captures.load(std::memory_order_relaxed) != 0; }

// Throws where the calling thread captures on the device: `call` needs captured work to have run. The capture is broken then.
void refuse_in_capture(const Device& device, std::string_view call);

// Suspends the calling thread's captures on all devices, for the life of this object: what it does meanwhile is done, not recorded, and its
// memory is not the graph's. For compiling, and whatever else is done once and not at each replay.
class CaptureSuspension {
 public:
  CaptureSuspension();
  ~CaptureSuspension();
  bool any() const { return !streams_.empty(); }  // whether there was a capture
  CaptureSuspension(const CaptureSuspension&) = delete;
  CaptureSuspension& operator=(const CaptureSuspension&) = delete;

 private:
  std::vector<std::shared_ptr<Stream>> streams_;
  PoolScope* scopes_ = nullptr;
};

// In the language of Graphviz.
std::string dot_text(const std::vector<GraphNode>& nodes);

}  // namespace toroid::device
