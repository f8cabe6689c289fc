#include "exec/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/mutants.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_runtime.h"
#include "device/cuda/nvtx.h"
#include "exec/blocks.h"
#include "exec/gpu_recording.h"
#include "exec/gpu_timing.h"
#include "exec/manual_capture.h"
#include "exec/requirements.h"
#include "exec/whole_writes.h"
#include "tensor/random_state.h"

namespace toroid::exec {
namespace {

// Kernels of a GPU move 16 bytes at once.
bool is_aligned(const Tensor& t) {
  constexpr uintptr_t kBytes = 16;
  return !t.device().is_cuda() || reinterpret_cast<uintptr_t>(t.raw_data()) % kBytes == 0;
}

// Whether dimensions with more than one element have these strides.
bool has_strides(const Tensor& t, const std::vector<int64_t>& want) {
  for (size_t d = 0; d < want.size(); ++d)
    if (t.sizes()[d] > 1 && t.strides()[d] != want[d]) return false;
  return true;
}

// Whether kernels can take t where it is. want: strides, where the plan names some.
bool lies_as_taken(const Tensor& t, const InputPlan& in, const std::vector<int64_t>& want) {
  return is_aligned(t) && (in.type.strides.empty() ? t.is_contiguous() : has_strides(t, want));
}

// t, or its elements in other memory, with the strides that kernels take the input for: `want`, where the plan names some.
Tensor laid_out(const Tensor& t, const InputPlan& in, const std::vector<int64_t>& want) {
  if (lies_as_taken(t, in, want)) return t;
  if (in.type.strides.empty()) {
    if (is_aligned(t)) return mutant(Mutant::IgnoredStrides) ? t : t.contiguous();
    Tensor out = Tensor::empty(t.sizes(), t.dtype(), t.device());
    copy_elements(t, out);
    return out;
  }
  if (t.numel() == 0) return t;
  bool repeats = false;
  int64_t extent = 1;
  for (size_t d = 0; d < want.size(); ++d) {
    if (t.sizes()[d] <= 1) continue;
    repeats = repeats || want[d] == 0;
    extent += (t.sizes()[d] - 1) * want[d];
  }
  const bool same = has_strides(t, want);
  TOROID_USER_CHECK(same || !repeats, "input {} (\"{}\") must have strides {}, it has {}", in.user, in.name, sizes_text(want),
                    sizes_text(t.strides()));
  Tensor row = Tensor::empty(std::vector<int64_t>{extent}, t.dtype(), t.device());
  Tensor out = row.as_strided(t.sizes(), want);
  if (same)
    copy_elements(t.as_strided(row.sizes(), row.strides()), row);  // as it lies; copies between strides are programs, and end here
  else
    copy_elements(t, out);
  return out;
}

}  // namespace

// One run on its way through the steps.
struct Executable::Run {
  const Bound& bound;
  Lane& lane;
  device::Capture* capture;  // by hand, that the run is part of; null: none
  Workspace& memory;
};

struct Executable::Names {
  explicit Names(const Plan& plan) : call(plan.name), replay(plan.name + ": replay") {
    for (auto& s : plan.steps) steps.emplace_back(name_of(s));
  }
  device::cuda::NvtxName call, replay;
  std::vector<device::cuda::NvtxName> steps;
};

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
    users_ = std::max(users_, static_cast<size_t>(in.user + 1));
    stateful_ = stateful_ || (in.mutated && in.user < 0);
  }
  in_place_ = whole_writes(plan_);
  if (plan_.record) recorder_ = std::make_unique<Recorder>(plan_, !is_block);
  make_blocks();
}

CaptureReport Executable::captures() const { return recorder_ ? recorder_->report() : CaptureReport{}; }

const Tensor& Executable::input_tensor(size_t i, std::span<const Tensor> arguments) const {
  const InputPlan& in = plan_.inputs[i];
  return in.user >= 0 ? arguments[static_cast<size_t>(in.user)] : loaded_.inputs[i];
}

std::shared_ptr<const Bound> Executable::bind(const Symbols& symbols) {
  std::lock_guard lock(mutex_);
  for (auto& b : bound_)
    if (b->symbols == symbols) return b;
  auto b = exec::bind(plan_, loaded_, symbols);
  constexpr size_t kKept = 64;
  if (bound_.size() >= kKept) {
    if (recorder_) recorder_->drop(*bound_.front());
    bound_.erase(bound_.begin());
  }
  bound_.push_back(b);
  return b;
}

