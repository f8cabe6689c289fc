#include "exec/executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/mutants.h"
#include "base/thread_pool.h"
#include "exec/blocks.h"
#include "exec/gpu_recording.h"
#include "exec/gpu_timing.h"
#include "exec/recording.h"
#include "tensor/random_state.h"

namespace toroid::exec {
namespace {

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

// Kernels of a GPU move 16 bytes at once.
bool is_aligned(const Tensor& t) {
  constexpr uintptr_t kBytes = 16;
  return !t.device().is_cuda() || reinterpret_cast<uintptr_t>(t.raw_data()) % kBytes == 0;
}

// Bytes of what a kernel on a GPU takes a pointer to: some, where it takes one at all.
int64_t bytes_of(const Expr& e, int64_t unit, const Symbols& symbols) {
  return e == Expr(0) ? 0 : std::max<int64_t>(evaluate(e, symbols), 1) * unit;
}

// t, or its elements in other memory, with the strides that kernels take the input for: `want`, where the plan names some.
Tensor laid_out(const Tensor& t, const InputPlan& in, const std::vector<int64_t>& want) {
  if (in.type.strides.empty() && is_aligned(t)) return t.is_contiguous() || mutant(Mutant::IgnoredStrides) ? t : t.contiguous();
  if (in.type.strides.empty()) {
    Tensor out = Tensor::empty(t.sizes(), t.dtype(), t.device());
    copy_elements(t, out);
    return out;
  }
  bool same = true, repeats = false;
  int64_t extent = 1;
  for (size_t d = 0; d < want.size(); ++d) {
    if (t.sizes()[d] <= 1) continue;
    same = same && t.strides()[d] == want[d];
    repeats = repeats || want[d] == 0;
    extent += (t.sizes()[d] - 1) * want[d];
  }
  if ((same && is_aligned(t)) || t.numel() == 0) return t;
  TOROID_USER_CHECK(!repeats, "input {} (\"{}\") must have strides {}, it has {}", in.user, in.name, sizes_text(want),
                    sizes_text(t.strides()));
  Tensor out = Tensor::empty(std::vector<int64_t>{extent}, t.dtype(), t.device()).as_strided(t.sizes(), want);
  copy_elements(t, out);
  return out;
}

}  // namespace

// What only depends on the sizes: of a step, and of all.
struct Executable::BoundStep {
  std::vector<int64_t> params;
  int64_t tasks = 0;
  int64_t scratch = -1;       // offset in the arena
  int64_t scratch_bytes = 0;  // a thread
  int64_t counters = -1;      // GPU: offset in the context's zeros
  bool alone = false;         // too little work to share between threads
};

struct Executable::Bound : std::enable_shared_from_this<Executable::Bound> {
  Symbols symbols;
  std::vector<int64_t> bytes;    // per buffer
  std::vector<int64_t> offsets;  // per buffer, in the arena; -1: not there
  int64_t arena = 0, zeros = 0;  // bytes
  std::vector<BoundStep> steps;
  std::vector<std::vector<int64_t>> output_sizes, input_strides;
};

// Memory of one run, kept for the next.
struct Executable::Context {
  std::shared_ptr<Storage> arena, zeros;
  std::shared_ptr<const Bound> recorded_for;  // the sizes that the recording is good for, in this arena
  std::unique_ptr<Recording> recording;
  std::unique_ptr<GpuRecording> gpu_recording;
  bool warm = false;  // GPU: all libraries have been called once, which they may need before they are recorded
};

Executable::~Executable() = default;

Executable::Executable(Plan plan) : plan_(std::move(plan)) {
  for (auto& [s, unbacked] : plan_.symbols) dynamic_ = dynamic_ || unbacked;
  for (auto& in : plan_.inputs) {
    users_ = std::max(users_, static_cast<size_t>(in.user + 1));
    stateful_ = stateful_ || (in.mutated && in.user < 0);
  }
  replays_ = plan_.record && std::all_of(plan_.steps.begin(), plan_.steps.end(), [&](const StepPlan& s) {
               return std::holds_alternative<Launch>(s) || (plan_.device.is_cuda() && std::holds_alternative<LibraryCall>(s));
             });
  make_blocks();
}

const Tensor& Executable::input_tensor(size_t i, std::span<const Tensor> arguments) const {
  const InputPlan& in = plan_.inputs[i];
  return in.user >= 0 ? arguments[static_cast<size_t>(in.user)] : in.data;
}

void Executable::check_inputs(std::span<const Tensor> arguments, Symbols& symbols) const {
  TOROID_USER_CHECK(arguments.size() == users_, "the program takes {} tensors, {} were given", users_, arguments.size());
  for (auto& in : plan_.inputs) {
    if (in.user < 0) continue;
    const Tensor& t = arguments[static_cast<size_t>(in.user)];
    const Device device = plan_.device;
    auto where = [&] { return fmt::format("input {} (\"{}\")", in.user, in.name); };
    TOROID_USER_CHECK(t.defined(), "{} is an undefined tensor", where());
    TOROID_USER_CHECK(t.device() == device, "{} must be on {}, it is on {}; move it there by to()", where(), to_string(device),
                      to_string(t.device()));
    TOROID_USER_CHECK(t.dtype() == in.type.dtype, "{} must have dtype {}, it has {}", where(), name_of(in.type.dtype), name_of(t.dtype()));
    TOROID_USER_CHECK(t.sizes().size() == in.type.sizes.size(), "{} must have sizes {}, it has {}", where(), to_string(in.type),
                      sizes_text(t.sizes()));
    for (size_t d = 0; d < in.type.sizes.size(); ++d) {
      const Expr& e = in.type.sizes[d];
      int64_t got = t.sizes()[d];
      if (e.kind() == sym::Kind::Symbol) {
        const std::string& name = e.node()->name;
        auto known = std::find_if(symbols.begin(), symbols.end(), [&](auto& s) { return s.first == name; });
        if (known == symbols.end()) {
          TOROID_USER_CHECK(got >= e.node()->lo && got <= e.node()->hi, "{}: dimension {} must lie in {}..{}, it is {}", where(), d,
                            e.node()->lo, e.node()->hi >= sym::kInf - 1 ? std::string("any") : std::to_string(e.node()->hi), got);
          symbols.emplace_back(name, got);
        } else {
          TOROID_USER_CHECK(known->second == got, "{}: dimension {} must be {} (= {} of an earlier input), it is {}", where(), d,
                            known->second, name, got);
        }
      } else if (e.is_const()) {
        TOROID_USER_CHECK(e.constant() == got, "{}: dimension {} must be {}, it is {}; expected {}, got {}", where(), d, e.constant(), got,
                          to_string(in.type), sizes_text(t.sizes()));
      }
    }
  }
  for (auto& in : plan_.inputs)  // sizes that are expressions of other sizes
    if (in.user >= 0)
      for (size_t d = 0; d < in.type.sizes.size(); ++d) {
        const Expr& e = in.type.sizes[d];
        if (e.is_const() || e.kind() == sym::Kind::Symbol) continue;
        int64_t want = evaluate(e, symbols), got = arguments[static_cast<size_t>(in.user)].sizes()[d];
        TOROID_USER_CHECK(want == got, "input {} (\"{}\"): dimension {} must be {} = {}, it is {}", in.user, in.name, d, sym::to_string(e),
                          want, got);
      }
}

std::shared_ptr<const Executable::Bound> Executable::bind(const Symbols& symbols) {
  std::lock_guard lock(mutex_);
  for (auto& b : bound_)
    if (b->symbols == symbols) return b;
  auto b = std::make_shared<Bound>();
  b->symbols = symbols;
  for (auto& g : plan_.guards)
    TOROID_USER_CHECK(sym::holds(g, [&](const sym::Node& s) { return value_of(symbols, s.name); }),
                      "these sizes are outside of what the program was compiled for: {} does not hold", sym::to_string(g));
  std::vector<LiveRange> ranges(plan_.buffers.size());
  for (auto& buffer : plan_.buffers) {
    int64_t n = evaluate(buffer.numel, symbols);
    b->bytes.push_back(n * static_cast<int64_t>(size_of(buffer.dtype)));
  }
  auto touch = [&](int buffer, int step) {
    auto i = static_cast<size_t>(buffer);
    if (plan_.buffers[i].role != BufferRole::Temporary) return;
    LiveRange& r = ranges[i];
    if (r.bytes == 0) r = {std::max<int64_t>(b->bytes[i], 1), step, step};
    r.last = step;
  };
  int threads = ThreadPool::global().size();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    int step = static_cast<int>(s);
    BoundStep bs;
    if (auto* l = std::get_if<Launch>(&plan_.steps[s])) {
      for (int i : l->buffers) touch(i, step);
      bs.params = evaluate(l->params, symbols);
      bs.tasks = evaluate(l->tasks, symbols);
      // About two microseconds of one thread, several times what waking and joining the others costs.
      constexpr int64_t kSmallBytes = 20'000, kSmallFlops = 200'000;
      int64_t bytes = evaluate(l->bytes, symbols), flops = evaluate(l->flops, symbols);
      bs.alone = l->serial || (bytes > 0 && bytes < kSmallBytes && flops < kSmallFlops);
      bs.scratch_bytes = evaluate(l->scratch_bytes_per_thread, symbols);
      if (int64_t scratch = bs.scratch_bytes * threads + bytes_of(l->gpu.scratch_bytes, 1, symbols); scratch > 0) {
        bs.scratch = static_cast<int64_t>(ranges.size());
        ranges.push_back({scratch, step, step});
      }
      if (int64_t counters = bytes_of(l->gpu.counters, sizeof(uint32_t), symbols); counters > 0) {
        bs.counters = b->zeros;
        b->zeros += counters;
      }
    } else if (auto* h = std::get_if<HostCall>(&plan_.steps[s])) {
      for (auto& v : h->inputs) touch(v.buffer, step);
      for (auto& v : h->outputs) touch(v.buffer, step);
    } else if (auto* c = std::get_if<LibraryCall>(&plan_.steps[s])) {
      for (int i : c->buffers) touch(i, step);
      if (int64_t scratch = c->call->scratch_bytes(); scratch > 0) {
        bs.scratch = static_cast<int64_t>(ranges.size());
        ranges.push_back({scratch, step, step});
      }
    } else if (!blocks_[s].empty()) {
      for (auto& v : block_operands(plan_.steps[s])) touch(v.buffer, step);
    }
    b->steps.push_back(std::move(bs));
  }
  for (auto& o : plan_.outputs) {
    if (o.buffer >= 0) touch(o.buffer, static_cast<int>(plan_.steps.size()));
    b->output_sizes.push_back(evaluate(o.type.sizes, symbols));
  }
  for (auto& in : plan_.inputs) b->input_strides.push_back(evaluate(in.type.strides, symbols));
  Arena arena = place(ranges);
  b->offsets.assign(arena.offsets.begin(), arena.offsets.begin() + static_cast<long>(plan_.buffers.size()));
  for (auto& s : b->steps)
    if (s.scratch >= 0) s.scratch = arena.offsets[static_cast<size_t>(s.scratch)];
  b->arena = arena.bytes;
  constexpr size_t kKept = 64;
  if (bound_.size() >= kKept) bound_.erase(bound_.begin());
  bound_.push_back(b);
  return b;
}

