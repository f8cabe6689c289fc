#include "exec/record/capture_manager.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/log.h"
#include "device/cuda/gpu.h"

namespace toroid::exec {
namespace {

int64_t bytes_in(const std::shared_ptr<Storage>& s) { return s ? static_cast<int64_t>(s->bytes) : 0; }

// Memory that is `now` large becomes `want`, if that is more: by how much.
int64_t growth(int64_t now, int64_t want) { return std::max<int64_t>(want - now, 0); }

int64_t growth_of(const Lane& lane, const Bound& b, const Placement& p) {
  return growth(bytes_in(lane.arena), b.arena) + growth(bytes_in(lane.zeros), b.zeros) + growth(lane.results.bytes(), p.bytes());
}

}  // namespace

CaptureManager& CaptureManager::of(const Device& device) {
  static std::mutex mutex;
  static auto& managers = *new std::map<std::pair<DeviceType, int>, std::unique_ptr<CaptureManager>>;
  std::lock_guard lock(mutex);
  auto& m = managers[{device.type, device.index}];
  if (!m) m = std::make_unique<CaptureManager>(device);
  return *m;
}

CaptureManager::CaptureManager(const Device& device) : device_(device), pool_(device::memory_of(device).make_pool()) {}

void CaptureManager::add(const std::shared_ptr<CaptureFunction>& function) {
  std::lock_guard lock(mutex_);
  std::erase_if(functions_, [](auto& f) { return f.expired(); });
  functions_.push_back(function);
}

std::unique_ptr<Lane> CaptureManager::take_lane() {
  const auto me = std::this_thread::get_id();
  const auto stream = stream_key(device_);
  std::lock_guard lock(mutex_);
  auto take = [&](auto&& good) -> std::unique_ptr<Lane> {
    for (size_t i = idle_.size(); i-- > 0;) {
      if (idle_[i]->stream != stream || !good(*idle_[i])) continue;
      auto lane = std::move(idle_[i]);
      idle_.erase(idle_.begin() + static_cast<long>(i));
      return lane;
    }
    return nullptr;
  };
  auto lane = take([&](Lane& l) { return l.owner == me; });
  if (!lane) lane = take([](Lane& l) { return !l.results.holds_results(); });
  if (!lane) lane = std::make_unique<Lane>();
  lane->owner = me;
  lane->stream = stream;
  return lane;
}

void CaptureManager::give_back(std::unique_ptr<Lane> lane) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(lane));
}

bool CaptureManager::fits(const Lane& lane, const Bound& b, const Placement& p) { return growth_of(lane, b, p) == 0; }

std::shared_ptr<Storage> CaptureManager::slab(size_t bytes) {
  auto s = std::make_shared<Storage>();
  s->bytes = bytes;
  s->device = device_;
  s->owner = pool_->allocate(bytes);
  s->data = static_cast<std::byte*>(s->owner.get());
  return s;
}

bool CaptureManager::make_room(Lane& lane, const Bound& b, const Placement& p, int64_t exec, int64_t budget, bool evict) {
  std::lock_guard room(room_);
  auto over = [&] { return budget > 0 && pool_bytes() + exec_bytes() + growth_of(lane, b, p) + exec > budget; };
  // What can never be is refused before others are dropped for it.
  if (budget > 0 && b.arena + b.zeros + p.bytes() + exec > budget) return false;
  if (over()) trim(&lane);
  while (over() && evict && evict_one()) trim(&lane);
  if (over()) return false;
  auto grow = [&](std::shared_ptr<Storage>& s, int64_t want) {
    if (growth(bytes_in(s), want) == 0) return false;
    s = nullptr;  // first, so that never both are there
    s = slab(static_cast<size_t>(want));
    return true;
  };
  const bool moved = lane.arena != nullptr;
  const bool grown = grow(lane.arena, b.arena);
  if (grow(lane.zeros, b.zeros)) device::cuda::gpu(device_.index).fill_zero(lane.zeros->data, lane.zeros->bytes);
  lane.results.reserve(p.bytes(), [&](size_t bytes) { return slab(bytes); });
  if (grown && moved) device::memory_of(device_).release_unused();  // the memory before was too small for what follows, too
  return true;
}

std::vector<std::shared_ptr<CaptureFunction>> CaptureManager::functions() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CaptureFunction>> out;
  for (auto& f : functions_)
    if (auto alive = f.lock()) out.push_back(std::move(alive));
  return out;
}

std::vector<CaptureManager::Use> CaptureManager::recordings() {
  std::vector<Use> out;
  for (auto& f : functions()) {
    std::lock_guard lock(f->mutex);
    for (auto& r : f->recordings) out.push_back({f, r});
  }
  return out;
}

int64_t CaptureManager::exec_bytes() {
  int64_t n = 0;
  for (auto& use : recordings()) n += use.recording->bytes();
  return n;
}

