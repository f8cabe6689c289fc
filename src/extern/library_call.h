// One signature for all library calls: prepared once, for fixed sizes, then run on any memory.
#pragma once

#include <cstdint>

namespace toroid::external {

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Bytes of memory that a run needs besides the buffers.
  virtual int64_t scratch_bytes() const = 0;
  // buffers: addresses in the order that whoever prepared the call documents. scratch: 256-byte aligned. Several threads may run one call
  // at a time, each with scratch of its own. EnvironmentError when the library refuses.
  virtual void run(void* const* buffers, void* scratch) const = 0;
  // Loads what a first run would load, by a run on memory of its own, and waits for it. Nothing where the call has nothing left to load.
  virtual void load() const {}
};

}  // namespace toroid::external
