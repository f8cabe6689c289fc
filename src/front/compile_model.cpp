#include "front/compile_model.h"

#include "base/check.h"
#include "front/given_options.h"

namespace toroid::front {

compiler::Setup setup_of(const ModelOptions& options) {
  for (const char* name : {"backend", "fail_on_recompile_limit", "recompile_limit", "verify_trace"})
    TOROID_USER_CHECK(!options.options.count(name), "option {} is of compiled functions, and a model cannot have it: leave it out", name);
  TOROID_USER_CHECK(options.threads >= 0, "ModelOptions::threads is {}; expected the number of threads, or 0 for any", options.threads);
  const ModelOptions defaults;
  const auto name = [](auto value) { return std::string(name_of(value)); };
  const auto flag = [](bool on) { return std::string(on ? "1" : "0"); };
  const auto given = given_options({{"mode", name(options.mode), name(defaults.mode)},
                                    {"freezing", flag(options.freeze), flag(defaults.freeze)},
                                    {"templates", flag(options.templates), flag(defaults.templates)},
                                    {"max_threads", std::to_string(options.threads), "0"},
                                    {"fusion", name(options.fusion), name(defaults.fusion)}},
                                   options.options);
  return {options.device, CompileOptions::of_process().with(given)};
}

compiler::CompiledModel compile_model(std::unique_ptr<graph::Graph> graph, const ModelOptions& options,
                                      const compiler::TuneListener& tuning) {
  return compiler::CompiledModel::make(std::move(graph), setup_of(options), tuning);
}

std::vector<codegen::KernelText> kernels_for_gpu(std::unique_ptr<graph::Graph> graph, const device::cuda::GpuInfo& gpu) {
  return compiler::kernels_of(std::move(graph), setup_of({.device = Device::cuda()}), &gpu);
}

}  // namespace toroid::front
