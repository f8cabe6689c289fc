// Graphs by hand: work is captured once and replayed as one launch, at the same addresses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "toroid/device_memory.h"
#include "toroid/device_stream.h"

namespace toroid {

// Which calls break a capture that is under way on a device, beside those that need captured work to have run: waiting for the whole
// device, by any thread (Global) or by the capturing one (ThreadLocal), or none.
enum class CaptureErrorMode { Global, ThreadLocal, Relaxed };

struct CaptureOptions {
  MemPool pool = {};                  // where tensors made meanwhile lie; none: a new one
  std::optional<Stream> stream = {};  // none: a side stream that all captures on the device share
  CaptureErrorMode error_mode = CaptureErrorMode::Global;
};

// The name is PyTorch's; it works on the CPU as well. Between capture_begin and capture_end compiled programs that this thread calls, and
// copies, are recorded instead of run. A replay runs them again on the memory that they had: write new inputs into the same tensors before,
// and read the results that the captured calls returned after. Tensors that were made before the capture must stay alive and where they
// are; those made in it lie in the graph's pool, which the graph keeps. Graphs may share a pool if they are replayed in the order of their
// capture. One thread at a time.
class CudaGraph {
 public:
  // keep_graph: what was captured is kept beside its executable form, for dot(), update() and release_executable(), and instantiated by
  // instantiate() or the first replay() instead of capture_end().
  explicit CudaGraph(const Device& device = Device::cuda(), bool keep_graph = false);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // The current stream, which must not be the default one, captures from here on, and this thread's new tensors lie in the pool. UserError
  // where the graph holds a capture already, or the stream is in one.
  void capture_begin(const MemPool& pool = {}, CaptureErrorMode mode = CaptureErrorMode::Global);
  // In the thread that began. DeviceError where the capture was broken, naming the call that did it; the device stays usable.
  void capture_end();
  // Waits for the device, then captures what body does. An exception of body ends the capture and is rethrown; the graph is empty then.
  void capture(const std::function<void()>& body, const CaptureOptions& options = {});

  void instantiate();
  // On the current stream.
  void replay();
  // Forgets all: memory of the graph and, with its last user, of the pool goes back. Waits for replays under way.
  void reset();

  // Destroys the executable form, which the next replay makes again. Needs keep_graph.
  void release_executable();
  // Makes this graph do what `other` has captured (with keep_graph): in place where the nodes and edges are the same, which takes
  // microseconds, else by instantiating it anew. `other` gives up its capture.
  struct Update {
    bool in_place = false;
    std::string reason;  // why not in place
  };
  Update update(CudaGraph& other);

  MemPool pool() const;
  bool captured() const;      // holds a capture
  bool instantiated() const;  // can be launched at once
  size_t node_count() const;
  // All nodes and edges in the language of Graphviz. UserError without keep_graph.
  std::string dot() const;
  // Keeps an object alive until reset.
  void retain(std::shared_ptr<const void> object);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

// Whether the calling thread's current stream on the device is in a capture.
bool is_current_stream_capturing(const Device& device = Device::cuda());

// What happens to graphs, for tools: called after each event, in the thread that caused it.
enum class GraphEvent { CaptureBegin, CaptureEnd, Instantiate, Replay, Destroy };
using GraphHook = std::function<void(GraphEvent, const CudaGraph&)>;
// The hook is called until the handle is gone.
[[nodiscard]] std::shared_ptr<void> add_graph_hook(GraphHook hook);

}  // namespace toroid
