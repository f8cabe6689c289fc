#include "device/runtime.h"

#include <algorithm>

#include "base/check.h"
#include "device/errors.h"
#include "device/faults.h"
#include "device/index_faults.h"

namespace toroid::device {
namespace {

// The calling thread's current streams, where they are not the default ones: at most one a device.
thread_local std::vector<std::shared_ptr<Stream>> current_streams;

std::shared_ptr<Stream>* find_current(const Runtime& r) {
  for (auto& s : current_streams)
    if (&s->runtime() == &r) return &s;
  return nullptr;
}

}  // namespace

// ---- captures -------------------------------------------------------------------------------------------------------------------

namespace {
std::atomic<uint64_t> next_capture{1};
std::mutex captures_mutex;  // of the map
std::map<uint64_t, Capture*>& captures_by_id() {
  static auto& map = *new std::map<uint64_t, Capture*>;
  return map;
}
}  // namespace

Capture::Capture(Runtime& runtime, std::shared_ptr<Stream> origin, CaptureErrorMode mode)
    : runtime_(runtime), mode_(mode), id_(next_capture++) {
  streams_.push_back(std::move(origin));
  {
    std::lock_guard lock(captures_mutex);
    captures_by_id()[id_] = this;
  }
  std::lock_guard lock(runtime_.mutex_);
  runtime_.captures_.push_back(this);
  ++runtime_.capture_count_;
  ++detail::captures;
}

Capture::~Capture() {
  for (auto& s : streams_) s->capture_ = nullptr;
  {
    std::lock_guard lock(captures_mutex);
    captures_by_id().erase(id_);
  }
  std::lock_guard lock(runtime_.mutex_);
  std::erase(runtime_.captures_, this);
  --runtime_.capture_count_;
  --detail::captures;
}

void Capture::break_by(std::string_view call) {
  std::lock_guard lock(mutex_);
  if (broken_by_.empty()) broken_by_ = call;
}

std::string Capture::broken_by() const {
  std::lock_guard lock(mutex_);
  return broken_by_;
}

void Capture::refuse(std::string_view call) {
  break_by(call);
  fail_on_device(DeviceErrorCode::CaptureUnsupported, fmt::format("{}, while work is captured on {},", call, to_string(runtime_.device())));
}

bool Capture::forbids_unsafe_calls() const {
  return mode_ == CaptureErrorMode::Global || (mode_ == CaptureErrorMode::ThreadLocal && thread_ == std::this_thread::get_id());
}

void Capture::join(const std::shared_ptr<Stream>& s) {
  std::lock_guard lock(mutex_);
  s->capture_ = this;
  streams_.push_back(s);
}

// ---- streams --------------------------------------------------------------------------------------------------------------------

void Stream::synchronize() {
  if (capture_) capture_->refuse("waiting for a stream");
  do_synchronize();
  check_index_faults(runtime_.device());
}

bool Stream::query() {
  if (capture_) capture_->refuse("asking whether a stream's work is done");
  const bool done = do_query();
  if (done) check_index_faults(runtime_.device());
  return done;
}

void Stream::wait(Event& event) {
  TOROID_USER_CHECK(&event.runtime() == &runtime_, "a stream of {} cannot wait for an event of {}", to_string(runtime_.device()),
                    to_string(event.runtime().device()));
  if (!event.recorded()) return;
  Capture* other = event.capture();
  if (capture_ && other != capture_) {
    capture_->break_by("waiting for an event from outside of the capture");
    fail_on_device(other ? DeviceErrorCode::CaptureMerge : DeviceErrorCode::CaptureIsolation, "waiting for an event");
  }
  if (!capture_ && other)
    other->join(shared_from_this());
  else if (!other)
    event.check_not_captured("waiting for an event");
  do_wait(event);
}

void Stream::launch(ExecutableGraph& graph) {
  if (capture_) capture_->refuse("replaying a graph");
  if (take_fault(Fault::IllegalAddress)) fail_on_device(DeviceErrorCode::IllegalAddress, "replaying a graph", "injected by a test");
  do_launch(graph);
}

void Stream::copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0) do_copy(to, from, bytes);
}

void Stream::begin_capture(Capture& capture) {
  do_begin_capture(capture.mode());
  capture_ = &capture;
}

std::unique_ptr<RecordedGraph> Stream::end_capture() {
  TOROID_CHECK(capture_, "the end of a capture that has not begun");
  Capture& capture = *capture_;
  if (take_fault(Fault::CaptureInvalidated)) capture.break_by("a call that a test injected");
  std::string broken;
  std::unique_ptr<RecordedGraph> graph;
  try {
    graph = do_end_capture();
  } catch (const DeviceError&) {
    broken = capture.broken_by();
    if (broken.empty()) throw;
  }
  if (broken.empty()) broken = capture.broken_by();
  if (!broken.empty()) fail_on_device(DeviceErrorCode::CaptureInvalidated, "capturing a graph", "it was broken by " + broken);
  return graph;
}

// ---- events ---------------------------------------------------------------------------------------------------------------------

