#include "exec/run/executable.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread_pool.h"
#include "dist/beside.h"
#include "exec/record/manual_capture.h"
#include "exec/run/names.h"
#include "exec/run/run.h"

namespace toroid::exec {

Executable::~Executable() = default;

Executable::Executable(const Plan& plan, const Store& store) : Executable(plan, load_parts(plan, store)) {}

Executable::Executable(Plan plan, Loaded loaded, bool is_block) : plan_(std::move(plan)), loaded_(std::move(loaded)) {
  if (plan_.options.get(options::kNvtx)) {
    device::cuda::require_nvtx();
    names_ = std::make_unique<const Names>(plan_);
    watched_ = true;
  }
  find_checks();
  for (auto& [s, unbacked] : plan_.symbols) dynamic_ = dynamic_ || unbacked;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    if (in.user >= 0) user_inputs_.push_back(i);
    if (in.donated) donated_inputs_.push_back(i);
    users_ = std::max(users_, static_cast<size_t>(in.user + 1));
    writes_users_ = writes_users_ || (in.mutated && in.user >= 0);
    stateful_ = stateful_ || (in.mutated && in.user < 0);
  }
  for (auto& step : loaded_.steps)
    if (step.communicator && std::find(communicators_.begin(), communicators_.end(), step.communicator.get()) == communicators_.end())
      communicators_.push_back(step.communicator.get());
  if (plan_.record) {
    std::vector<std::string> on_host;
    for (auto& step : loaded_.steps) on_host.push_back(step.refusal);
    recorder_ = std::make_unique<Recorder>(plan_, !is_block, on_host);
  }
  make_blocks();
}

CaptureReport Executable::captures() const { return recorder_ ? recorder_->report() : CaptureReport{}; }

const Tensor& Executable::input_tensor(size_t i, std::span<const Tensor> arguments) const {
  const InputPlan& in = plan_.inputs[i];
  return in.user >= 0 ? arguments[static_cast<size_t>(in.user)] : loaded_.inputs[i];
}

std::shared_ptr<const Bound> Executable::bind(const Symbols& symbols, bool donated) {
  std::lock_guard lock(mutex_);
  for (auto& b : bound_)
    if (b->symbols == symbols && b->takes_donated == donated) return b;
  auto b = exec::bind(plan_, loaded_, symbols, donated);
  constexpr size_t kKept = 64;
  if (bound_.size() >= kKept) {
    if (recorder_) recorder_->drop(*bound_.front());
    bound_.erase(bound_.begin());
  }
  bound_.push_back(b);
  return b;
}

std::unique_ptr<Lane> Executable::take_lane(const Bound& b, bool fresh) {
  const auto stream = stream_key(plan_.device);
  std::unique_ptr<Lane> lane;
  if (!fresh) {
    std::lock_guard lock(mutex_);
    for (size_t i = idle_.size(); i-- > 0 && !lane;) {
      if (idle_[i]->stream != stream) continue;
      lane = std::move(idle_[i]);
      idle_.erase(idle_.begin() + static_cast<long>(i));
    }
  }
  if (!lane) lane = std::make_unique<Lane>();
  lane->stream = stream;
  grow(*lane, b.arena, b.zeros, plan_.device);
  return lane;
}

std::vector<Tensor> Executable::run_bound(const Bound& b, LateSizes* late, std::span<const Tensor> arguments,
                                          std::span<const Tensor> into) {
  device::Capture* capture = manual_capture(plan_.device);
  Recorder::Way way;
  if (recorder_ && !observer_ && !capture && late) recorder_->pass();
  if (recorder_ && !observer_ && !capture && !late) way = recorder_->choose(b, arguments);
  std::unique_ptr<Lane> own;
  if (!way.lane) own = take_lane(b, capture != nullptr);
  Workspace alone;
  Run run{b, way.lane ? *way.lane : *own, way.recorded ? way.recorded->workspace : alone, capture, late};
  if (faults_ >= 0 && !run.memory.faults) run.memory.faults = take_faults(capture != nullptr);
  // The lane serves the next run, also where this one ends by an error: recordings belong to it.
  auto give_back_lane = [&] {
    run.memory.let_go();
    if (recorder_) return recorder_->give_back(way);
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(own));
  };
  try {
    auto out = run_in(run, way, arguments, into);
    if (!capture && !way.recorded) give_back(std::move(run.memory.faults));
    if (!capture) give_back_lane();
    return out;
  } catch (...) {
    if (way.record) recorder_->forget(way);
    if (!capture) give_back_lane();
    throw;
  }
}

