#include "dist/p2p/peer_memory.h"

#include "base/check.h"
#include "base/options.h"
#include "device/cuda/gpu.h"
#include "dist/gpus.h"
#include "dist/p2p/layout.h"

namespace toroid::distributed::p2p {

using device::cuda::CUdeviceptr;
using device::cuda::Gpu;

namespace {

// Memory of the GPU with these contents. It is given back when all launches that use it are done.
std::shared_ptr<void> copy_on(Gpu& gpu, const Table& table) {
  const auto& driver = gpu.driver_functions();
  const device::cuda::Relaxed relaxed(driver);
  CUdeviceptr memory = 0;
  gpu.use();
  driver.check(driver.allocate(&memory, sizeof table), "taking memory that GPUs share");
  std::shared_ptr<void> out(reinterpret_cast<void*>(memory), [&gpu](void* p) {
    try {
      gpu.use();
      const auto& functions = gpu.driver_functions();
      const device::cuda::Relaxed freeing(functions);
      functions.synchronize_context();
      functions.free(reinterpret_cast<CUdeviceptr>(p));
    } catch (const Error&) {  // the driver is gone, and the memory with it
    }
  });
  gpu.copy_in(out.get(), &table, sizeof table);
  gpu.synchronize(gpu.stream());
  return out;
}

}  // namespace

PeerMemory::PeerMemory(Group& group, const Device& device)
    : memory_(group, device, Layout(group.size()).bytes), refusal_(memory_.refusal()) {
  if (!refusal_.empty()) return;
  Table table;
  table.rank = group.rank();
  table.ranks = group.size();
  table.timeout_ms = static_cast<uint32_t>(get_option(options::kDistTimeoutMs));
  for (int r = 0; r < group.size(); ++r) table.regions[r] = reinterpret_cast<uint64_t>(memory_.of_rank(r));
  std::string reason;
  try {
    table_ = copy_on(device::cuda::gpu(device.index), table);
  } catch (const Error& e) {
    reason = e.what();
  }
  refusal_ = first_refusal(group, reason, kSharing);
}

std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device) {
  auto& kept = group.on_gpu(device.index).peers;
  if (!kept) kept = std::shared_ptr<PeerMemory>(new PeerMemory(group, device));
  return kept;
}

}  // namespace toroid::distributed::p2p
