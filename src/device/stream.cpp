// The public faces of streams and events.
#include "base/check.h"
#include "device/runtime.h"

namespace toroid {

using device::runtime_of;

Stream::Stream(const Device& device, int priority) : impl_(runtime_of(device).make_stream(priority)) {}
Device Stream::device() const { return impl_->runtime().device(); }
void Stream::synchronize() const { impl_->synchronize(); }
bool Stream::query() const { return impl_->query(); }
void Stream::wait_event(const Event& event) const { impl_->wait(*event.impl()); }
void Stream::wait_stream(const Stream& other) const { wait_event(other.record_event()); }
Event Stream::record_event() const {
  Event e(device());
  e.record(*this);
  return e;
}

Stream default_stream(const Device& device) { return Stream(runtime_of(device).default_stream()); }
Stream current_stream(const Device& device) { return Stream(runtime_of(device).current_stream()); }

StreamGuard::StreamGuard(const Stream& stream) : before_(stream.impl()->runtime().set_current_stream(stream.impl())) {}
StreamGuard::~StreamGuard() { before_->runtime().set_current_stream(before_); }

Event::Event(const Device& device, bool enable_timing) : impl_(runtime_of(device).make_event(enable_timing)) {}
void Event::record() const { impl_->record(*impl_->runtime().current_stream()); }
void Event::record(const Stream& stream) const { impl_->record(*stream.impl()); }
void Event::wait(const Stream& stream) const { stream.wait_event(*this); }
void Event::synchronize() const { impl_->synchronize(); }
bool Event::query() const { return impl_->query(); }
double Event::elapsed_time(const Event& end) const { return impl_->elapsed_ms(*end.impl()); }

}  // namespace toroid
