// Recorded work, and the encoding of tensor maps.
#include "base/check.h"
#include "device/cuda/gpu.h"
#include "device/faults.h"

namespace toroid::device::cuda {

ExecutableOf::ExecutableOf(Gpu& gpu, CUgraph graph) : gpu_(gpu) {
  const Driver& d = gpu.driver_functions();
  gpu.use();
  d.check(d.graph_nodes(graph, nullptr, &nodes_), "counting the nodes of a graph");
  const auto before = static_cast<int64_t>(gpu.free_bytes());
  d.check(take_fault(Fault::InstantiateOutOfMemory) ? kOutOfMemory : d.instantiate(&executable_, graph, 0), "instantiating a graph");
  places_ = gpu.graph_memory().add(nodes_, before - static_cast<int64_t>(gpu.free_bytes()));
}

ExecutableOf::~ExecutableOf() {
  if (!executable_) return;
  gpu_.driver_functions().destroy_executable(executable_);
  gpu_.graph_memory().remove(nodes_, places_);
}

void Graph::set_arguments(CUgraphNode node, const Kernel& kernel, const LaunchShape& shape, std::span<void* const> arguments) {
  CUDA_KERNEL_NODE_PARAMS p = {};
  p.function = kernel.function;
  const unsigned grid[3] = {static_cast<unsigned>(shape.blocks), 1, 1}, block[3] = {static_cast<unsigned>(shape.threads), 1, 1};
  std::copy_n(grid, 3, p.grid);
  std::copy_n(block, 3, p.block);
  p.shared_bytes = static_cast<unsigned>(shape.shared_bytes);
  p.parameters = const_cast<void**>(arguments.data());
  driver().check(driver().set_node(executable_.get(), node, &p), "giving a recorded launch other arguments");
}

std::unique_ptr<Graph> Gpu::record(const std::function<void()>& work) {
  use();
  std::lock_guard lock(recordings_);
  constexpr int kRelaxed = 2;  // modules may be loaded meanwhile
  driver_.check(driver_.begin_capture(recording_stream_, kRelaxed), "beginning to record");
  CUstream before = set_stream(recording_stream_);
  CUgraph graph = nullptr;
  try {
    work();
  } catch (...) {
    set_stream(before);
    driver_.end_capture(recording_stream_, &graph);
    if (graph) driver_.destroy_graph(graph);
    throw;
  }
  set_stream(before);
  driver_.check(driver_.end_capture(recording_stream_, &graph), "recording launches");
  return std::make_unique<Graph>(*this, graph);
}

void Gpu::record_after(std::span<const CUgraphNode> nodes) {
  constexpr unsigned kInPlaceOfAll = 1;
  driver_.check(driver_.follow(recording_stream_, nodes.data(), nullptr, nodes.size(), kInPlaceOfAll), "ordering recorded launches");
}

namespace {

// What is captured on a stream.
struct CaptureInfo {
  int status = 0;
  uint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* last = nullptr;
  const void* edges = nullptr;
  size_t count = 0;  // of `last`

  CUresult ask(const Driver& driver, CUstream stream) { return driver.capture_info(stream, &status, &id, &graph, &last, &edges, &count); }
};

}  // namespace

CUgraphNode Gpu::recorded_node() const {
  CaptureInfo now;
  driver_.check(now.ask(driver_, stream()), "asking for a recorded launch");
  TOROID_CHECK(now.count == 1, "{} recorded launches are the latest", now.count);
  return now.last[0];
}

bool Gpu::capture_is_broken() const {
  constexpr int kInvalidated = 2;
  CaptureInfo now;
  return now.ask(driver_, stream()) == kSuccess && now.status == kInvalidated;
}

void Gpu::launch(const Graph& graph) {
  use();
  driver_.check(driver_.launch_graph(graph.executable_.get(), stream()), "launching a graph");
}

TensorMapSizes evaluate(const TensorMap& map, const std::function<int64_t(const Expr&)>& value) {
  const size_t rank = map.sizes.size();
  const auto bytes = static_cast<int64_t>(size_of(map.dtype));
  TOROID_CHECK(rank <= TensorMapSizes::kMostDimensions && map.strides.size() + 1 == rank && map.box.size() == (map.window ? 2 : rank),
               "a tensor map of {} dimensions", rank);
  TensorMapSizes out;
  out.window = map.window;
  out.dtype = map.dtype;
  out.tf32 = map.tf32;
  out.swizzle = map.swizzle;
  out.offset = value(map.offset) * bytes;
  out.rank = static_cast<uint32_t>(rank);
  for (size_t d = 0; d < rank; ++d) {
    out.sizes[d] = static_cast<uint64_t>(std::max<int64_t>(value(map.sizes[d]), 1));
    if (d + 1 < rank) out.strides[d] = static_cast<uint64_t>(value(map.strides[d]) * bytes);
    if (d < map.box.size()) out.box[d] = static_cast<uint32_t>(map.box[d]);
  }
  return out;
}

EncodedTensorMap encode(const TensorMapSizes& map, void* address) {
  auto type = [&](DType t) {  // CUtensorMapDataType
    if (map.tf32) return 11;
    if (t == DType::BF16) return 9;
    if (t == DType::F32) return 7;
    if (t == DType::F16) return 6;
    return size_of(t) == 1 ? 0 : size_of(t) == 2 ? 1 : 2;
  };
  auto swizzle = [](int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; };
  uint32_t steps[TensorMapSizes::kMostDimensions] = {1, 1, 1, 1, 1};
  // Rows that begin in the middle of 64 bytes: a request for 256 brings memory that belongs to none of them.
  const int promote = map.rank > 1 && map.strides[0] % 64 != 0 ? 2 : 3;  // 128, 256 bytes
  constexpr int kNoInterleave = 0, kZeros = 0;
  EncodedTensorMap out;
  const Driver& d = driver();
  std::byte* const first = static_cast<std::byte*>(address) + map.offset;
  if (map.window) {
    steps[1] = static_cast<uint32_t>(map.window->step[0]), steps[2] = static_cast<uint32_t>(map.window->step[1]);
    d.check(d.encode_im2col(&out, type(map.dtype), map.rank, first, map.sizes, map.strides, map.window->first, map.window->last, map.box[0],
                            map.box[1], steps, kNoInterleave, swizzle(map.swizzle), promote, kZeros),
            "describing a convolution's input to the GPU");
    return out;
  }
  d.check(d.encode_tiled(&out, type(map.dtype), map.rank, first, map.sizes, map.strides, map.box, steps, kNoInterleave,
                         swizzle(map.swizzle), promote, kZeros),
          "describing a tensor to the GPU");
  return out;
}

}  // namespace toroid::device::cuda
