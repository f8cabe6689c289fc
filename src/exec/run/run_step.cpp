// What the steps of a run do.
#include <chrono>

#include "device/cpu/cpu_runtime.h"
#include "exec/record/manual_capture.h"
#include "exec/run/executable.h"
#include "exec/run/gpu_launch.h"
#include "exec/run/gpu_timing.h"
#include "exec/run/names.h"
#include "exec/run/run.h"
#include "exec/steps.h"

namespace toroid::exec {

void Executable::run_steps(const Segment& steps, Run& run) {
  for (size_t s = steps.first; s < steps.last; ++s) {
    if (!run.begun.empty()) end_collectives(s + 1, run);
    if (run.late) run.late->prepare(s, run.lane, run.memory);
    if (recorder_) recorder_->count(std::holds_alternative<Launch>(plan_.steps[s]) ? Count::HostLaunches : Count::HostCalls);
    if (watched_)
      watch_step(s, run);
    else
      run_step(s, run);
    check_faults(s, run.memory.faults);
  }
}

void Executable::run_step(size_t i, Run& run) {
  const StepPlan& step = plan_.steps[i];
  if (auto* l = std::get_if<Launch>(&step))
    run_launch(*l, i, run);
  else if (auto* h = std::get_if<HostCall>(&step))
    run_host_call(*h, run);
  else if (auto* c = std::get_if<LibraryCall>(&step))
    run_library_call(*c, i, run);
  else if (auto* m = std::get_if<CollectiveCall>(&step))
    run_collective(*m, i, run);
  else
    run_blocks(i, run);
}

Tensor Executable::tensor_at(const HostCall::View& v, const Run& run) const {
  const Symbols& symbols = run.bound.symbols;
  auto* data = static_cast<std::byte*>(run.memory.at[static_cast<size_t>(v.buffer)]) +
               evaluate(v.offset, symbols) * static_cast<int64_t>(size_of(v.dtype));
  return Tensor::from_blob(data, evaluate(v.sizes, symbols), v.dtype, evaluate(v.strides, symbols), nullptr, plan_.device);
}

std::vector<Tensor> Executable::tensors_at(const std::vector<HostCall::View>& views, const Run& run) const {
  std::vector<Tensor> out;
  for (auto& v : views) out.push_back(tensor_at(v, run));
  return out;
}

void Executable::run_launch(const Launch& l, size_t step, Run& run) {
  const BoundStep& s = run.bound.steps[step];
  const std::vector<void*> pointers = pointers_of(plan_, l, s, {run.lane, run.memory.at});
  if (plan_.device.is_cuda())
    return on_stream(step, run, [&] { GpuLaunch(l, *s.kernel, run.bound.symbols).run(device::cuda::gpu(plan_.device.index), pointers); });
  const device::cpu::Launch launch{s.kernel->function, pointers.data(), s.params.data(), s.tasks, s.alone,
                                   pointers.back(),    s.scratch_bytes, s.threads};
  if (auto* recorder = device::cpu::recorder()) return recorder->add_launch(l.name, launch, pointers, s.params);
  device::cpu::run(launch);
}

void Executable::run_host_call(const HostCall& h, Run& run) {
  const auto resolve = [&](const Expr& e) { return Expr(evaluate(e, run.bound.symbols)); };
  if (h.on_gpu) return call_on_gpu(h, tensors_at(h.inputs, run), tensors_at(h.outputs, run), resolve, plan_.device);
  if (plan_.device.is_cuda()) device::refuse_in_capture(plan_.device, h.name + ", which runs on the host");
  std::vector<Tensor> inputs;
  for (auto& v : h.inputs) inputs.push_back(moved(tensor_at(v, run), Device::cpu()));
  if (run.capture)
    return capture_call(h, std::move(inputs), tensors_at(h.outputs, run),
                        [symbols = run.bound.symbols](const Expr& e) { return Expr(evaluate(e, symbols)); });
  if (!run.late && !plan_.device.is_cuda()) return call_into(h, inputs, tensors_at(h.outputs, run), resolve);
  auto results = call(h, inputs, resolve);
  if (run.late) run.late->accept(h, inputs, results, run.memory);
  for (size_t r = 0; r < h.outputs.size(); ++r)
    if (const Tensor& t = results.at(r); t.defined()) copy_elements(t, tensor_at(h.outputs[r], run));
}

void Executable::run_library_call(const LibraryCall& c, size_t step, Run& run) {
  const auto& library = loaded_.steps[step].library;
  const BoundStep& s = run.bound.steps[step];
  std::vector<void*> buffers;
  for (int buffer : c.buffers) buffers.push_back(run.memory.at[static_cast<size_t>(buffer)]);
  void* scratch = s.scratch >= 0 ? run.lane.arena->data + s.scratch : nullptr;
  if (run.capture && !plan_.device.is_cuda()) return capture_call(c.name, library, std::move(buffers), scratch);
  library->run(buffers.data(), scratch);
}

// Launches on a GPU, and calls of its libraries, are timed several times in a row, so that the latency of a first one does not count,
// unless they change what they read.
int64_t Executable::nanoseconds_of(size_t step, const std::function<void()>& work) const {
  if (!plan_.device.is_cuda()) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  }
  device::cuda::Gpu& gpu = device::cuda::gpu(plan_.device.index);
  const auto* l = std::get_if<Launch>(&plan_.steps[step]);
  const auto* c = std::get_if<LibraryCall>(&plan_.steps[step]);
  if ((!l && !c) || (l && l->in_place)) return static_cast<int64_t>(gpu.time_ms(work) * 1e6);
  int64_t weights = 0;
  for (int i : l ? l->buffers : c->buffers)
    if (const Tensor& t = loaded_.constants[static_cast<size_t>(i)]; t.defined())
      weights += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  return time_repeatedly(gpu, work, weights);
}

void Executable::observe(Observer observer) {
  observer_ = std::move(observer);
  watched_ = observer_ || names_;
}

void Executable::watch_step(size_t step, Run& run) {
  const device::cuda::NvtxRange named(names_ ? &names_->steps[step] : nullptr);
  if (observer_)
    observer_(name_of(plan_.steps[step]), nanoseconds_of(step, [&] { run_step(step, run); }));
  else
    run_step(step, run);
}

}  // namespace toroid::exec
