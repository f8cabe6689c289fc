// Indices that kernels find out of range: the record of a run, and the error that it becomes.
#include <algorithm>

#include "device/cpu/cpu_runtime.h"
#include "exec/run/executable.h"

namespace toroid::exec {

void Executable::find_checks() {
  for (auto& step : plan_.steps) {
    const auto* l = std::get_if<Launch>(&step);
    checks_.push_back(l && std::any_of(l->buffers.begin(), l->buffers.end(),
                                       [&](int b) { return plan_.buffers[static_cast<size_t>(b)].role == BufferRole::Faults; }));
    for (size_t i = 0; checks_.back() && i < l->buffers.size(); ++i)
      if (plan_.buffers[static_cast<size_t>(l->buffers[i])].role == BufferRole::Faults) faults_ = l->buffers[i];
  }
}

std::shared_ptr<device::IndexFaultRecord> Executable::take_faults(bool fresh) {
  if (faults_ < 0) return nullptr;
  if (!fresh) {
    std::lock_guard lock(mutex_);
    if (!idle_faults_.empty()) {
      auto out = std::move(idle_faults_.back());
      idle_faults_.pop_back();
      return out;
    }
  }
  return std::make_shared<device::IndexFaultRecord>(plan_.device, plan_.sites);
}

void Executable::give_back(std::shared_ptr<device::IndexFaultRecord> faults) {
  if (!faults) return;
  std::lock_guard lock(mutex_);
  idle_faults_.push_back(std::move(faults));
}

void Executable::check_faults(size_t step, const std::shared_ptr<device::IndexFaultRecord>& faults) const {
  if (!checks_[step] || plan_.device.is_cuda()) return;
  auto* recorder = device::cpu::recorder();
  if (!recorder) return faults->check();
  recorder->add_call(std::get<Launch>(plan_.steps[step]).name, "check", [faults] { faults->check(); });
}

}  // namespace toroid::exec
