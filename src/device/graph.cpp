// Graphs by hand: CudaGraph over what a device records.
#include <algorithm>
#include <mutex>

#include "base/check.h"
#include "device/errors.h"
#include "device/faults.h"
#include "device/runtime.h"

namespace toroid {

using device::runtime_of;

namespace {

struct Hooks {
  std::mutex mutex;
  std::vector<std::shared_ptr<const GraphHook>> list;
};
Hooks& hooks() {
  static Hooks& all = *new Hooks;  // never destroyed: graphs may outlive main
  return all;
}

void tell(GraphEvent e, const CudaGraph& g) {
  std::vector<std::shared_ptr<const GraphHook>> list;
  {
    std::lock_guard lock(hooks().mutex);
    list = hooks().list;
  }
  for (auto& hook : list) (*hook)(e, g);
}

// Recorded work has addresses in the pool.
class Pin {
 public:
  explicit Pin(std::shared_ptr<device::MemoryPool> pool) : pool_(std::move(pool)) { pool_->pin(); }
  ~Pin() { pool_->unpin(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  std::shared_ptr<device::MemoryPool> pool_;
};

}  // namespace

std::shared_ptr<void> add_graph_hook(GraphHook hook) {
  auto kept = std::make_shared<const GraphHook>(std::move(hook));
  std::lock_guard lock(hooks().mutex);
  hooks().list.push_back(kept);
  return {nullptr, [kept](void*) {
            std::lock_guard inner(hooks().mutex);
            std::erase(hooks().list, kept);
          }};
}

struct CudaGraph::Impl {
  device::Runtime& runtime;
  const bool keep_graph;
  MemPool pool;
  std::unique_ptr<Pin> pin;
  // While capturing.
  std::unique_ptr<device::PoolScope> scope;
  std::unique_ptr<device::Capture> capture;
  // After. The order matters: executable and recorded work go before what they use.
  device::Capture::Kept kept;
  std::unique_ptr<device::RecordedGraph> graph;
  std::unique_ptr<device::ExecutableGraph> executable;
  size_t nodes = 0;
  bool replayed = false;

