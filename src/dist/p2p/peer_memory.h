// What kernels need that meet those of other ranks: memory that all of them write, and a table of where it is.
#pragma once

#include <memory>
#include <string>

#include "dist/group.h"
#include "dist/p2p/symmetric_memory.h"
#include "toroid/device.h"

namespace toroid::distributed::p2p {

// One rank's part.
class PeerMemory {
 public:
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Why the ranks' GPUs have none, the same text on all ranks; empty: they have.
  const std::string& refusal() const { return refusal_; }
  // The Table (layout.h), in this GPU's memory.
  void* table() const { return table_.get(); }

 private:
  friend std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device);
  PeerMemory(Group& group, const Device& device);

  const SymmetricMemory memory_;
  std::string refusal_;
  std::shared_ptr<void> table_;
};

// Of this rank of the group on its GPU. All ranks ask for it, each with its own device; it is made at the first time and kept with the
// group, about 90 MB on each GPU.
// EnvironmentError where a rank does not come within the option dist_timeout_ms.
std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device);

}  // namespace toroid::distributed::p2p
