#include "exec/manual_capture.h"

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

void keep_for_capture(device::Capture& capture, const Plan& plan, std::span<const Tensor> held) {
  for (auto& step : plan.steps) {
    if (auto* l = std::get_if<Launch>(&step)) {
      if (l->code) capture.retain(l->code);
      if (l->gpu.kernel.module) capture.retain(l->gpu.kernel.module);
    } else if (auto* c = std::get_if<LibraryCall>(&step)) {
      capture.retain(c->call);
    }
  }
  for (auto& b : plan.buffers)
    if (b.data.defined()) capture.retain(b.data.impl()->storage);
  for (auto& in : plan.inputs)
    if (in.data.defined()) capture.retain(in.data.impl()->storage);
  for (auto& t : held)
    if (t.defined()) keep_for_capture(plan.device, t);
}

void capture_call(const HostCall& call, std::vector<Tensor> inputs, std::vector<Tensor> outputs,
                  const std::function<Expr(const Expr&)>& resolve) {
  device::cpu::recorder()->add_call(call.name, "host call",
                                    [function = call.function, inputs = std::move(inputs), outputs = std::move(outputs), resolve] {
                                      auto results = function(inputs, resolve);
                                      for (size_t i = 0; i < outputs.size(); ++i) copy_elements(results.at(i), outputs[i]);
                                    });
}

void capture_call(const LibraryCall& call, std::vector<void*> buffers, void* scratch) {
  device::cpu::recorder()->add_call(call.name, "library call",
                                    [run = call.call, buffers = std::move(buffers), scratch] { run->run(buffers.data(), scratch); });
}

}  // namespace toroid::exec