void Executable::launch(const Launch& l, void* const* bufs, const int64_t* params, int64_t tasks, bool alone, int64_t scratch_bytes) {
  if (tasks <= 0) return;
  alone = alone || tasks == 1;
  if (scratch_bytes > 0)
    for (int t = 0, threads = alone ? 1 : ThreadPool::global().size(); t < threads; ++t)
      mark_fresh(bufs[l.buffers.size()], scratch_bytes, t);
  struct Call {
    KernelFunction function;
    void* const* bufs;
    const int64_t* params;
  } call{l.function, bufs, params};
  if (alone) return l.function(bufs, params, 0, tasks, 0);
  ThreadPool::global().parallel_for(
      tasks,
      [](void* ctx, int64_t begin, int64_t end, int thread) {
        auto* c = static_cast<Call*>(ctx);
        c->function(c->bufs, c->params, begin, end, thread);
      },
      &call);
}

std::vector<Tensor> Executable::collect(std::span<const Tensor> arguments, const std::vector<Tensor>& held,
                                        const std::function<Tensor(int)>& result) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
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

std::unique_ptr<Executable::Context> Executable::take_context(const Bound& b) {
  std::unique_ptr<Context> context;
  {
    std::lock_guard lock(mutex_);
    arena_bytes_ = b.arena;
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!context) context = std::make_unique<Context>();
  if (!context->arena || context->arena->bytes < static_cast<size_t>(b.arena)) {
    context->arena = allocate_storage(static_cast<size_t>(b.arena), plan_.device);
    context->recorded_for = nullptr;  // its addresses are gone
  }
  if (b.zeros > 0 && (!context->zeros || context->zeros->bytes < static_cast<size_t>(b.zeros))) {
    context->zeros = allocate_storage(static_cast<size_t>(b.zeros), plan_.device);
    device::cuda::gpu(plan_.device.index).fill_zero(context->zeros->data, static_cast<size_t>(b.zeros));
    context->recorded_for = nullptr;
  }
  return context;
}