void Executable::launch(const Launch& l, void* const* bufs, const BoundStep& s) {
  const device::cpu::Launch launch{s.kernel->function, bufs,     s.params.data(), s.tasks, s.alone, bufs[l.buffers.size()],
                                   s.scratch_bytes,    s.threads};
  if (auto* recorder = device::cpu::recorder()) return recorder->add_launch(l.name, launch, {bufs, l.buffers.size() + 1}, s.params);
  device::cpu::run(launch);
}

std::vector<Tensor> Executable::collect(std::span<const Tensor> arguments, const std::vector<Tensor>& held,
                                        const std::function<Tensor(int)>& result) {
  std::vector<Tensor> out;
  for (size_t i : fixed_.outputs) {
    const OutputPlan& o = plan_.outputs[i];
    Tensor t = o.buffer >= 0 ? result(static_cast<int>(i)) : Tensor();
    if (o.mutates >= 0) {
      auto input = static_cast<size_t>(o.mutates);
      Tensor target = input_tensor(input, arguments);
      if (o.buffer < 0 && !mutant(Mutant::SkippedWriteBack))
        t = held[static_cast<size_t>(plan_.inputs[input].buffer)];  // written in place, or in the input's copy
      if (t.defined() && t.raw_data() != target.raw_data()) copy_elements(t, target);
    } else {
      out.push_back(std::move(t));
    }
  }
  return out;
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
  if (!lane->arena || lane->arena->bytes < static_cast<size_t>(b.arena))
    lane->arena = allocate_storage(static_cast<size_t>(b.arena), plan_.device);
  if (b.zeros > 0 && (!lane->zeros || lane->zeros->bytes < static_cast<size_t>(b.zeros))) {
    lane->zeros = allocate_storage(static_cast<size_t>(b.zeros), plan_.device);
    device::cuda::gpu(plan_.device.index).fill_zero(lane->zeros->data, static_cast<size_t>(b.zeros));
  }
  return lane;
}

void Executable::fix() {
  std::vector<bool> in_place(plan_.inputs.size(), false);
  fixed_.at.assign(plan_.buffers.size(), nullptr);
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].role == BufferRole::Constant) fixed_.at[i] = loaded_.constants[i].raw_data();
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    const auto buffer = static_cast<size_t>(in.buffer);
    if (plan_.buffers[buffer].role == BufferRole::Constant) continue;
    const bool known = std::all_of(in.type.strides.begin(), in.type.strides.end(), [](const Expr& e) { return e.is_const(); });
    in_place[i] = in.user < 0 && !in.draws && known && lies_as_taken(loaded_.inputs[i], in, evaluate(in.type.strides, {}));
    if (in_place[i])
      fixed_.at[buffer] = loaded_.inputs[i].raw_data();
    else
      fixed_.inputs.push_back(i);
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& o = plan_.outputs[i];
    if (o.buffer >= 0 || o.mutates < 0 || !in_place[static_cast<size_t>(o.mutates)]) fixed_.outputs.push_back(i);
  }
}

