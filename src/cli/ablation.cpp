#include "cli/ablation.h"

#include <fmt/core.h>

#include "cli/progress.h"
#include "cli/timing.h"
#include "front/compile_model.h"
#include "tune/measure/measure.h"

namespace toroid::cli {
namespace {

using compiler::CompiledModel;

struct Step {
  const char* name;
  const char* kinds;  // of option fusion_types
};
constexpr Step kSteps[] = {
    {"none", "none"},
    {"epilogue", "epilogue"},
    {"+ prologue", "epilogue,prologue"},
    {"+ cross-subgraph", "epilogue,prologue,cross_subgraph"},
};

}  // namespace

void print_ablation(const BenchSubject& subject, ModelOptions options, int rounds) {
  Progress progress(true);
  std::vector<CompiledModel> models;
  for (auto& step : kSteps) {
    progress.say(fmt::format("tuning with fusion: {}", step.name));
    options.options["fusion_types"] = step.kinds;
    models.push_back(front::compile_model(subject.graph(), options));
  }
  progress.say("timing the models in turns");
  const tune::Verdict v = compare_calls(models, subject.inputs, options.device, rounds);
  progress.say("");
  fmt::print("{:<18} {:>9} {:>10} {:>7}\n", "fusion", "launches", "time, ms", "ratio");
  for (size_t i = 0; i < models.size(); ++i) {
    const tune::Measured& m = v.candidates[i];
    fmt::print("{:<18} {:>9} {:>10.3f} {:>7.3f} ({})\n", kSteps[i].name, models[i].report().kernels, m.median_ns / 1e6, m.ratio,
               tune::interval_text(m));
  }
}

}  // namespace toroid::cli