void Executable::place_buffers(const Bound& b, const Context& context, std::span<const Tensor> arguments, std::span<const Tensor> into,
                               std::vector<Tensor>& held, std::vector<void*>& at) {
  for (size_t i = 0; i < plan_.buffers.size(); ++i) {
    const BufferPlan& p = plan_.buffers[i];
    if (p.role == BufferRole::Constant)
      at[i] = p.data.raw_data();
    else if (p.role == BufferRole::Temporary && b.offsets[i] >= 0)
      at[i] = context.arena->data + b.offsets[i];
  }
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    if (plan_.buffers[static_cast<size_t>(in.buffer)].role == BufferRole::Constant) continue;
    Tensor& placed = held[static_cast<size_t>(in.buffer)];
    placed = in.draws ? take_random_state(evaluate(*in.draws, b.symbols)).to(plan_.device)
                      : laid_out(input_tensor(i, arguments), in, b.input_strides[i]);
    at[static_cast<size_t>(in.buffer)] = placed.raw_data();
  }
  for (size_t i = 0, returned = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& o = plan_.outputs[i];
    size_t place = o.mutates < 0 ? returned++ : into.size();
    if (o.buffer < 0 || plan_.buffers[static_cast<size_t>(o.buffer)].role != BufferRole::Output) continue;
    Tensor& t = held[static_cast<size_t>(o.buffer)];
    const bool given = place < into.size() && into[place].defined() && is_aligned(into[place]);
    if (!t.defined()) t = given ? into[place] : Tensor::empty(b.output_sizes[i], o.type.dtype, plan_.device);
    at[static_cast<size_t>(o.buffer)] = t.raw_data();
  }
}

