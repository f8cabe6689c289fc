// A stream beside that of the calling thread's work.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "device/cuda/gpu.h"
#include "device/runtime.h"
#include "toroid/device_stream.h"

namespace toroid::device::cuda {

// One thread at a time. What follows and joins within Gpu::record() is recorded, too; what is recorded must have been joined at its end.
class SideStream {
 public:
  SideStream(Gpu& gpu, const Device& device);
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  CUstream get() const { return static_cast<CUstream>(const_cast<void*>(stream_.impl()->key())); }
  // What is started on it next follows all that the calling thread's stream has.
  void follow() const { order(begun_.get(), gpu_.stream(), get()); }
  // And the other way around.
  void join() const { order(done_.get(), get(), gpu_.stream()); }
  // The number of what has been started on it by now, of all so far.
  uint64_t mark();
  // What the calling thread's stream gets next follows what has that number, and, where that was long ago, some of what came behind it.
  void join(uint64_t number) const;

 private:
  using Event = std::unique_ptr<std::remove_pointer_t<CUevent>, CUresult (*)(CUevent)>;
  Event event() const;
  void order(CUevent event, CUstream first, CUstream then) const;

  Gpu& gpu_;
  const toroid::Stream stream_;
  const Event begun_, done_;
  static constexpr size_t kKept = 8;
  std::vector<Event> marks_;  // of the latest numbers, each in the place of the one kKept before
  uint64_t marked_ = 0;
};

}  // namespace toroid::device::cuda
