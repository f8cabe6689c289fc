// The public faces of streams and events.
#include "base/check.h"
#include "device/runtime.h"

namespace toroid {

using device::runtime_of;

namespace {

device::Stream& behind(const Stream& s) {
  TOROID_USER_CHECK(s.impl(), "the stream was moved from, or made of a null pointer; make one with Stream(device)");
  return *s.impl();
}
device::Event& behind(const Event& e) {
  TOROID_USER_CHECK(e.impl(), "the event was moved from; make one with Event(device)");
  return *e.impl();
}

}  // namespace

Stream::Stream(const Device& device, int priority) : impl_(runtime_of(device).make_stream(priority)) {}
Stream Stream::adopt(const Device& device, void* native) { return Stream(runtime_of(device).adopt_stream(native)); }
Device Stream::device() const { return behind(*this).runtime().device(); }
void Stream::synchronize() const { behind(*this).synchronize(); }
bool Stream::query() const { return behind(*this).query(); }
void Stream::wait_event(const Event& event) const { behind(*this).wait(behind(event)); }
void Stream::wait_stream(const Stream& other) const { wait_event(other.record_event()); }
Event Stream::record_event() const {
  Event e(device());
  e.record(*this);
  return e;
}

Stream default_stream(const Device& device) { return Stream(runtime_of(device).default_stream()); }
Stream current_stream(const Device& device) { return Stream(runtime_of(device).current_stream()); }

StreamGuard::StreamGuard(const Stream& stream) : before_(behind(stream).runtime().set_current_stream(stream.impl())) {}
StreamGuard::~StreamGuard() { before_->runtime().set_current_stream(before_); }

Event::Event(const Device& device, bool enable_timing) : impl_(runtime_of(device).make_event(enable_timing)) {}
void Event::record() const { behind(*this).record(*behind(*this).runtime().current_stream()); }
void Event::record(const Stream& stream) const { behind(*this).record(behind(stream)); }
void Event::wait(const Stream& stream) const { stream.wait_event(*this); }
void Event::synchronize() const { behind(*this).synchronize(); }
bool Event::query() const { return behind(*this).query(); }
double Event::elapsed_time(const Event& end) const { return behind(*this).elapsed_ms(behind(end)); }

}  // namespace toroid