void Executable::place_buffers(std::span<const Tensor> arguments, std::span<const Tensor> into, const Captured* recorded, Run& run) {
  Workspace& memory = run.memory;
  memory.let_go();  // of a run that an error ended
  const std::byte* arena = run.lane.arena ? run.lane.arena->data : nullptr;
  if (memory.at.empty() || memory.arena != arena) {
    memory.at = fixed_.at;
    memory.held.resize(plan_.buffers.size());
    memory.holding.reserve(fixed_.inputs.size() + fixed_.outputs.size());
    for (size_t i = 0; i < memory.at.size(); ++i)
      if (run.bound.offsets[i] >= 0) memory.at[i] = run.lane.arena->data + run.bound.offsets[i];
    memory.arena = arena;
  }
  if (faults_ >= 0) memory.at[static_cast<size_t>(faults_)] = memory.faults->at();
  for (size_t i : fixed_.inputs) {
    const InputPlan& in = plan_.inputs[i];
    Tensor placed;
    if (in.draws) {
      const int64_t count = evaluate(*in.draws, run.bound.symbols);
      placed = run.capture ? captured_random_state(*run.capture, count, plan_.device) : moved(take_random_state(count), plan_.device);
    } else {
      const Tensor& given = input_tensor(i, arguments);
      placed = laid_out(given, in, run.bound.input_strides[i]);
      if (recorder_ && placed.impl() != given.impl()) recorder_->count(Count::InputCopies);
    }
    memory.hold(static_cast<size_t>(in.buffer), std::move(placed));
  }
  for (size_t i : fixed_.outputs) {
    const OutputPlan& o = plan_.outputs[i];
    if (!in_place_[i]) continue;
    const auto input = static_cast<size_t>(o.mutates);
    const Tensor& target = input_tensor(input, arguments);
    const bool is_there = memory.at[static_cast<size_t>(plan_.inputs[input].buffer)] == target.raw_data() && target.is_contiguous();
    if (is_there && !overlaps_another(target, arguments)) memory.hold(static_cast<size_t>(o.buffer), target);
  }
  size_t returned = 0;
  for (size_t i : fixed_.outputs) {
    const OutputPlan& o = plan_.outputs[i];
    size_t place = o.mutates < 0 ? returned++ : into.size();
    if (o.buffer < 0 || plan_.buffers[static_cast<size_t>(o.buffer)].role != BufferRole::Output) continue;
    Tensor t = memory.held[static_cast<size_t>(o.buffer)];  // of another output, where that is the same
    if (t.defined()) continue;
    if (recorded)
      for (auto& p : recorded->placement().places)
        if (p.buffer == o.buffer && !t.defined()) t = recorder_->result(run.lane, p, run.bound.output_sizes[i], i);
    const bool given = place < into.size() && into[place].defined() && is_aligned(into[place]);
    if (!t.defined()) t = given ? into[place] : Tensor::empty(run.bound.output_sizes[i], o.type.dtype, plan_.device);
    memory.hold(static_cast<size_t>(o.buffer), std::move(t));
  }
}

