// toroid why: what the compiler did with a model, and what it did not do, with reasons.
#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/tune_report.h"
#include "exec/record/coverage.h"
#include "exec/steps.h"
#include "front/compile_model.h"
#include "import/load_model.h"

namespace toroid::cli {
namespace {

// The steps of each block that control flow runs, blocks within blocks further to the right.
void print_blocks(const exec::Plan& plan, const std::string& indent) {
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) {
      std::string steps;
      for (auto& s : block.plan->steps) steps += (steps.empty() ? "" : ", ") + exec::name_of(s);
      fmt::print("{}block \"{}\" of {}: {}\n", indent, block.name, exec::name_of(step), steps.empty() ? "nothing to run" : steps);
      print_blocks(*block.plan, indent + "  ");
    }
}

// What mode reduce-overhead would record, of blocks of control flow too.
void print_coverage(const exec::Plan& plan) {
  const exec::Coverage c = exec::cover(plan, 1);
  fmt::print("recorded by mode reduce-overhead: {} of {} steps of {}, in {} parts\n", c.steps_recorded, c.steps, plan.name, c.parts);
  for (auto& s : c.skips) fmt::print("not recorded: {}\n", exec::to_string(s));
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) print_coverage(*block.plan);
}

// Timed now, unless that was done before.
int why_choice(const WhyArgs& args) {
  const auto model =
      front::compile_model(import::load_model(args.model), {.device = device_from_name(args.device), .mode = Mode::MaxAutotune});
  const auto& tuning = model.report().tuning;
  expect_part(tuning, args.choice, args.model);
  fmt::print("{}", tune::to_string(tuning, args.choice));
  for (auto& line : model.report().schedule.choices)
    if (line.find(args.choice) != line.npos) fmt::print("{}\n", line);
  return kOk;
}

}  // namespace

int why(const WhyArgs& args) {
  if (!args.choice.empty()) return why_choice(args);
  fmt::print("cache: {}\n", front::why_cached(args.model, {.device = device_from_name(args.device)}));
  auto model = front::compile_model(import::load_model(args.model), {.device = device_from_name(args.device)});
  const auto& report = model.report();
  for (auto* passes : {&report.passes, &report.schedule.passes})
    for (auto& p : passes->passes) fmt::print("pass {:<28} {:>8.2f} ms{}\n", p.name, p.milliseconds, p.changed ? "" : ", changed nothing");
  fmt::print("{}\n", compiler::time_text(report));
  fmt::print("{} graph nodes, {} loops before fusion, {} kernels, {} library calls, {} kernels compiled (the others were cached)\n",
             report.graph_nodes, report.kernels_unfused, report.kernels, report.host_calls, report.kernels_compiled);
  print_blocks(model.executable().plan(), "");
  print_coverage(model.executable().plan());
  fmt::print("memory beside the inputs: {:.3f} MB of temporaries, most of them at {}; {:.3f} MB of outputs\n",
             static_cast<double>(report.memory.temporaries) / 1e6, report.memory.fullest.empty() ? "no node" : report.memory.fullest,
             static_cast<double>(report.memory.outputs) / 1e6);
  if (!report.partition.empty()) fmt::print("partition: {}", report.partition);
  for (auto& line : report.schedule.choices) fmt::print("chosen: {}\n", line);
  for (auto& m : report.schedule.fusion.misses) fmt::print("not fused: {} and {}: {}\n", m.first, m.second, m.reason);
  for (auto& u : report.schedule.fusion.unsplit) fmt::print("not split: {}: {}\n", u.node, u.reason);
  return kOk;
}

}  // namespace toroid::cli
