#include "tune/search/whole.h"

#include <unistd.h>

#include <algorithm>

#include "tensor/tensor_impl.h"
#include "tune/check/check.h"
#include "tune/check/inputs.h"
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

std::string refusal_of(const program::Program& p) {
  for (auto& n : p.nodes)
    if (program::meets(n)) return "ranks meet in it";
  for (auto& n : p.nodes)
    if (auto* e = std::get_if<program::Extern>(&n.problem); e && e->conditions.empty())
      return "a call of other code is part of it: " + e->op->name;
  return "";
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

// What a verdict takes: rounds of three runs, six of them before the first look, and two to warm up.
constexpr double kLeastRuns = 24;

}  // namespace

WholeTime compare_whole(const program::Program& untuned, const program::Program& tuned, const Pipeline& pipeline, double wanted_ms,
                        double most_ms, const Clock& clock) {
  WholeTime out;
  out.refusal = refusal_of(untuned);
  if (out.refusal.empty()) out.refusal = memory_refusal(untuned, pipeline.device());
  if (out.refusal.empty() && most_ms <= 0) out.refusal = "the budget was used";
  SamplerOptions at;
  usual_sizes(untuned, at.symbols, out.refusal);
  if (!out.refusal.empty()) return out;
  std::vector<Tensor> inputs;
  uint64_t seed = 1;
  for (auto& in : untuned.inputs)
    if (!in.data.defined() && !in.draws) inputs.push_back(generate_input(in.type, seed++, at.symbols, pipeline.device()));
  const std::unique_ptr<exec::Executable> both[] = {executable_of(on_copies(untuned), pipeline), executable_of(on_copies(tuned), pipeline)};
  const double begun = clock();
  double slower_ms = 0;
  for (auto& e : both) slower_ms = std::max(slower_ms, warm_ms(*e, inputs, at.symbols, pipeline.device(), clock));
  MeasureOptions how;
  how.budget_ms = std::min(std::max(wanted_ms, kLeastRuns * slower_ms), most_ms - (clock() - begun));
  how.most_rounds = 40;
  const Executables run = [&](size_t i) -> exec::Executable& { return *both[i]; };
  const Verdict v = measure(2, time_executables(run, 2, pipeline.device(), inputs, at), how, clock);
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

}  // namespace toroid::tune