// The steps, and the results. What is captured keeps the lane, whose memory serves what is captured next.
std::vector<Tensor> Executable::run_in(Run& run, Recorder::Way& way, std::span<const Tensor> arguments, std::span<const Tensor> into) {
  // The memory of a run that ends by an error serves the next one: nothing works on it any more.
  struct Ends {
    const Executable& executable;
    Run& run;
    ~Ends() { executable.abandon_collectives(run); }
  } const ends{*this, run};
  place_buffers(arguments, into, way.recorded.get(), run);
  if (way.recorded)
    replay(way, run);
  else
    run_steps({0, plan_.steps.size()}, run);
  end_collectives(plan_.steps.size() + 1, run);
  if (run.late) run.late->finish(run.memory);
  auto out = collect(arguments, run);
  if (run.capture) {
    keep_for_capture(*run.capture, plan_.device, loaded_, run.memory.held);
    if (run.memory.faults) run.capture->retain(run.memory.faults);
    for (auto* communicator : communicators_)
      run.capture->before_replay([communicator, calls = communicator->take_captured()](auto&) { communicator->begin_replay(calls); });
  }
  return out;
}

std::vector<Stays> Executable::stays(const Run& run) const {
  std::vector<Stays> out(plan_.buffers.size(), Stays::No);
  for (size_t k = 0; k < plan_.inputs.size(); ++k) {
    const InputPlan& in = plan_.inputs[k];
    const auto i = static_cast<size_t>(in.buffer);
    const bool held = in.user < 0 && !in.draws && run.memory.at[i] == loaded_.inputs[k].raw_data();
    const bool marked = run.memory.held[i].defined() && run.memory.held[i].impl()->storage->static_address;
    out[i] = held ? Stays::Always : marked ? Stays::WhileGiven : Stays::No;
  }
  return out;
}

void Executable::replay(Recorder::Way& way, Run& run) {
  Captured& c = *way.recorded;
  const Memory memory{run.lane, run.memory.at};
  if (!way.record && !c.serves(memory)) {
    if (!recorder_->may_rerecord(run.bound)) return run_steps({0, plan_.steps.size()}, run);
    c.clear(run.lane);
    way.record = way.again = true;
  }
  const std::vector<Stays> stay = way.record ? stays(run) : std::vector<Stays>();
  const auto& segments = recorder_->coverage().segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!segments[i].recorded) {
      run_steps(segments[i], run);
      continue;
    }
    if (way.record) {
      c.record(i, memory, stay,
               {[&](size_t s) { end_collectives(s + 1, run); }, [&](size_t s) { run_step(s, run); },
                [&](size_t s, auto& launch) { on_stream(s, run, launch); }, [&] { end_collectives(plan_.steps.size() + 1, run); }});
      for (auto* communicator : communicators_) c.calls(i).push_back({communicator, communicator->take_captured()});
    }
    if (c.is_empty(i)) continue;
    end_collectives(segments[i].last, run);
    for (auto& [communicator, list] : c.calls(i)) communicator->begin_replay(list);
    const device::cuda::NvtxRange named(names_ ? &names_->replay : nullptr);
    if (const int64_t patches = c.replay(i, memory); patches > 0) recorder_->count(Count::Patches, patches);
    recorder_->count(Count::GraphLaunches);
    if (run.memory.faults && !plan_.device.is_cuda()) run.memory.faults->check();
  }
  c.replays.fetch_add(1, std::memory_order_relaxed);
  if (way.record) recorder_->keep(way);
}

// Whether the call gives up the memory of all donated inputs. Recordings have places of their own.
bool Executable::gives_up(std::span<const Tensor> arguments) const {
  if (donated_inputs_.empty() || recorder_ || manual_capture(plan_.device)) return false;
  return std::all_of(donated_inputs_.begin(), donated_inputs_.end(),
                     [&](size_t i) { return input_tensor(i, arguments).impl()->storage->donated; });
}

std::vector<Tensor> Executable::run(std::span<const Tensor> arguments, Symbols symbols) { return run(arguments, std::move(symbols), {}); }

std::vector<Tensor> Executable::run(std::span<const Tensor> arguments, Symbols symbols, std::span<const Tensor> into) {
  const device::cuda::NvtxRange named(names_ ? &names_->call : nullptr);
  std::optional<CallScope> scope;
  if (recorder_) scope.emplace();
  check_inputs(arguments, symbols);
  await_constants();
  std::call_once(fixed_.once, [this] { fix(); });
  std::unique_lock<std::mutex> state(state_mutex_, std::defer_lock);
  if (stateful_) state.lock();
  std::optional<ThreadPool::Use> threads;  // from launch to launch
  if (!plan_.device.is_cuda()) threads.emplace(ThreadPool::global());
  if (!dynamic_) {
    const auto bound = bind(symbols, gives_up(arguments));
    return run_bound(*bound, nullptr, arguments, into);
  }
  device::refuse_in_capture(plan_.device, "a program with sizes that only its run determines");
  LateSizes late(plan_, loaded_, std::move(symbols));
  return run_bound(late.bound(), &late, arguments, into);
}

}  // namespace toroid::exec
