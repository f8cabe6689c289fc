#include "tune/search/whole.h"

#include <unistd.h>

#include <algorithm>

#include "dist/agree.h"
#include "dist/gpus.h"
#include "tensor/tensor_impl.h"
#include "tune/check/check.h"
#include "tune/check/inputs.h"
#include "tune/check/together.h"
#include "tune/measure/sampler.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

// Two more copies of the weights are made on a CPU, which packs them.
std::string memory_refusal(const program::Program& p, const Device& device) {
  if (device.is_cuda()) return "";
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return 4 * static_cast<double>(bytes_of_constants(p)) < memory ? "" : "its weights are a quarter of this machine's memory, or more";
}

std::string refusal_of(const program::Program& p, bool together) {
  for (auto& n : p.nodes)
    if (!together && program::meets(n)) return "ranks meet in it";
  for (auto& n : p.nodes)
    if (auto* e = std::get_if<program::Extern>(&n.problem); e && e->conditions.empty())
      return "a call of other code is part of it: " + e->op->name;
  return "";
}

std::vector<Tensor> inputs_of(const program::Program& p, const exec::Symbols& sizes, const Device& device) {
  std::vector<Tensor> out;
  uint64_t seed = 1;
  for (auto& in : p.inputs)
    if (!in.data.defined() && !in.draws) out.push_back(generate_input(in.type, seed++, sizes, device));
  return out;
}

// The program on memory of its own where it writes.
program::Program on_copies(program::Program p) {
  for (auto& o : p.outputs) {
    if (o.mutates < 0) continue;
    auto& in = p.inputs[static_cast<size_t>(o.mutates)];
    if (!in.data.defined()) continue;
    Tensor own = Tensor::empty(in.data.sizes(), in.data.dtype(), in.data.device());
    copy_elements(in.data, own);
    in.data = own;
  }
  return p;
}

std::unique_ptr<exec::Executable> executable_of(const program::Program& p, const Pipeline& pipeline) {
  auto build = pipeline.build(pipeline.schedule(p));
  build->compile();
  exec::Loadable made = build->plan();
  return exec::load(std::move(made.plan), made.store, pipeline.device());
}

// Milliseconds of a run after the first one, which packs weights and allocates.
double warm_ms(exec::Executable& e, const std::vector<Tensor>& inputs, const exec::Symbols& sizes, const Device& device,
               const Clock& clock) {
  double ms = 0;
  for (int i = 0; i < 2; ++i) {
    const double begin = clock();
    const auto results = e.run(inputs, sizes);
    if (device.is_cuda()) synchronize(device);
    ms = clock() - begin;
  }
  return ms;
}

WholeTime time_of(const Verdict& v) {
  WholeTime out;
  const Measured& m = v.candidates[1];
  if (m.failed || m.rounds == 0) {
    out.refusal = m.status.empty() ? "the budget was used" : m.status;
    if (m.ratio > 0) out.ratio = m.ratio;  // dropped at once
    return out;
  }
  out.ratio = m.ratio;
  out.spread = has_interval(m) ? (m.ratio_high - m.ratio_low) / 2 : 0;
  return out;
}

// What a verdict takes: rounds of three runs, six of them before the first look, and two to warm up.
constexpr double kLeastRuns = 24;

}  // namespace

WholeTime compare_whole(const program::Program& untuned, const program::Program& tuned, const Pipeline& pipeline, double wanted_ms,
                        double most_ms, const Clock& clock) {
  WholeTime out;
  out.refusal = refusal_of(untuned, false);
  if (out.refusal.empty()) out.refusal = memory_refusal(untuned, pipeline.device());
  if (out.refusal.empty() && most_ms <= 0) out.refusal = "the budget was used";
  SamplerOptions at;
  usual_sizes(untuned, at.symbols, out.refusal);
  if (!out.refusal.empty()) return out;
  const std::vector<Tensor> inputs = inputs_of(untuned, at.symbols, pipeline.device());
  const std::unique_ptr<exec::Executable> both[] = {executable_of(on_copies(untuned), pipeline), executable_of(on_copies(tuned), pipeline)};
  const double begun = clock();
  double slower_ms = 0;
  for (auto& e : both) slower_ms = std::max(slower_ms, warm_ms(*e, inputs, at.symbols, pipeline.device(), clock));
  MeasureOptions how;
  how.budget_ms = std::min(std::max(wanted_ms, kLeastRuns * slower_ms), most_ms - (clock() - begun));
  how.most_rounds = 40;
  const Executables run = [&](size_t i) -> exec::Executable& { return *both[i]; };
  const Verdict v = measure(2, time_executables(run, 2, pipeline.device(), inputs, at), how, clock);
  return time_of(v);
}

WholeTime compare_whole_together(const program::Program& untuned, const program::Program& tuned, const Pipeline& pipeline,
                                 distributed::Group& group) {
  constexpr const char* kLabel = "timing the whole program";
  WholeTime out;
  exec::Symbols sizes;
  std::vector<Tensor> inputs;
  std::unique_ptr<exec::Executable> both[2];
  std::string own;
  try {
    own = refusal_of(untuned, true);
    if (own.empty()) own = memory_refusal(untuned, pipeline.device());
    usual_sizes(untuned, sizes, own);
    if (own.empty()) {
      inputs = inputs_of(untuned, sizes, pipeline.device());
      both[0] = executable_of(on_copies(untuned), pipeline), both[1] = executable_of(on_copies(tuned), pipeline);
    }
  } catch (const std::exception& e) {
    own = e.what();
  }
  out.refusal = distributed::first_refusal(group, own, kLabel);
  if (!out.refusal.empty()) return out;
  const auto run = [&](size_t i) { return slowest_ns(group, pipeline.device(), kLabel, [&] { both[i]->run(inputs, sizes); }); };
  double slower_ms = 0;
  for (const size_t i : {0, 1}) run(i), slower_ms = std::max(slower_ms, std::min(run(i), run(i)) * 1e-6);
  int64_t bytes = 0;
  for (auto& t : inputs) bytes += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
  constexpr int64_t kLarge = int64_t{16} << 20;
  constexpr double kSmallMs = 5, kRounds = 3, kSamplesOfARound = 3;
  // Of short runs the least of some: a processor that is taken away for a moment would be all that is seen.
  const int runs = bytes <= kLarge ? 3 : 1;
  MeasureOptions how;
  how.budget_ms = std::max(bytes <= kLarge ? kSmallMs : 0, kRounds * kSamplesOfARound * runs * slower_ms);
  how.most_rounds = 40;
  double spent_ms = 0;
  const Sample sample = [&](size_t i) {
    double least = run(i), all = least;
    for (int k = 1; k < runs; ++k) {
      const double ns = run(i);
      least = std::min(least, ns), all += ns;
    }
    spent_ms += all * 1e-6;
    return least;
  };
  return time_of(measure(2, sample, how, [&] { return spent_ms; }));
}

}  // namespace toroid::tune
