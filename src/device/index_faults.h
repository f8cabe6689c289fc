// Records of indices out of range: where kernels of a program leave them, and where the host sees them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/index_fault.h"
#include "toroid/device.h"

namespace toroid::device {

// One record of a device. On a GPU it is pinned memory of the host that launches in flight may still write when this object is gone, and
// what it holds is the device's too: whoever waits for the device next gets it.
class IndexFaultRecord {
 public:
  IndexFaultRecord(const Device& device, std::vector<IndexSite> sites);
  ~IndexFaultRecord();
  IndexFaultRecord(const IndexFaultRecord&) = delete;
  IndexFaultRecord& operator=(const IndexFaultRecord&) = delete;

  IndexFault* at() const;
  // The error (fail_at) where a check has failed; the record is empty afterwards. The work that may write it has ended.
  void check() {
    if (at()->state != IndexFault::kNone) fail();
  }

  struct Slot;

 private:
  [[noreturn]] void fail();
  Slot& slot_;
};

// How many records of a GPU nobody holds any more, since the start of the process.
uint64_t retired_index_faults(const Device& device);
// The error (fail_at) of what work of a GPU has found, as an index out of range, and nobody has been told of; of several, one. The host has
// waited for that work. settled: the host has waited for all work of the device since retired_index_faults() said so; these records serve
// again.
void check_index_faults(const Device& device, uint64_t settled = 0);

}  // namespace toroid::device