  std::unique_ptr<device::RecordedGraph> end() {
    scope.reset();
    auto own = std::move(capture);
    auto recorded = own->origin()->end_capture();
    auto more = own->take_kept();
    more.objects.insert(more.objects.end(), kept.objects.begin(), kept.objects.end());
    kept = std::move(more);
    return recorded;
  }
  void make_executable() {
    auto make = [&] { return graph->instantiate(); };
    try {
      executable = make();
    } catch (const DeviceError& e) {
      if (!e.is(DeviceErrorCode::OutOfMemory)) throw;
      runtime.memory().release_unused();
      executable = make();
    }
  }
};

CudaGraph::CudaGraph(const Device& device, bool keep_graph)
    : impl_(new Impl{runtime_of(device), keep_graph, {}, {}, {}, {}, {}, {}, {}, 0, false}) {}

CudaGraph::~CudaGraph() {
  try {
    reset();
  } catch (const Error&) {  // a broken device: there is nothing left to wait for
  }
}

void CudaGraph::capture_begin(const MemPool& pool, CaptureErrorMode mode) {
  Impl& i = *impl_;
  TOROID_USER_CHECK(!i.capture, "this graph is capturing already");
  TOROID_USER_CHECK(!captured(), "this graph holds a capture already: reset() it first");
  auto stream = i.runtime.current_stream();
  TOROID_USER_CHECK(stream != i.runtime.default_stream(),
                    "the default stream cannot be captured: begin under a StreamGuard, or use CudaGraph::capture");
  TOROID_USER_CHECK(!stream->capture(), "the current stream is in a capture already");
  TOROID_USER_CHECK(!pool || pool.device() == i.runtime.device(), "the pool is of {}, the graph of {}", to_string(pool.device()),
                    to_string(i.runtime.device()));
  i.pool = pool ? pool : MemPool(i.runtime.device());
  auto capture = std::make_unique<device::Capture>(i.runtime, stream, mode);
  stream->begin_capture(*capture);
  i.capture = std::move(capture);
  i.pin = std::make_unique<Pin>(i.pool.impl());
  i.scope = std::make_unique<device::PoolScope>(i.pool.impl());
  tell(GraphEvent::CaptureBegin, *this);
}

void CudaGraph::capture_end() {
  Impl& i = *impl_;
  TOROID_USER_CHECK(i.capture, "the end of a capture that has not begun");
  if (i.capture->thread() != std::this_thread::get_id()) device::fail_on_device(DeviceErrorCode::CaptureWrongThread, "ending a capture");
  try {
    i.graph = i.end();
    i.nodes = i.graph->node_count();
    tell(GraphEvent::CaptureEnd, *this);
    if (!i.keep_graph) instantiate();
  } catch (...) {
    reset();
    throw;
  }
}

void CudaGraph::capture(const std::function<void()>& body, const CaptureOptions& options) {
  device::Runtime& runtime = impl_->runtime;
  const Stream stream = options.stream ? *options.stream : Stream(runtime.capture_stream());
  TOROID_USER_CHECK(stream.device() == runtime.device(), "the stream is of {}, the graph of {}", to_string(stream.device()),
                    to_string(runtime.device()));
  runtime.synchronize();
  const StreamGuard guard(stream);
  capture_begin(options.pool, options.error_mode);
  try {
    body();
  } catch (...) {
    reset();
    throw;
  }
  capture_end();
}

void CudaGraph::instantiate() {
  Impl& i = *impl_;
  TOROID_USER_CHECK(captured(), "a graph without a capture cannot be instantiated");
  if (i.executable) return;
  i.make_executable();
  if (!i.keep_graph) i.graph.reset();
  tell(GraphEvent::Instantiate, *this);
}

void CudaGraph::replay() {
  Impl& i = *impl_;
  TOROID_USER_CHECK(captured(), "a graph without a capture cannot be replayed");
  if (!i.executable) instantiate();
  auto stream = i.runtime.current_stream();
  if (!stream->capture())
    for (auto& work : i.kept.before_replay) work(*stream);
  stream->launch(*i.executable);
  i.replayed = true;
  tell(GraphEvent::Replay, *this);
}

void CudaGraph::reset() {
  Impl& i = *impl_;
  const bool held = captured();
  if (i.capture) try {
      i.end();
    } catch (const DeviceError&) {  // it is thrown away in any case
    }
  if (held) tell(GraphEvent::Destroy, *this);
  if (i.replayed) i.runtime.wait_for_work();
  i.executable.reset();
  i.graph.reset();
  i.kept = {};
  i.pin.reset();
  i.pool = {};
  i.nodes = 0;
  i.replayed = false;
}

void CudaGraph::release_executable() {
  Impl& i = *impl_;
  TOROID_USER_CHECK(i.graph, "what was captured is not kept: make the graph with keep_graph");
  if (i.replayed) i.runtime.wait_for_work();
  i.executable.reset();
}

CudaGraph::Update CudaGraph::update(CudaGraph& other) {
  Impl &i = *impl_, &o = *other.impl_;
  TOROID_USER_CHECK(&i.runtime == &o.runtime, "graphs of {} and {} cannot stand for each other", to_string(i.runtime.device()),
                    to_string(o.runtime.device()));
  TOROID_USER_CHECK(o.graph && !o.capture, "the graph to take over has kept no capture: make it with keep_graph, and capture");
  Update out{false, "there was no executable graph"};
  if (i.executable) {
    if (i.replayed) i.runtime.wait_for_work();  // it uses memory that goes with the old capture
    out.reason = o.graph->update(*i.executable);
    out.in_place = out.reason.empty();
  }
  if (!out.in_place) i.executable.reset();
  i.graph = std::move(o.graph);
  i.nodes = o.nodes;
  i.kept = std::move(o.kept);
  i.pool = o.pool;
  i.pin = std::move(o.pin);
  other.reset();
  if (!out.in_place) instantiate();
  if (!i.keep_graph) i.graph.reset();
  return out;
}

MemPool CudaGraph::pool() const { return impl_->pool; }
bool CudaGraph::captured() const { return impl_->graph || impl_->executable; }
bool CudaGraph::instantiated() const { return impl_->executable != nullptr; }
size_t CudaGraph::node_count() const { return impl_->nodes; }
std::string CudaGraph::dot() const {
  TOROID_USER_CHECK(impl_->graph, "what was captured is not kept: make the graph with keep_graph, and capture");
  return device::dot_text(impl_->graph->nodes());
}
void CudaGraph::retain(std::shared_ptr<const void> object) {
  if (impl_->capture)
    impl_->capture->retain(std::move(object));
  else
    impl_->kept.objects.push_back(std::move(object));
}

bool is_current_stream_capturing(const Device& device) { return runtime_of(device).current_capture() != nullptr; }

}  // namespace toroid