void Executable::run_step(size_t i, Run& run) {
  const BoundStep& s = run.bound.steps[i];
  const Symbols& symbols = run.bound.symbols;
  auto tensor_at = [&](const HostCall::View& v) {
    auto sizes = evaluate(v.sizes, symbols), strides = evaluate(v.strides, symbols);
    auto* data = static_cast<std::byte*>(run.memory.at[static_cast<size_t>(v.buffer)]) +
                 evaluate(v.offset, symbols) * static_cast<int64_t>(size_of(v.dtype));
    return Tensor::from_blob(data, sizes, v.dtype, strides, nullptr, plan_.device);
  };
  if (auto* l = std::get_if<Launch>(&plan_.steps[i])) {
    const std::vector<void*> pointers = pointers_of(plan_, *l, s, run.lane, run.memory.at);
    if (plan_.device.is_cuda())
      GpuLaunch(*l, *s.kernel, symbols).run(device::cuda::gpu(plan_.device.index), pointers);
    else
      launch(*l, pointers.data(), s);
  } else if (auto* h = std::get_if<HostCall>(&plan_.steps[i])) {
    if (plan_.device.is_cuda()) device::refuse_in_capture(plan_.device, h->name + ", which runs on the host,");
    std::vector<Tensor> inputs;
    for (auto& v : h->inputs) inputs.push_back(moved(tensor_at(v), Device::cpu()));
    if (run.capture) {
      std::vector<Tensor> outputs;
      for (auto& v : h->outputs) outputs.push_back(tensor_at(v));
      return capture_call(*h, std::move(inputs), std::move(outputs), [symbols](const Expr& e) { return Expr(evaluate(e, symbols)); });
    }
    auto results = call(*h, inputs, [&](const Expr& e) { return Expr(evaluate(e, symbols)); });
    for (size_t r = 0; r < h->outputs.size(); ++r) copy_elements(results.at(r), tensor_at(h->outputs[r]));
  } else if (auto* c = std::get_if<LibraryCall>(&plan_.steps[i])) {
    std::vector<void*> buffers;
    for (int buffer : c->buffers) buffers.push_back(run.memory.at[static_cast<size_t>(buffer)]);
    void* scratch = s.scratch >= 0 ? run.lane.arena->data + s.scratch : nullptr;
    if (run.capture && !plan_.device.is_cuda()) return capture_call(c->name, loaded_.steps[i].library, std::move(buffers), scratch);
    loaded_.steps[i].library->run(buffers.data(), scratch);
  } else if (!blocks_[i].empty()) {
    auto results = run_blocks(i, tensor_at, symbols);
    const auto& views = block_results(plan_.steps[i]);
    for (size_t r = 0; r < views.size(); ++r) {
      auto buffer = static_cast<size_t>(views[r].buffer);
      run.memory.hold(buffer, results.at(r));
    }
  }
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

void Executable::run_steps(const Segment& steps, Run& run) {
  for (size_t s = steps.first; s < steps.last; ++s) {
    if (recorder_) recorder_->count(std::holds_alternative<Launch>(plan_.steps[s]) ? Count::HostLaunches : Count::HostCalls);
    if (watched_)
      watch_step(s, run);
    else
      run_step(s, run);
    check_faults(s, run.memory.faults);
  }
}

std::vector<Tensor> Executable::run_bound(const Bound& b, std::span<const Tensor> arguments, std::span<const Tensor> into) {
  device::Capture* capture = manual_capture(plan_.device);
  Recorder::Way way;
  if (recorder_ && !observer_ && !capture) way = recorder_->choose(b, arguments);
  std::unique_ptr<Lane> own;
  if (!way.lane) own = take_lane(b, capture != nullptr);
  Workspace alone;
  Run run{b, way.lane ? *way.lane : *own, capture, way.recorded ? way.recorded->workspace : alone};
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
  const Bound& b = run.bound;
  place_buffers(arguments, into, way.recorded.get(), run);
  if (way.recorded)
    replay(way, run);
  else
    run_steps({0, plan_.steps.size()}, run);
  auto out = collect(arguments, run.memory.held, [&](int i) {
    const OutputPlan& o = plan_.outputs[static_cast<size_t>(i)];
    const Tensor& t = run.memory.held[static_cast<size_t>(o.buffer)];
    if (t.defined() && t.sizes() == b.output_sizes[static_cast<size_t>(i)]) return t;
    Tensor view = Tensor::from_blob(run.memory.at[static_cast<size_t>(o.buffer)], b.output_sizes[static_cast<size_t>(i)], o.type.dtype, {},
                                    nullptr, plan_.device);
    Tensor copy = Tensor::empty(view.sizes(), view.dtype(), plan_.device);
    copy_elements(view, copy);
    return copy;
  });
  if (run.capture) {
    keep_for_capture(*run.capture, plan_.device, loaded_, run.memory.held);
    if (run.memory.faults) run.capture->retain(run.memory.faults);
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
    if (way.record) c.record(i, memory, stay, [&](size_t s) { run_step(s, run); });
    if (c.is_empty(i)) continue;
    const device::cuda::NvtxRange named(names_ ? &names_->replay : nullptr);
    if (const int64_t patches = c.replay(i, memory); patches > 0) recorder_->count(Count::Patches, patches);
    recorder_->count(Count::GraphLaunches);
    if (run.memory.faults && !plan_.device.is_cuda()) run.memory.faults->check();
  }
  c.replays.fetch_add(1, std::memory_order_relaxed);
  if (way.record) recorder_->keep(way);
}

// Sizes that the run determines: every buffer gets its own memory when it is first written.
std::vector<Tensor> Executable::run_dynamic(Symbols symbols, std::span<const Tensor> arguments) {
  device::refuse_in_capture(plan_.device, "a program with sizes that only its run determines");
  check_guards(plan_, symbols);
  std::vector<Tensor> held(plan_.buffers.size());
  const std::shared_ptr<device::IndexFaultRecord> faults = take_faults(false);
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].role == BufferRole::Constant) held[i] = loaded_.constants[i];
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    Tensor t = in.draws ? moved(take_random_state(evaluate(*in.draws, symbols)), plan_.device) : input_tensor(i, arguments);
    held[static_cast<size_t>(in.buffer)] = laid_out(t, in, evaluate(in.type.strides, symbols));
  }
  auto memory = [&](int buffer) -> Tensor& {
    Tensor& t = held[static_cast<size_t>(buffer)];
    if (!t.defined())
      t = Tensor::empty({evaluate(plan_.buffers[static_cast<size_t>(buffer)].numel, symbols)},
                        plan_.buffers[static_cast<size_t>(buffer)].dtype, plan_.device);
    return t;
  };
  auto resolve = [&](const Expr& e) { return Expr(evaluate(e, symbols)); };
  auto tensor_at = [&](const HostCall::View& v) {
    auto sizes = evaluate(v.sizes, symbols), strides = evaluate(v.strides, symbols);
    auto* data = memory(v.buffer).raw_data() + evaluate(v.offset, symbols) * static_cast<int64_t>(size_of(v.dtype));
    return Tensor::from_blob(data, sizes, v.dtype, strides, nullptr, plan_.device);
  };
  // Results in memory of their own.
  auto hold = [&](int buffer, const Tensor& t) {
    held[static_cast<size_t>(buffer)] = t.as_strided(std::vector<int64_t>{t.numel()}, std::vector<int64_t>{1});
  };
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const StepPlan& step = plan_.steps[s];
    if (auto* l = std::get_if<Launch>(&step)) {
      std::vector<void*> bufs;
      for (int i : l->buffers) bufs.push_back(i == faults_ ? static_cast<void*>(faults->at()) : memory(i).raw_data());
      BoundStep now = bind_launch(plan_, *l, symbols);
      now.kernel = &loaded_.steps[s].kernel;
      const int64_t bytes = now.scratch_bytes * now.threads + bytes_of(l->gpu.scratch_bytes, 1, symbols);
      const int64_t zeros = bytes_of(l->gpu.counters, sizeof(uint32_t), symbols);
      std::shared_ptr<Storage> space, counters;
      if (bytes > 0) space = allocate_storage(static_cast<size_t>(bytes), plan_.device);
      if (bytes > 0 || !plan_.device.is_cuda()) bufs.push_back(space ? space->data : nullptr);
      if (plan_.device.is_cuda()) {
        device::cuda::Gpu& gpu = device::cuda::gpu(plan_.device.index);
        if (zeros > 0) {
          counters = allocate_storage(static_cast<size_t>(zeros), plan_.device);
          gpu.fill_zero(counters->data, static_cast<size_t>(zeros));
          bufs.push_back(counters->data);
        }
        GpuLaunch(*l, *now.kernel, symbols).run(gpu, bufs);
      } else {
        launch(*l, bufs.data(), now);
        check_faults(s, faults);
      }
    } else if (auto* h = std::get_if<HostCall>(&step)) {
      std::vector<Tensor> inputs;
      for (auto& v : h->inputs) inputs.push_back(moved(tensor_at(v), Device::cpu()));
      auto results = call(*h, inputs, resolve);
      for (size_t r = 0; r < h->outputs.size(); ++r) {
        const Tensor& t = results.at(r);
        for (size_t d = 0; d < h->outputs[r].sizes.size(); ++d) {
          const Expr& e = h->outputs[r].sizes[d];
          if (e.kind() != sym::Kind::Symbol) continue;
          const std::string& name = e.node()->name;
          if (std::any_of(symbols.begin(), symbols.end(), [&](auto& s) { return s.first == name; })) continue;
          symbols.emplace_back(name, t.sizes()[d]);
          check_guards(plan_, symbols, &e);
        }
        hold(h->outputs[r].buffer, moved(t.contiguous(), plan_.device));
      }
    } else if (auto* c = std::get_if<LibraryCall>(&step)) {
      std::vector<void*> bufs;
      for (int i : c->buffers) bufs.push_back(memory(i).raw_data());
      std::shared_ptr<Storage> space = allocate_storage(static_cast<size_t>(loaded_.steps[s].library->scratch_bytes()), plan_.device);
      loaded_.steps[s].library->run(bufs.data(), space->data);
    } else if (!blocks_[s].empty()) {
      auto results = run_blocks(s, tensor_at, symbols);
      const auto& views = block_results(step);
      for (size_t r = 0; r < views.size(); ++r) hold(views[r].buffer, results.at(r));
    }
  }
  give_back(faults);
  return collect(arguments, held, [&](int i) {
    const OutputPlan& o = plan_.outputs[static_cast<size_t>(i)];
    auto sizes = evaluate(o.type.sizes, symbols);
    return memory(o.buffer).as_strided(sizes, contiguous_strides(sizes));
  });
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
  if (dynamic_) return run_dynamic(std::move(symbols), arguments);
  const auto bound = bind(symbols);
  return run_bound(*bound, arguments, into);
}

}  // namespace toroid::exec
