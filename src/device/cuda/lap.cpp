#include "device/cuda/lap.h"

#include "base/check.h"

namespace toroid::device::cuda {

Lap::Lap(Gpu& gpu) : gpu_(gpu) {
  const Driver& d = gpu_.driver_functions();
  gpu_.use();
  d.check(d.create_event(&begun_, 0), "making an event");
  if (const CUresult status = d.create_event(&done_, 0); status != kSuccess) {
    d.destroy_event(begun_);
    d.check(status, "making an event");
  }
}

Lap::~Lap() {
  const Driver& d = gpu_.driver_functions();
  for (CUevent e : {begun_, done_}) d.destroy_event(e);
}

void Lap::time(const std::function<void()>& work) {
  const Driver& d = gpu_.driver_functions();
  int recorded = 0;
  d.check(d.capture_info(gpu_.stream(), &recorded, nullptr, nullptr, nullptr, nullptr, nullptr), "asking whether work is recorded");
  open_ = false;
  if (recorded) return work();
  d.check(d.record_event(begun_, gpu_.stream()), "starting the clock");
  work();
  d.check(d.record_event(done_, gpu_.stream()), "stopping the clock");
  open_ = true;
}

double Lap::read() {
  float ms = 0;
  const Driver& d = gpu_.driver_functions();
  d.check(d.elapsed(&ms, begun_, done_), "reading the clock");
  open_ = false;
  return ms;
}

std::optional<double> Lap::take_ms() {
  if (!open_ || !gpu_.passed(done_)) return std::nullopt;
  return read();
}

double Lap::wait_ms() {
  TOROID_CHECK(open_, "no work was timed");
  const Driver& d = gpu_.driver_functions();
  d.check(d.wait_event(done_), "waiting for the GPU");
  return read();
}

}  // namespace toroid::device::cuda
