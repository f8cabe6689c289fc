// Streams and events. On the CPU a stream's work is done when the call that starts it returns.
#pragma once

#include <cstdint>
#include <memory>

#include "toroid/device.h"

namespace toroid {

namespace device {
class Stream;
class Event;
}  // namespace device

class Event;

// A queue of a device: what is started on it runs in that order. A handle; the default stream of a device is its own.
class Stream {
 public:
  // A new stream. Streams of a lower priority number go first where they compete (0 and -1 on GPUs).
  explicit Stream(const Device& device = Device::cuda(), int priority = 0);
  explicit Stream(std::shared_ptr<device::Stream> impl) : impl_(std::move(impl)) {}
  // One that belongs to another library: on a GPU a CUstream (cudaStream_t) of its primary context, null for the legacy default stream. It
  // lives on when the handle ends. On the CPU the only stream there is.
  static Stream adopt(const Device& device, void* native);

  Device device() const;
  // Waits until its work is done; whether it is.
  void synchronize() const;
  bool query() const;
  // What is started on this stream from now on waits for the event, or for all that the other stream has been given.
  void wait_event(const Event& event) const;
  void wait_stream(const Stream& other) const;
  // Marks the point that its work has reached.
  Event record_event() const;

  const std::shared_ptr<device::Stream>& impl() const { return impl_; }
  bool operator==(const Stream&) const = default;

 private:
  std::shared_ptr<device::Stream> impl_;
};

Stream default_stream(const Device& device = Device::cuda());
// That this thread's work on the device goes to: the default one outside of a StreamGuard.
Stream current_stream(const Device& device = Device::cuda());

// Sends this thread's work to a stream, for the life of this object.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  std::shared_ptr<device::Stream> before_;
};

// A point in a stream's work.
class Event {
 public:
  explicit Event(const Device& device = Device::cuda(), bool enable_timing = false);

  // On the stream, else the current one of its device. A later call replaces the point.
  void record() const;
  void record(const Stream& stream) const;
  // Lets what is started on the stream from now on wait for it.
  void wait(const Stream& stream) const;
  // Waits for it; whether it has happened (also when it was never recorded).
  void synchronize() const;
  bool query() const;
  // Milliseconds from this point to `end`. UserError unless both were made with enable_timing and recorded; waits for `end`.
  double elapsed_time(const Event& end) const;

  const std::shared_ptr<device::Event>& impl() const { return impl_; }

 private:
  std::shared_ptr<device::Event> impl_;
};

}  // namespace toroid
