#include <algorithm>

#include "base/check.h"
#include "base/thread_pool.h"
#include "exec/run/arena.h"
#include "exec/run/bound.h"
#include "exec/run/donated.h"
#include "exec/run/overlap.h"
#include "exec/run/requirements.h"
#include "exec/steps.h"

namespace toroid::exec {
namespace {

// About two microseconds of one thread, several times what waking and joining the others costs.
constexpr int64_t kSmallBytes = 20'000, kSmallFlops = 200'000;

// Collects which steps use which memory of the arena, while steps are bound in order.
class Binder {
 public:
  Binder(const Plan& plan, const Loaded& loaded, bool donated, Bound& out)
      : plan_(plan), loaded_(loaded), donated_(donated), out_(out), ranges_(plan.buffers.size()), used_(plan.buffers.size(), {0, -1, -1}) {}

  void bind(const StepPlan& step) {
    BoundStep s;
    if (auto* l = std::get_if<Launch>(&step)) {
      for (int i : l->buffers) touch(i), keep(i);
      bind(*l, s);
    } else if (auto* h = std::get_if<HostCall>(&step)) {
      for (auto& v : h->inputs) touch(v.buffer);
      for (auto& v : h->outputs) touch(v.buffer);
    } else if (auto* c = std::get_if<LibraryCall>(&step)) {
      for (int i : c->buffers) touch(i);
      s.scratch = add_scratch(part().library->scratch_bytes());
    } else if (auto* m = std::get_if<CollectiveCall>(&step)) {
      touch(m->input.buffer), touch(m->output.buffer);
      keep(m->input.buffer), keep(m->output.buffer);
    } else {
      for (auto& v : block_operands(step)) touch(v.buffer);
    }
    out_.steps.push_back(std::move(s));
    ++now_;
  }

  void touch(int buffer) {
    auto i = static_cast<size_t>(buffer);
    if (used_[i].first < 0) used_[i].first = now_;
    used_[i].last = std::max(used_[i].last, now_);
    if (plan_.buffers[i].role != BufferRole::Temporary) return;
    LiveRange& r = ranges_[i];
    if (r.bytes == 0) r = {std::max<int64_t>(out_.bytes[i], 1), now_, now_};
    r.last = std::max(r.last, now_);
  }

  // The last step beside which the one that is being bound runs.
  int last_beside() const { return std::max(now_, static_cast<int>(out_.ends[static_cast<size_t>(now_)]) - 1); }

  // What a step works on that goes on beside later ones.
  void keep(int buffer) {
    const auto i = static_cast<size_t>(buffer);
    const int last = last_beside();
    used_[i].last = std::max(used_[i].last, last);
    if (ranges_[i].bytes > 0) ranges_[i].last = std::max(ranges_[i].last, last);
  }

  void finish() {
    if (donated_) use_donated();
    const Arena arena = place(ranges_);
    out_.offsets.assign(arena.offsets.begin(), arena.offsets.begin() + static_cast<long>(plan_.buffers.size()));
    for (auto& s : out_.steps)
      if (s.scratch >= 0) s.scratch = arena.offsets[static_cast<size_t>(s.scratch)];
    out_.arena = arena.bytes;
  }

 private:
  void bind(const Launch& l, BoundStep& s) {
    s = bind_launch(plan_, l, part().kernel, out_.symbols);
    s.scratch = add_scratch(scratch_of(l, s, out_.symbols));
    const CounterRange counters = counters_of(l, out_.symbols, out_.zeros);
    s.counters = counters.at, out_.zeros = counters.end;
  }

