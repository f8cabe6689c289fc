// The launches of a part of a call, recorded: replayed as one, with the caller's memory put in their place.
#pragma once

#include <cstring>
#include <memory>

#include "base/mutants.h"
#include "exec/record/order.h"
#include "exec/run/bound.h"

namespace toroid::exec {

using device::cpu::mark_fresh;

// One replay at a time.
class Recording {
 public:
  virtual ~Recording() = default;
  // Runs `steps`, which add launches, and makes them ready. On a GPU steps may also call libraries and users' functions, whose work is
  // recorded for good.
  virtual void record(const std::function<void()>& steps) = 0;
  // Within record(): appends a launch of some tasks; l and s outlive the recording. pointers: as pointers_of() gives them. slots: for each
  // of the launch's buffers the plan's buffer, if that is elsewhere at each replay, or -1.
  virtual void add(const Launch& l, const Symbols& symbols, const BoundStep& s, std::vector<void*> pointers,
                   std::span<const int> slots) = 0;
  // After record(): lets launches run beside each other as far as the order of them (by number) allows, if replays are faster so: the next
  // ones go both ways in turns, and are timed.
  virtual void spread(const Order&) {}
  // Gives launch number i (in the order of add) other memory.
  virtual void set_pointers(size_t i, std::span<void* const> pointers) = 0;
  // `at`: addresses of the plan's buffers. Returns how many differ from those of the replay before.
  virtual int64_t replay(std::span<void* const> at) = 0;
  virtual size_t launches() const = 0;
  // How many launches run side by side at most.
  virtual int64_t width() const { return 1; }
  // Memory that the recording takes; on a GPU that of the device.
  virtual int64_t bytes() const = 0;
};
// faults: the plan's buffer of that role, or -1. On the CPU a replay ends behind a launch that leaves a failure there, so that none updates
// what the caller keeps; on a GPU kernels look for themselves.
std::unique_ptr<Recording> make_recording(const Device& device, int faults = -1);

// What bytes() will be: of so many launches with so many pointers and moving pointers. On a GPU an estimate, from what earlier recordings
// took.
int64_t forecast_recording(const Device& device, size_t launches, size_t pointers, size_t moving);

}  // namespace toroid::exec
