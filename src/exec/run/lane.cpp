#include "exec/run/lane.h"

#include <algorithm>

#include "device/cpu/host_memory.h"
#include "device/cuda/gpu.h"

namespace toroid::exec {

device::StreamKey stream_key(const Device& device) {
  return device.is_cuda() ? device::memory_of(device).source().current_stream() : nullptr;
}

void grow(Lane& lane, int64_t arena, int64_t zeros, const Device& device) {
  const auto lacks = [](const std::shared_ptr<Storage>& s, int64_t bytes) { return !s || s->bytes < static_cast<size_t>(bytes); };
  // What stays from run to run has huge pages from half of that on: with others the first run of a MobileNet had a thousand page faults
  // more, and took twice as long.
  if (!device.is_cuda() && arena >= int64_t{device::kHugePagesFrom / 2}) arena = std::max(arena, int64_t{device::kHugePagesFrom});
  if (lacks(lane.arena, arena)) lane.arena = allocate_storage(static_cast<size_t>(arena), device);
  if (zeros > 0 && lacks(lane.zeros, zeros)) {
    lane.zeros = allocate_storage(static_cast<size_t>(zeros), device);
    device::cuda::gpu(device.index).fill_zero(lane.zeros->data, static_cast<size_t>(zeros));
  }
}

std::vector<void*> pointers_of(const Plan& plan, const Launch& l, const BoundStep& s, const Memory& memory) {
  std::vector<void*> out;
  out.reserve(l.buffers.size() + 2);
  for (int i : l.buffers) out.push_back(memory.at[static_cast<size_t>(i)]);
  if (s.scratch >= 0 || !plan.device.is_cuda()) out.push_back(s.scratch >= 0 ? memory.lane.arena->data + s.scratch : nullptr);
  if (s.counters >= 0) out.push_back(memory.lane.zeros->data + s.counters);
  return out;
}

}  // namespace toroid::exec
