#include "exec/record/gpu_recording.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "toroid/device_error.h"

namespace toroid::exec {
namespace {

// Of a trial: how often each way is timed, at least and at most, and what part of the first way's time the second one has to take.
constexpr int kTimes = 5, kLeastTimes = 2;
constexpr double kWorthwhile = 0.98;

}  // namespace

void GpuRecording::record(const std::function<void()>& steps) { ways_[0].graph = gpu_.record(steps); }

void GpuRecording::add(const Launch& launch, const Symbols& symbols, const BoundStep& s, std::vector<void*> pointers,
                       std::span<const int> slots) {
  auto entry = std::unique_ptr<Entry>(new Entry{{launch, *s.kernel, symbols}, entries_.size(), std::move(pointers)});
  entry->launch.run(gpu_, entry->pointers);
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= 0) moving_.add(slots[i], entry->pointers[i], entry.get(), i);
  ways_[0].nodes.push_back(gpu_.recorded_node());
  entries_.push_back(std::move(entry));
}

GpuRecording::Way GpuRecording::recorded_in(const Order& order) {
  Way way;
  way.width = width_of(order);
  way.graph = gpu_.record([&] {
    for (size_t i = 0; i < order.size(); ++i) {
      std::vector<device::cuda::CUgraphNode> before;
      for (size_t b : order[i]) before.push_back(way.nodes[b]);
      gpu_.record_after(before);
      entries_[i]->launch.run(gpu_, entries_[i]->pointers);
      way.nodes.push_back(gpu_.recorded_node());
    }
  });
  return way;
}

void GpuRecording::spread(const Order& order) {
  if (order.size() != entries_.size() || width_of(order) < 2) return;
  try {
    ways_.push_back(recorded_in(order));
    trial_ = std::make_unique<Trial>(gpu_);
  } catch (const DeviceError& e) {
    if (!e.is(DeviceErrorCode::OutOfMemory)) throw;
    log(Artifact::Captures, fmt::format("launches stay one after the other: {}", e.what()));
    ways_.resize(1);
  }
}

// Takes the time of an earlier replay. The trial ends early where the second way is slower from the beginning.
void GpuRecording::take_time() {
  const auto ms = trial_->lap.take_ms();
  if (!ms) return;
  Way& timed = ways_[trial_->way];
  timed.least_ms = std::min(timed.least_ms, *ms), ++timed.times;
  const double in_turn = ways_[0].least_ms, beside = ways_[1].least_ms;
  const int times = std::min(ways_[0].times, ways_[1].times);
  if (times < kLeastTimes || (times < kTimes && beside <= in_turn)) return;
  const bool worthwhile = beside <= kWorthwhile * in_turn;
  log(Artifact::Captures, fmt::format("{} launches: {:.1f} us one after the other, {:.1f} us with up to {} at a time", entries_.size(),
                                      1e3 * in_turn, 1e3 * beside, ways_[1].width));
  if (worthwhile) std::swap(ways_[0], ways_[1]);
  ways_.resize(1);
  trial_ = nullptr;
}

void GpuRecording::rebind(Entry& e) {
  for (Way& w : ways_) e.launch.put_into(*w.graph, w.nodes[e.number]);
}

void GpuRecording::set_pointers(size_t i, std::span<void* const> pointers) {
  Entry& e = *entries_.at(i);
  e.pointers.assign(pointers.begin(), pointers.end());
  if (e.launch.set_pointers(e.pointers)) rebind(e);
  moving_.forget();
}

int64_t GpuRecording::replay(std::span<void* const> at) {
  if (trial_) take_time();
  int64_t changed = 0;
  moving_.follow(
      at, [](Entry& e, size_t position, void* now) { e.pointers[position] = now; },
      [&](Entry& e) {
        if (!e.launch.set_pointers(e.pointers)) return;
        rebind(e);
        ++changed;
      });
  if (!trial_) {
    gpu_.launch(*ways_[0].graph);
    return changed;
  }
  auto launch = [&] { gpu_.launch(*ways_[trial_->way].graph); };
  if (trial_->lap.is_open()) {  // the GPU is behind
    launch();
  } else {
    trial_->way = ways_[1].times < ways_[0].times ? 1 : 0;
    trial_->lap.time(launch);
  }
  return changed;
}

int64_t GpuRecording::bytes() const {
  int64_t n = 0;
  for (auto& w : ways_) n += forecast(w.graph ? w.graph->nodes() : 0);
  return n;
}

int64_t GpuRecording::forecast(size_t launches) { return device::cuda::GraphMemory::share(launches); }

}  // namespace toroid::exec
