#include "exec/record/manual_capture.h"

#include "device/cpu/cpu_runtime.h"
#include "tensor/random_state.h"

namespace toroid::exec {

Tensor captured_random_state(device::Capture& capture, int64_t count, const Device& device) {
  Tensor state = Tensor::empty({2}, DType::I64, device);
  capture.before_replay([state, count](device::Stream& stream) {
    const Tensor now = take_random_state(count);
    stream.copy(state.raw_data(), now.raw_data(), 2 * sizeof(int64_t));
  });
  return state;
}

void keep_for_capture(device::Capture& capture, const Device& device, const Loaded& loaded, std::span<const Tensor> held) {
  for (auto& step : loaded.steps) {
    if (step.kernel.owner) capture.retain(step.kernel.owner);
    if (step.kernel.gpu.module) capture.retain(step.kernel.gpu.module);
    if (step.library) capture.retain(step.library);
    if (step.communicator) capture.retain(step.communicator);
  }
  for (auto* list : {&loaded.constants, &loaded.inputs})
    for (auto& t : *list)
      if (t.defined()) capture.retain(t.impl()->storage);
  for (auto& t : held)
    if (t.defined()) keep_for_capture(device, t);
}

void capture_call(const HostCall& h, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                  const std::function<Expr(const Expr&)>& resolve) {
  device::cpu::recorder()->add_call(h.name, "host call", [h, inputs = std::move(inputs), outputs = std::move(outputs), resolve] {
    call_into(h, inputs, outputs, resolve);
  });
}

void capture_call(const CollectiveCall& c, std::function<void()> run) {
  device::cpu::recorder()->add_call(c.name, "collective", std::move(run));
}

void capture_call(const std::string& name, std::shared_ptr<const external::LibraryCall> call, std::vector<void*> buffers, void* scratch) {
  device::cpu::recorder()->add_call(
      name, "library call", [call = std::move(call), buffers = std::move(buffers), scratch] { call->run(buffers.data(), scratch); });
}

}  // namespace toroid::exec
