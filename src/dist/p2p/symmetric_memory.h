// Memory of the same size on the GPU of each rank of a group, which kernels and copies of all ranks reach: NVLink or PCIe within one host,
// by CUDA's inter-process handles between processes, by peer access between threads of one. No multicast.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/group.h"
#include "toroid/device.h"

namespace toroid::device::cuda {
class Gpu;
}

namespace toroid::distributed::p2p {

// What ranks that wait for each other here are doing, for errors.
inline constexpr const char* kSharing = "sharing memory of the ranks' GPUs";

// One rank's end. All ranks make it together, each with its own device.
class SymmetricMemory {
 public:
  // Zeros. EnvironmentError where a rank does not come within the option dist_timeout_ms.
  SymmetricMemory(Group& group, const Device& device, int64_t bytes);
  ~SymmetricMemory();
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  // Why the ranks' GPUs have none, the same text on all ranks; empty: they have.
  const std::string& refusal() const { return refusal_; }
  // A rank's memory, as this GPU sees it.
  std::byte* of_rank(int rank) const { return at_[static_cast<size_t>(rank)]; }

 private:
  struct Offer;
  void open(Group& group, int64_t bytes);
  std::byte* reach(device::cuda::Gpu& gpu, const std::string& offer, const Offer& own, bool is_own);

  const Device device_;
  std::string refusal_;
  std::shared_ptr<void> region_;
  std::vector<std::shared_ptr<void>> others_;  // regions of the other ranks, as this GPU sees them
  std::vector<std::byte*> at_;
};

// Where what ranks send each other waits to be read. All ranks ask for it alike; it is made for a use and a size when it is first asked
// for, and kept with the group. EnvironmentError where the GPUs share no memory.
std::shared_ptr<SymmetricMemory> staging_memory(Group& group, const Device& device, std::string_view use, int64_t bytes);

}  // namespace toroid::distributed::p2p