  // Temporaries and results that find a place in memory which the call gives up want none in the arena.
  void use_donated() {
    std::vector<LiveRange> regions;
    std::vector<int> inputs, buffers;
    for (auto& in : plan_.inputs) {
      const auto i = static_cast<size_t>(in.buffer);
      if (!in.donated || in.mutated || plan_.buffers[i].role != BufferRole::Input) continue;
      regions.push_back({out_.bytes[i], used_[i].first, used_[i].last});
      inputs.push_back(in.buffer);
    }
    std::vector<Wish> wishes;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const BufferRole role = plan_.buffers[i].role;
      if (used_[i].first < 0 || (role != BufferRole::Temporary && role != BufferRole::Output)) continue;
      const bool is_result = role == BufferRole::Output;
      wishes.push_back({{out_.bytes[i], used_[i].first, is_result ? now_ : used_[i].last}, is_result});
      buffers.push_back(static_cast<int>(i));
    }
    const auto places = place_in(regions, wishes);
    for (size_t w = 0; w < places.size(); ++w) {
      if (places[w].region < 0) continue;
      const auto i = static_cast<size_t>(buffers[w]);
      out_.donated.push_back({buffers[w], inputs[static_cast<size_t>(places[w].region)], places[w].offset});
      ranges_[i] = {};
    }
  }

  const Loaded::Step& part() const { return loaded_.steps[static_cast<size_t>(now_)]; }

  // The number of a range that is alive while this step runs; -1 for none.
  int64_t add_scratch(int64_t bytes) {
    if (bytes <= 0) return -1;
    ranges_.push_back({bytes, now_, last_beside()});
    return static_cast<int64_t>(ranges_.size()) - 1;
  }

  const Plan& plan_;
  const Loaded& loaded_;
  const bool donated_;
  Bound& out_;
  std::vector<LiveRange> ranges_;  // of what the arena has
  std::vector<LiveRange> used_;    // of all buffers: the steps alone
  int now_ = 0;                    // the step
};

}  // namespace

BoundStep bind_launch(const Plan& plan, const Launch& l, const KernelCode& kernel, const Symbols& symbols) {
  BoundStep s;
  s.params = evaluate(l.params, symbols);
  s.tasks = evaluate(l.tasks, symbols);
  s.scratch_bytes = evaluate(l.scratch_bytes_per_thread, symbols);
  s.kernel = &kernel;
  s.threads = threads_of(plan.options);
  const int64_t bytes = evaluate(l.bytes, symbols), flops = evaluate(l.flops, symbols);
  s.alone = l.serial || (bytes > 0 && bytes < kSmallBytes && flops < kSmallFlops);
  return s;
}

int64_t scratch_of(const Launch& l, const BoundStep& s, const Symbols& symbols) {
  return s.scratch_bytes * s.threads + bytes_of(l.gpu.scratch_bytes, 1, symbols);
}

CounterRange counters_of(const Launch& l, const Symbols& symbols, int64_t before) {
  constexpr int64_t kAligned = 16;  // kernels take several at once
  const int64_t bytes = bytes_of(l.gpu.counters, sizeof(uint32_t), symbols);
  if (bytes == 0) return {-1, before};
  return {before, before + (bytes + kAligned - 1) / kAligned * kAligned};
}

int threads_of(const CompileOptions& options) {
  const int threads = ThreadPool::global().size(), most = static_cast<int>(options.get(options::kMaxThreads));
  return most > 0 ? std::min(most, threads) : threads;
}

int64_t bytes_of(const Expr& e, int64_t unit, const Symbols& symbols) {
  return e == Expr(0) ? 0 : std::max<int64_t>(evaluate(e, symbols), 1) * unit;
}

int64_t bytes_of(const BufferPlan& buffer, const Symbols& symbols) {
  return evaluate(buffer.numel, symbols) * static_cast<int64_t>(size_of(buffer.dtype));
}

std::shared_ptr<const Bound> bind(const Plan& plan, const Loaded& loaded, const Symbols& symbols, bool donated) {
  auto b = std::make_shared<Bound>();
  b->symbols = symbols;
  check_guards(plan, symbols);
  for (auto& buffer : plan.buffers) b->bytes.push_back(bytes_of(buffer, symbols));
  b->takes_donated = donated;
  b->ends = worthwhile_ends(plan, symbols);
  Binder binder(plan, loaded, donated, *b);
  for (auto& step : plan.steps) binder.bind(step);
  for (auto& o : plan.outputs) {
    if (o.buffer >= 0) binder.touch(o.buffer);
    b->output_sizes.push_back(evaluate(o.type.sizes, symbols));
  }
  for (auto& in : plan.inputs) b->input_strides.push_back(evaluate(in.type.strides, symbols));
  binder.finish();
  return b;
}

}  // namespace toroid::exec