// Where a launch's arguments are: its buffers, then scratch memory (on the CPU always) and counters.
std::vector<void*> Executable::pointers_of(const Launch& l, const BoundStep& s, const Context& context,
                                           const std::vector<void*>& at) const {
  std::vector<void*> out;
  for (int i : l.buffers) out.push_back(at[static_cast<size_t>(i)]);
  if (s.scratch >= 0 || !plan_.device.is_cuda()) out.push_back(s.scratch >= 0 ? context.arena->data + s.scratch : nullptr);
  if (s.counters >= 0) out.push_back(context.zeros->data + s.counters);
  return out;
}

void Executable::run_step(size_t i, const Bound& b, const Context& context, std::vector<Tensor>& held, std::vector<void*>& at) {
  const BoundStep& s = b.steps[i];
  auto tensor_at = [&](const HostCall::View& v) {
    auto sizes = evaluate(v.sizes, b.symbols), strides = evaluate(v.strides, b.symbols);
    auto* data =
        static_cast<std::byte*>(at[static_cast<size_t>(v.buffer)]) + evaluate(v.offset, b.symbols) * static_cast<int64_t>(size_of(v.dtype));
    return Tensor::from_blob(data, sizes, v.dtype, strides, nullptr, plan_.device);
  };
  if (auto* l = std::get_if<Launch>(&plan_.steps[i])) {
    const std::vector<void*> pointers = pointers_of(*l, s, context, at);
    if (plan_.device.is_cuda())
      GpuLaunch(*l, b.symbols).run(device::cuda::gpu(plan_.device.index), pointers);
    else
      launch(*l, pointers.data(), s.params.data(), s.tasks, s.alone, s.scratch_bytes);
  } else if (auto* h = std::get_if<HostCall>(&plan_.steps[i])) {
    std::vector<Tensor> inputs;
    for (auto& v : h->inputs) inputs.push_back(tensor_at(v).to(Device::cpu()));
    auto results = h->function(inputs, [&](const Expr& e) { return Expr(evaluate(e, b.symbols)); });
    for (size_t r = 0; r < h->outputs.size(); ++r) copy_elements(results.at(r), tensor_at(h->outputs[r]));
  } else if (auto* c = std::get_if<LibraryCall>(&plan_.steps[i])) {
    std::vector<void*> buffers;
    for (int buffer : c->buffers) buffers.push_back(at[static_cast<size_t>(buffer)]);
    c->call->run(buffers.data(), s.scratch >= 0 ? context.arena->data + s.scratch : nullptr);
  } else if (!blocks_[i].empty()) {
    auto results = run_blocks(i, tensor_at, b.symbols);
    const auto& views = block_results(plan_.steps[i]);
    for (size_t r = 0; r < views.size(); ++r) {
      auto buffer = static_cast<size_t>(views[r].buffer);
      held[buffer] = results.at(r);
      at[buffer] = results[r].raw_data();
    }
  }
}

