#include "device/cuda/side_stream.h"

namespace toroid::device::cuda {
namespace {

constexpr int kFirst = -1;  // priority: what others wait for comes before what only computes

}  // namespace

SideStream::SideStream(Gpu& gpu, const Device& device) : gpu_(gpu), stream_(device, kFirst), begun_(event()), done_(event()) {
  for (size_t i = 0; i < kKept; ++i) marks_.push_back(event());
}

uint64_t SideStream::mark() {
  const Driver& driver = gpu_.driver_functions();
  driver.check(driver.record_event(marks_[++marked_ % kKept].get(), get()), "recording an event");
  return marked_;
}

void SideStream::join(uint64_t number) const {
  const Driver& driver = gpu_.driver_functions();
  driver.check(driver.stream_wait_event(gpu_.stream(), marks_[number % kKept].get(), 0), "waiting for an event");
}

void SideStream::order(CUevent event, CUstream first, CUstream then) const {
  const Driver& driver = gpu_.driver_functions();
  driver.check(driver.record_event(event, first), "recording an event");
  driver.check(driver.stream_wait_event(then, event, 0), "waiting for an event");
}

SideStream::Event SideStream::event() const {
  constexpr unsigned kNoTiming = 2;
  CUevent made = nullptr;
  gpu_.use();
  gpu_.driver_functions().check(gpu_.driver_functions().create_event(&made, kNoTiming), "making an event");
  return {made, gpu_.driver_functions().destroy_event};
}

}  // namespace toroid::device::cuda
