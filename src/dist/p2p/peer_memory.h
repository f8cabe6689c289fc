// Memory on the GPUs of a group's ranks that kernels of all of them write: NVLink or PCIe within one host, by CUDA's inter-process handles
// between processes, by peer access between threads of one. No multicast.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"
#include "dist/p2p/layout.h"
#include "toroid/device.h"

namespace toroid::device::cuda {
class Gpu;
}

namespace toroid::distributed::p2p {

// One rank's part.
class PeerMemory {
 public:
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Why the ranks' GPUs have none, the same text on all ranks; empty: they have.
  const std::string& refusal() const { return refusal_; }
  // The Table, in this GPU's memory.
  void* table() const { return table_; }

 private:
  friend std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device);
  PeerMemory(Group& group, const Device& device);
  struct Offer;
  void open(Group& group);
  uint64_t reach(device::cuda::Gpu& gpu, const std::string& offer, const Offer& own, bool is_own);

  const Device device_;
  std::string refusal_;
  std::shared_ptr<void> region_;
  std::vector<std::shared_ptr<void>> others_;  // regions of the other ranks, as this GPU sees them
  void* table_ = nullptr;
};

// Of this rank of the group on its GPU. All ranks ask for it, each with its own device; it is made at the first time and kept with the
// group, about 90 MB on each GPU.
// EnvironmentError where a rank does not come within the option dist_timeout_ms.
std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device);

}  // namespace toroid::distributed::p2p