// Launches on a GPU are timed several times in a row, so that the latency of a first one does not count, unless they change what they read.
int64_t Executable::nanoseconds_of(size_t step, const std::function<void()>& work) const {
  if (!plan_.device.is_cuda()) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
  }
  device::cuda::Gpu& gpu = device::cuda::gpu(plan_.device.index);
  const auto* l = std::get_if<Launch>(&plan_.steps[step]);
  if (!l || l->in_place) return static_cast<int64_t>(gpu.time_ms(work) * 1e6);
  int64_t weights = 0;
  for (int i : l->buffers) {
    const BufferPlan& p = plan_.buffers[static_cast<size_t>(i)];
    if (p.role == BufferRole::Constant) weights += p.data.numel() * static_cast<int64_t>(size_of(p.dtype));
  }
  return time_repeatedly(gpu, work, weights);
}

std::vector<Tensor> Executable::run_bound(const Bound& b, std::span<const Tensor> arguments, std::span<const Tensor> into) {
  std::unique_ptr<Context> context = take_context(b);
  std::vector<Tensor> held(plan_.buffers.size());
  std::vector<void*> at(plan_.buffers.size(), nullptr);
  place_buffers(b, *context, arguments, into, held, at);
  if (replays_ && !observer_) {
    replay(b, *context, held, at);
  } else {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (observer_)
        observer_(std::visit([](auto& step) { return step.name; }, plan_.steps[s]),
                  nanoseconds_of(s, [&] { run_step(s, b, *context, held, at); }));
      else
        run_step(s, b, *context, held, at);
    }
  }
  auto out = collect(arguments, held, [&](int i) {
    const OutputPlan& o = plan_.outputs[static_cast<size_t>(i)];
    const Tensor& t = held[static_cast<size_t>(o.buffer)];
    if (t.defined() && t.sizes() == b.output_sizes[static_cast<size_t>(i)]) return t;
    Tensor view = Tensor::from_blob(at[static_cast<size_t>(o.buffer)], b.output_sizes[static_cast<size_t>(i)], o.type.dtype, {}, nullptr,
                                    plan_.device);
    Tensor copy = Tensor::empty(view.sizes(), view.dtype(), plan_.device);
    copy_elements(view, copy);
    return copy;
  });
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
  return out;
}

void Executable::replay(const Bound& b, Context& context, std::vector<Tensor>& held, std::vector<void*>& at) {
  if (!plan_.device.is_cuda()) {
    if (context.recorded_for.get() != &b) record(b, context, at);
    return context.recording->replay(at, ThreadPool::global());
  }
  if (!context.warm) {
    for (size_t s = 0; s < plan_.steps.size(); ++s) run_step(s, b, context, held, at);
    context.warm = true;
    return;
  }
  if (context.recorded_for.get() != &b || !context.gpu_recording->serves(at)) record_on_gpu(b, context, held, at);
  context.gpu_recording->replay(device::cuda::gpu(plan_.device.index), at);
}

// Inputs and results are in other memory at each call.
bool Executable::moves(int buffer) const {
  const BufferRole role = plan_.buffers[static_cast<size_t>(buffer)].role;
  return role == BufferRole::Input || role == BufferRole::Output;
}

void Executable::record_on_gpu(const Bound& b, Context& context, std::vector<Tensor>& held, std::vector<void*>& at) {
  device::cuda::Gpu& gpu = device::cuda::gpu(plan_.device.index);
  context.recorded_for = nullptr;
  context.gpu_recording = std::make_unique<GpuRecording>();
  context.gpu_recording->record(gpu, [&] {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (auto* l = std::get_if<Launch>(&plan_.steps[s])) {
        std::vector<int> slots;
        for (int i : l->buffers) slots.push_back(moves(i) ? i : -1);
        context.gpu_recording->add(gpu, *l, b.symbols, pointers_of(*l, b.steps[s], context, at), slots);
      } else {
        run_step(s, b, context, held, at);
        for (int i : std::get<LibraryCall>(plan_.steps[s]).buffers)
          if (moves(i)) context.gpu_recording->fix(i, at[static_cast<size_t>(i)]);
      }
    }
  });
  context.recorded_for = b.shared_from_this();
}

