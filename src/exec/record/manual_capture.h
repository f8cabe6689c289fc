// Programs that are run within a capture by hand (CudaGraph): their steps become nodes of its graph.
#pragma once

#include <span>

#include "device/runtime.h"
#include "exec/load.h"

namespace toroid::exec {

// The capture that the calling thread is in on the device; null: none.
inline device::Capture* manual_capture(const Device& d) {
  return device::captures_under_way() ? device::runtime_of(d).current_capture() : nullptr;
}

// Seed and offset for a program that draws `count` numbers, which each replay takes anew.
Tensor captured_random_state(device::Capture& capture, int64_t count, const Device& device);

// The graph keeps what a run of the plan needs: kernels, constants, and the tensors of the run that are not in its pool.
void keep_for_capture(device::Capture& capture, const Device& device, const Loaded& loaded, std::span<const Tensor> held);

// A call of a step on whole tensors of the CPU, to be made at each replay on the memory that they have now.
void capture_call(const HostCall& call, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                  const std::function<Expr(const Expr&)>& resolve);
void capture_call(const std::string& name, std::shared_ptr<const external::LibraryCall> call, std::vector<void*> buffers, void* scratch);
// A collective, with the group of the thread that replays.
void capture_call(const CollectiveCall& c, std::function<void()> run);

}  // namespace toroid::exec
