#include "dist/p2p/peer_memory.h"

#include "base/check.h"
#include "base/options.h"
#include "device/cuda/gpu.h"
#include "dist/gpus.h"
#include "dist/p2p/layout.h"

namespace toroid::distributed::p2p {

using device::cuda::CUdeviceptr;
using device::cuda::Gpu;

PeerMemory::PeerMemory(Group& group, const Device& device)
    : device_(device), memory_(group, device, Layout(group.size()).bytes), refusal_(memory_.refusal()) {
  if (!refusal_.empty()) return;
  Table table;
  table.rank = group.rank();
  table.ranks = group.size();
  table.timeout_ms = static_cast<uint32_t>(get_option(options::kDistTimeoutMs));
  for (int r = 0; r < group.size(); ++r) table.regions[r] = reinterpret_cast<uint64_t>(memory_.of_rank(r));
  std::string reason;
  try {
    Gpu& gpu = device::cuda::gpu(device_.index);
    const auto& driver = gpu.driver_functions();
    const device::cuda::Relaxed relaxed(driver);
    CUdeviceptr memory = 0;
    gpu.use();
    driver.check(driver.allocate(&memory, sizeof table), "taking memory that GPUs share");
    table_ = reinterpret_cast<void*>(memory);
    gpu.copy_in(table_, &table, sizeof table);
    gpu.synchronize(gpu.stream());
  } catch (const Error& e) {
    reason = e.what();
  }
  refusal_ = first_refusal(group, reason, "sharing memory of the ranks' GPUs");
}

PeerMemory::~PeerMemory() {
  if (!table_) return;
  try {
    Gpu& gpu = device::cuda::gpu(device_.index);
    gpu.use();
    const auto& driver = gpu.driver_functions();
    const device::cuda::Relaxed relaxed(driver);
    driver.synchronize_context();  // launches use the table
    driver.free(reinterpret_cast<CUdeviceptr>(table_));
  } catch (const Error&) {  // the driver is gone, and the memory with it
  }
}

std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device) {
  auto& kept = group.on_gpu(device.index).peers;
  if (!kept) kept = std::shared_ptr<PeerMemory>(new PeerMemory(group, device));
  return kept;
}

}  // namespace toroid::distributed::p2p
