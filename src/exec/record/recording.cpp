// Recordings on the CPU.
#include "exec/record/recording.h"

#include <algorithm>

#include "base/index_fault.h"
#include "device/cpu/launch.h"
#include "exec/record/gpu_recording.h"

namespace toroid::exec {
namespace {

// Replayed one after the other, with no host work between kernels.
class CpuRecording : public Recording {
 public:
  explicit CpuRecording(int faults) : faults_(faults) {}
  void record(const std::function<void()>& steps) override {
    steps();
    entries_.shrink_to_fit();
    bufs_.shrink_to_fit();
    patches_.shrink_to_fit();
  }
  void add(const Launch& l, const Symbols&, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) override;
  void set_pointers(size_t i, std::span<void* const> pointers) override;
  int64_t replay(std::span<void* const> at) override;
  size_t launches() const override { return entries_.size(); }
  int64_t bytes() const override { return forecast(entries_.capacity(), bufs_.capacity(), patches_.capacity()); }
  static int64_t forecast(size_t launches, size_t pointers, size_t moving) {
    return static_cast<int64_t>(sizeof(CpuRecording) + launches * sizeof(Entry) + pointers * sizeof(void*) + moving * sizeof(Patch));
  }

 private:
  struct Entry {
    device::cpu::Launch launch;
    size_t bufs;  // first of its pointers
  };
  using Patch = std::pair<size_t, int>;  // position in bufs_, buffer of the plan

  int faults_;
  std::vector<Entry> entries_;
  std::vector<void*> bufs_;
  std::vector<Patch> patches_;
};

void CpuRecording::add(const Launch&, const Symbols&, const BoundStep& s, std::vector<void*> pointers, std::span<const int> slots) {
  entries_.push_back(
      {{s.kernel->function, nullptr, s.params.data(), s.tasks, s.alone, pointers.back(), s.scratch_bytes, s.threads}, bufs_.size()});
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) patches_.emplace_back(bufs_.size() + i, slots[i]);
  bufs_.insert(bufs_.end(), pointers.begin(), pointers.end());
}

void CpuRecording::set_pointers(size_t i, std::span<void* const> pointers) {
  Entry& e = entries_.at(i);
  std::copy(pointers.begin(), pointers.end(), bufs_.begin() + static_cast<long>(e.bufs));
  e.launch.scratch = pointers.back();
}

int64_t CpuRecording::replay(std::span<void* const> at) {
  int64_t changed = 0;
  for (auto& [position, buffer] : patches_) {
    void* const now = at[static_cast<size_t>(buffer)];
    changed += bufs_[position] != now;
    bufs_[position] = now;
  }
  const auto* fault = faults_ < 0 ? nullptr : static_cast<const IndexFault*>(at[static_cast<size_t>(faults_)]);
  for (Entry& e : entries_) {
    e.launch.bufs = bufs_.data() + e.bufs;
    device::cpu::run(e.launch);
    if (fault && fault->state != IndexFault::kNone) break;
  }
  return changed;
}

}  // namespace

std::unique_ptr<Recording> make_recording(const Device& device, int faults) {
  if (device.is_cuda()) return std::make_unique<GpuRecording>(device::cuda::gpu(device.index));
  return std::make_unique<CpuRecording>(faults);
}

int64_t forecast_recording(const Device& device, size_t launches, size_t pointers, size_t moving) {
  if (device.is_cuda()) return GpuRecording::forecast(launches);
  return CpuRecording::forecast(launches, pointers, moving);
}

}  // namespace toroid::exec
