#include "exec/record/recorder.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"

namespace toroid::exec {
namespace {

thread_local std::weak_ptr<const Bound> latest_warmup;

}  // namespace

void mark_warmup_incomplete() {
  if (auto b = latest_warmup.lock()) b->warmups.fetch_sub(1);
  latest_warmup.reset();
}

Recorder::Recorder(const Plan& plan, bool shares_results, std::span<const std::string> on_host)
    : plan_(plan),
      shares_results_(shares_results),
      manager_(CaptureManager::of(plan.device)),
      function_(std::make_shared<CaptureFunction>()) {
  function_->name = plan.name;
  function_->options = read_capture_options(plan.options);
  function_->coverage = cover(plan, function_->options.min_launches, on_host);
  const auto& skips = function_->coverage.skips;
  for (auto& s : skips) log(Artifact::Captures, "not recorded: " + to_string(s));
  if (function_->options.require && !skips.empty()) {
    std::string list;
    for (auto& s : skips) list += "\n  " + to_string(s);
    fail<UserError>("capture_require: {} cannot be recorded in whole:{}", plan.name, list);
  }
  manager_.add(function_);
}

std::shared_ptr<Captured> Recorder::find(const Bound& bound, Lane& lane, std::span<const Tensor> arguments) {
  std::lock_guard lock(function_->mutex);
  for (auto& r : function_->recordings)
    if (&r->bound() == &bound && r->lane() == &lane && (!shares() || lane.results.fits(r->placement(), arguments))) return r;
  return nullptr;
}

// A recording for these sizes in this lane, which then does not leave alone what must stay.
bool Recorder::has_another(const Bound& bound, const Lane& lane) {
  std::lock_guard lock(function_->mutex);
  return std::any_of(function_->recordings.begin(), function_->recordings.end(),
                     [&](auto& r) { return &r->bound() == &bound && r->lane() == &lane; });
}

Placement Recorder::place_results(const Bound& bound, Lane& lane, std::span<const Tensor> arguments) {
  std::vector<std::pair<int, int64_t>> results;
  for (auto& o : plan_.outputs) {
    const bool computed = o.mutates < 0 && o.buffer >= 0 && plan_.buffers[static_cast<size_t>(o.buffer)].role == BufferRole::Output;
    const bool listed = std::any_of(results.begin(), results.end(), [&](auto& r) { return r.first == o.buffer; });
    if (computed && !listed) results.emplace_back(o.buffer, bound.bytes[static_cast<size_t>(o.buffer)]);
  }
  return lane.results.place(results, arguments);
}

void Recorder::skip(const Bound& bound, const std::string& reason, const std::string& fix) {
  CaptureSkip s{plan_.name, to_string(bound.symbols), reason, "", fix};
  TOROID_USER_CHECK(!function_->options.require, "capture_require: a call is not recorded: {}", to_string(s));
  constexpr size_t kMost = 256;
  function_->count(Count::Skipped);
  std::lock_guard lock(function_->mutex);
  auto& list = function_->skips;
  const bool known = std::any_of(list.begin(), list.end(), [&](auto& k) { return k.what == s.what && k.reason == s.reason; });
  if (known || list.size() >= kMost) return;
  log(Artifact::Captures, "not recorded: " + to_string(s));
  list.push_back(std::move(s));
}

// One warning a program.
void Recorder::warn_of_sizes(const Bound& bound) {
  std::lock_guard lock(function_->mutex);
  std::set<const Bound*> sizes{&bound};
  for (auto& r : function_->recordings) sizes.insert(&r->bound());
  const int64_t limit = function_->options.sizes_warn_limit;
  if (static_cast<int64_t>(sizes.size()) <= limit || !function_->warnings.empty()) return;
  function_->warnings.push_back(
      fmt::format("{} is recorded for {} different sizes, more than capture_sizes_warn_limit ({}), now for {}. Each takes memory and time: "
                  "pad inputs to a few sizes (pad_to_bucket), or name those to record in capture_sizes",
                  plan_.name, sizes.size(), limit, to_string(bound.symbols)));
  log(Artifact::Captures, function_->warnings.back());
}

bool Recorder::may_rerecord(const Bound& bound) {
  const auto& done = function_->counts[static_cast<size_t>(Count::Rerecordings)];
  if (done.load(std::memory_order_relaxed) < function_->options.rerecord_limit) return true;
  skip(bound, fmt::format("recordings were replaced {} times, which is capture_rerecord_limit", function_->options.rerecord_limit),
       "memory that stays: no mark_static_address for tensors that move, fewer results that live on from call to call");
  return false;
}

Recorder::Way Recorder::choose(const Bound& bound, std::span<const Tensor> arguments) {
  function_->count(Count::Calls);
  Way way;
  way.lane = manager_.take_lane();
  try {
    decide(bound, arguments, way);
  } catch (...) {
    give_back(way);
    throw;
  }
  return way;
}

void Recorder::pass() {
  function_->count(Count::Calls);
  function_->count(Count::Skipped);
}

void Recorder::decide(const Bound& bound, std::span<const Tensor> arguments, Way& way) {
  const CaptureOptions& o = function_->options;
  const bool cold = bound.warmups.load(std::memory_order_relaxed) < o.warmups;
  if (!cold) way.recorded = find(bound, *way.lane, arguments);
  auto grow = [&](const Placement& p, int64_t exec_bytes) {
    if (CaptureManager::fits(*way.lane, bound, p) && (exec_bytes == 0 || o.budget == 0)) return true;
    return manager_.make_room(*way.lane, bound, p, exec_bytes, o.budget, o.evict);
  };
  auto step_by_step = [&] {
    if (!grow({}, 0)) {
      manager_.give_back(std::move(way.lane));
      way.lane = nullptr;
    }
    way.recorded = nullptr;
  };
  auto no_room = [&](int64_t exec_bytes, int64_t pool_bytes) {
    skip(bound,
         fmt::format("it would take {} bytes and {} bytes of the pool, more than capture_memory_kb ({}) leaves", exec_bytes, pool_bytes,
                     o.budget >> 10),
         o.evict ? "a higher capture_memory_kb" : "a higher capture_memory_kb, or capture_over_budget=evict");
    step_by_step();
  };
  if (way.recorded) {
    if (!grow(way.recorded->placement(), 0)) return no_room(way.recorded->bytes(), way.recorded->pool_bytes());
    way.recorded->last_use.store(manager_.tick(), std::memory_order_relaxed);
  } else if (function_->coverage.parts == 0) {
    function_->count(Count::Skipped);
    return step_by_step();
  } else if (const std::string why = refusal(bound); !why.empty()) {
    skip(bound, why, "capture_sizes with these sizes, or capture_skip_dynamic=0");
    return step_by_step();
  } else if (cold) {
    function_->count(Count::Warmups);
    bound.warmups.fetch_add(1, std::memory_order_relaxed);
    latest_warmup = bound.weak_from_this();
    return step_by_step();
  } else if (way.again = has_another(bound, *way.lane); way.again && !may_rerecord(bound)) {
    return step_by_step();
  } else {
    Placement p = shares() ? place_results(bound, *way.lane, arguments) : Placement{};
    const int64_t exec_bytes = Captured::forecast(plan_, function_->coverage, bound);
    log(Artifact::Captures, fmt::format("{} for {}: forecast {} bytes, in {} bytes of the pool", plan_.name, to_string(bound.symbols),
                                        exec_bytes, bound.arena + bound.zeros + p.bytes()));
    if (!grow(p, exec_bytes)) return no_room(exec_bytes, bound.arena + bound.zeros + p.bytes());
    way.recorded = std::make_shared<Captured>(plan_, function_->coverage, bound.shared_from_this(), *way.lane, std::move(p));
    way.recorded->forecast_bytes = exec_bytes;
    way.recorded->last_use.store(manager_.tick(), std::memory_order_relaxed);
    way.record = true;
    warn_of_sizes(bound);
  }
  if (shares())
    way.lane->results.claim(way.recorded->placement(), o.results == CaptureOptions::Results::PoolClone, "\"" + plan_.name + "\"");
}

// Why these sizes are never recorded.
std::string Recorder::refusal(const Bound& bound) {
  const CaptureOptions& o = function_->options;
  if (o.skip_dynamic && !bound.symbols.empty()) return "it has symbolic sizes, and capture_skip_dynamic is set";
  std::vector<int64_t> sizes;
  for (auto& [name, value] : bound.symbols) sizes.push_back(value);
  if (sizes.empty() || o.sizes.empty() || std::find(o.sizes.begin(), o.sizes.end(), sizes) != o.sizes.end()) return "";
  return "these sizes are not among capture_sizes";
}

void Recorder::keep(const Way& way) {
  function_->count(Count::Recordings);
  if (way.again) function_->count(Count::Rerecordings);
  {
    std::lock_guard lock(function_->mutex);
    auto& list = function_->recordings;
    if (std::find(list.begin(), list.end(), way.recorded) == list.end()) list.push_back(way.recorded);
  }
  manager_.note_use();
}

void Recorder::give_back(Way& way) {
  if (way.lane) manager_.give_back(std::move(way.lane));
}

void Recorder::forget(const Way& way) {
  std::lock_guard lock(function_->mutex);
  std::erase(function_->recordings, way.recorded);
}

void Recorder::drop(const Bound& bound) {
  std::lock_guard lock(function_->mutex);
  std::erase_if(function_->recordings, [&](auto& r) { return &r->bound() == &bound; });
}

Tensor Recorder::result(Lane& lane, const Placement::Place& place, std::span<const int64_t> sizes, size_t output) const {
  const OutputPlan& o = plan_.outputs[output];
  return lane.results.lend(
      place, sizes, o.type.dtype,
      fmt::format("output {} of \"{}\"{}", output, plan_.name, o.where.empty() ? "" : fmt::format(" (computed at {})", o.where)));
}

CaptureReport Recorder::report() const { return manager_.report(function_.get()); }

}  // namespace toroid::exec