void Executable::record(const Bound& b, Context& context, const std::vector<void*>& at) {
  context.recording = std::make_unique<Recording>();
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const auto& l = std::get<Launch>(plan_.steps[s]);
    const BoundStep& step = b.steps[s];
    std::vector<int> slots;
    for (int i : l.buffers) slots.push_back(moves(i) ? i : -1);
    slots.push_back(-1);
    context.recording->add(l, pointers_of(l, step, context, at), slots, step.params.data(), step.tasks, step.alone, step.scratch_bytes);
  }
  context.recorded_for = b.shared_from_this();
}

// Sizes that the run determines: every buffer gets its own memory when it is first written.
std::vector<Tensor> Executable::run_dynamic(Symbols symbols, std::span<const Tensor> arguments) {
  std::vector<Tensor> held(plan_.buffers.size());
  for (size_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].role == BufferRole::Constant) held[i] = plan_.buffers[i].data;
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    const InputPlan& in = plan_.inputs[i];
    Tensor t = in.draws ? take_random_state(evaluate(*in.draws, symbols)).to(plan_.device) : input_tensor(i, arguments);
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
      for (int i : l->buffers) bufs.push_back(memory(i).raw_data());
      const int64_t scratch = evaluate(l->scratch_bytes_per_thread, symbols);
      const int64_t bytes = scratch * ThreadPool::global().size() + bytes_of(l->gpu.scratch_bytes, 1, symbols);
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
        GpuLaunch(*l, symbols).run(gpu, bufs);
      } else {
        auto params = evaluate(l->params, symbols);
        launch(*l, bufs.data(), params.data(), evaluate(l->tasks, symbols), l->serial, scratch);
      }
    } else if (auto* h = std::get_if<HostCall>(&step)) {
      std::vector<Tensor> inputs;
      for (auto& v : h->inputs) inputs.push_back(tensor_at(v).to(Device::cpu()));
      auto results = h->function(inputs, resolve);
      for (size_t r = 0; r < h->outputs.size(); ++r) {
        const Tensor& t = results.at(r);
        for (size_t d = 0; d < h->outputs[r].sizes.size(); ++d) {
          const Expr& e = h->outputs[r].sizes[d];
          if (e.kind() != sym::Kind::Symbol) continue;
          const std::string& name = e.node()->name;
          if (std::none_of(symbols.begin(), symbols.end(), [&](auto& s) { return s.first == name; }))
            symbols.emplace_back(name, t.sizes()[d]);
        }
        hold(h->outputs[r].buffer, t.contiguous().to(plan_.device));
      }
    } else if (auto* c = std::get_if<LibraryCall>(&step)) {
      std::vector<void*> bufs;
      for (int i : c->buffers) bufs.push_back(memory(i).raw_data());
      std::shared_ptr<Storage> space = allocate_storage(static_cast<size_t>(c->call->scratch_bytes()), plan_.device);
      c->call->run(bufs.data(), space->data);
    } else if (!blocks_[s].empty()) {
      auto results = run_blocks(s, tensor_at, symbols);
      const auto& views = block_results(step);
      for (size_t r = 0; r < views.size(); ++r) hold(views[r].buffer, results.at(r));
    }
  }
  return collect(arguments, held, [&](int i) {
    const OutputPlan& o = plan_.outputs[static_cast<size_t>(i)];
    auto sizes = evaluate(o.type.sizes, symbols);
    return memory(o.buffer).as_strided(sizes, contiguous_strides(sizes));
  });
}

std::vector<Tensor> Executable::run(std::span<const Tensor> arguments) { return run(arguments, {}, {}); }

std::vector<Tensor> Executable::run(std::span<const Tensor> arguments, Symbols symbols, std::span<const Tensor> into) {
  check_inputs(arguments, symbols);
  if (plan_.filling.valid()) plan_.filling.get();
  std::unique_lock<std::mutex> state(state_mutex_, std::defer_lock);
  if (stateful_) state.lock();
  if (dynamic_) return run_dynamic(std::move(symbols), arguments);
  return run_bound(*bind(symbols), arguments, into);
}

}  // namespace toroid::exec