Capture* Event::capture() const {
  if (captured_by_ == 0) return nullptr;
  std::lock_guard lock(captures_mutex);
  auto it = captures_by_id().find(captured_by_);
  return it == captures_by_id().end() ? nullptr : it->second;
}

void Event::check_not_captured(const char* doing) const {
  if (captured_by_ == 0) return;
  if (Capture* c = capture()) c->break_by(doing);
  fail_on_device(DeviceErrorCode::CapturedEvent, doing);
}

void Event::record(Stream& stream) {
  TOROID_USER_CHECK(&stream.runtime() == &runtime_, "an event of {} cannot be recorded on a stream of {}", to_string(runtime_.device()),
                    to_string(stream.runtime().device()));
  do_record(stream);
  recorded_ = true;
  captured_by_ = stream.capture() ? stream.capture()->id() : 0;
}

void Event::synchronize() {
  check_not_captured("waiting for an event");
  if (!recorded_) return;
  do_synchronize();
  check_index_faults(runtime_.device());
}

bool Event::query() {
  check_not_captured("asking whether an event has happened");
  if (!recorded_) return true;
  const bool done = do_query();
  if (done) check_index_faults(runtime_.device());
  return done;
}

double Event::elapsed_ms(Event& end) {
  TOROID_USER_CHECK(&end.runtime_ == &runtime_, "the time between events of {} and {} was asked for", to_string(runtime_.device()),
                    to_string(end.runtime_.device()));
  for (const Event* e : {static_cast<const Event*>(this), static_cast<const Event*>(&end)}) {
    TOROID_USER_CHECK(e->timed_, "an event without a time was asked for it; make it with enable_timing");
    TOROID_USER_CHECK(e->recorded_, "the time of an event was asked for before it was recorded");
    e->check_not_captured("asking for the time of an event");
  }
  end.do_synchronize();
  check_index_faults(runtime_.device());
  return do_elapsed_ms(end);
}

// ---- devices --------------------------------------------------------------------------------------------------------------------

const std::shared_ptr<Stream>& Runtime::capture_stream() {
  std::lock_guard lock(mutex_);
  if (!capture_stream_) capture_stream_ = make_stream(0);
  return capture_stream_;
}

std::shared_ptr<Stream> Runtime::current_stream() {
  auto* s = find_current(*this);
  return s ? *s : default_stream();
}

std::shared_ptr<Stream> Runtime::set_current_stream(std::shared_ptr<Stream> s) {
  auto* slot = find_current(*this);
  std::shared_ptr<Stream> before = slot ? *slot : default_stream();
  const bool is_default = s == default_stream();
  stream_changed(is_default ? nullptr : s.get());
  if (slot && is_default)
    current_streams.erase(current_streams.begin() + (slot - current_streams.data()));
  else if (slot)
    *slot = std::move(s);
  else if (!is_default)
    current_streams.push_back(std::move(s));
  return before;
}

Capture* Runtime::current_capture() {
  if (capture_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  auto* s = find_current(*this);
  return s ? (*s)->capture() : nullptr;
}

void Runtime::check_unsafe(std::string_view call) {
  if (capture_count_ == 0) return;
  bool refused = false;
  {
    std::lock_guard lock(mutex_);
    for (Capture* c : captures_)
      if (c->forbids_unsafe_calls()) {
        c->break_by(call);
        refused = true;
      }
  }
  if (refused)
    fail_on_device(DeviceErrorCode::CaptureUnsupported, fmt::format("{}, while work is captured on {},", call, to_string(device())));
}

void Runtime::synchronize() {
  check_unsafe("waiting for the whole device");
  const uint64_t settled = retired_index_faults(device());
  do_synchronize();
  check_index_faults(device(), settled);
}

void refuse_in_capture(const Device& device, std::string_view call) {
  if (!captures_under_way()) return;
  if (Capture* c = runtime_of(device).current_capture()) c->refuse(call);
}

CaptureSuspension::CaptureSuspension() {
  for (auto& s : std::vector(current_streams))
    if (s->capture()) {
      streams_.push_back(s);
      s->runtime().set_current_stream(s->runtime().default_stream());
    }
  if (!streams_.empty()) scopes_ = PoolScope::suspend();
}

CaptureSuspension::~CaptureSuspension() {
  if (streams_.empty()) return;
  for (auto& s : streams_) s->runtime().set_current_stream(s);
  PoolScope::resume(scopes_);
}

std::string dot_text(const std::vector<GraphNode>& nodes) {
  auto escaped = [](const std::string& text) {
    std::string out;
    for (char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  };
  std::string out = "digraph captured {\n  node [shape=box];\n";
  for (size_t i = 0; i < nodes.size(); ++i) out += fmt::format("  n{} [label=\"{}: {}\"];\n", i, nodes[i].kind, escaped(nodes[i].name));
  for (size_t i = 0; i < nodes.size(); ++i)
    for (size_t j : nodes[i].after) out += fmt::format("  n{} -> n{};\n", j, i);
  return out + "}\n";
}

}  // namespace toroid::device