bool CaptureManager::evict_one() {
  const auto all = recordings();
  auto oldest = std::min_element(all.begin(), all.end(), [](auto& a, auto& b) { return a.recording->last_use < b.recording->last_use; });
  if (oldest == all.end()) return false;
  CaptureFunction& f = *oldest->function;
  std::lock_guard lock(f.mutex);
  std::erase(f.recordings, oldest->recording);
  f.count(Count::Evictions);
  log(Artifact::Captures, fmt::format("{}: the recording for {} is dropped to stay in capture_memory_kb", f.name,
                                      to_string(oldest->recording->bound().symbols)));
  return true;
}

// Lanes that nobody else uses become as small as their recordings allow.
void CaptureManager::trim(Lane* own) {
  const auto all = recordings();
  auto shrink = [&](Lane& lane) {
    int64_t arena = 0, zeros = 0, results = 0;
    for (auto& use : all) {
      if (use.recording->lane() != &lane) continue;
      const Bound& b = use.recording->bound();
      arena = std::max(arena, b.arena);
      zeros = std::max(zeros, b.zeros);
      results = std::max(results, use.recording->placement().bytes());
    }
    if (bytes_in(lane.arena) > arena) lane.arena = nullptr;
    if (bytes_in(lane.zeros) > zeros) lane.zeros = nullptr;
    if (lane.results.bytes() > results && !lane.results.holds_results()) lane.results.release();
  };
  if (own) shrink(*own);
  std::lock_guard lock(mutex_);
  for (auto& lane : idle_) shrink(*lane);
  device::memory_of(device_).release_unused();
}

void CaptureManager::note_use() {
  const int64_t now = pool_bytes() + exec_bytes();
  std::lock_guard lock(mutex_);
  peak_bytes_ = std::max(peak_bytes_, now);
}

namespace {

void add_counts(const CaptureFunction& f, CaptureReport& out) {
  constexpr int64_t CaptureCounters::*kFields[kCounts] = {
      &CaptureCounters::calls,        &CaptureCounters::warmups,        &CaptureCounters::recordings,    &CaptureCounters::rerecordings,
      &CaptureCounters::skipped,      &CaptureCounters::graph_launches, &CaptureCounters::host_launches, &CaptureCounters::host_calls,
      &CaptureCounters::input_copies, &CaptureCounters::patches,        &CaptureCounters::evictions,
  };
  for (size_t i = 0; i < kCounts; ++i) out.counters.*kFields[i] += f.counts[i].load(std::memory_order_relaxed);
  out.steps += f.coverage.steps;
  out.steps_recorded += f.coverage.steps_recorded;
  out.parts += f.coverage.parts;
  out.skips.insert(out.skips.end(), f.coverage.skips.begin(), f.coverage.skips.end());
  out.skips.insert(out.skips.end(), f.skips.begin(), f.skips.end());
  out.warnings.insert(out.warnings.end(), f.warnings.begin(), f.warnings.end());
}

}  // namespace

CaptureReport CaptureManager::report(const CaptureFunction* only) {
  CaptureReport out;
  for (auto& f : functions()) {
    if (only && f.get() != only) continue;
    std::lock_guard lock(f->mutex);
    add_counts(*f, out);
  }
  const auto all = recordings();
  for (auto& use : all) {
    if (only && use.function.get() != only) continue;
    const Captured& r = *use.recording;
    const Bound& b = r.bound();
    int64_t arena = 0, zeros = 0, results = 0;  // the most of another recording: all begin at the same place
    for (auto& other : all) {
      if (other.recording == use.recording || other.recording->lane() != r.lane()) continue;
      arena = std::max(arena, other.recording->bound().arena);
      zeros = std::max(zeros, other.recording->bound().zeros);
      results = std::max(results, other.recording->placement().bytes());
    }
    CaptureRow row;
    row.function = use.function->name;
    row.sizes = to_string(b.symbols);
    row.parts = use.function->coverage.parts;
    row.kernels = r.launches();
    row.width = r.width();
    row.exec_bytes = r.bytes();
    row.pool_bytes = r.pool_bytes();
    row.shared_bytes = std::min(b.arena, arena) + std::min(b.zeros, zeros) + std::min(r.placement().bytes(), results);
    row.forecast_bytes = r.forecast_bytes;
    row.replays = r.replays;
    out.exec_bytes += row.exec_bytes;
    out.recordings.push_back(std::move(row));
  }
  out.pool_bytes = pool_bytes();
  if (device_.is_cuda()) {
    const auto& graphs = device::cuda::gpu(device_.index).graph_memory();
    out.graphs_took = graphs.taken();
    out.graphs_forecast = graphs.forecast();
  }
  std::lock_guard lock(mutex_);
  out.peak_bytes = std::max(peak_bytes_, out.pool_bytes + out.exec_bytes);
  return out;
}

void CaptureManager::release() {
  for (auto& f : functions()) {
    std::lock_guard lock(f->mutex);
    f->recordings.clear();
  }
  std::lock_guard room(room_);
  trim(nullptr);
  std::lock_guard lock(mutex_);
  peak_bytes_ = 0;
}

}  // namespace toroid::exec
