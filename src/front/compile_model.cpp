#include "front/compile_model.h"

#include "base/check.h"
#include "compile/program_cache.h"
#include "front/given_options.h"
#include "import/load_model.h"

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

namespace {

compiler::ProgramKey key_of_model(const std::string& path, std::span<const Tensor> inputs, const compiler::Setup& setup,
                                  const import::ModelIdentity& identity) {
  std::error_code error;
  const auto subject = std::filesystem::canonical(path, error);
  auto key = compiler::key_of(error ? path : subject.string(), setup);
  if (!identity.program.empty()) key.add("graph", identity.program);
  key.add("weights", identity.weights);
  for (size_t i = 0; i < inputs.size(); ++i)
    key.add(fmt::format("contents of input {}", i), inputs[i].defined() ? compiler::hash_of(inputs[i]).hex() : "undefined");
  return key;
}

}  // namespace

compiler::CompiledModel load_model(const std::string& path, std::span<const Tensor> inputs, const ModelOptions& options,
                                   std::vector<std::string>* outputs) {
  const compiler::Setup setup = setup_of(options);
  const int64_t began = wall_clock_ns();
  const import::ModelIdentity identity = import::identity_of(path);
  import::FilesRead others;
  std::vector<std::string> names;
  const compiler::ProgramSource source{.graph = [&] { return import::load_model(path, inputs, &others, &names); },
                                       .files = [&] { return others; },
                                       .doubt = [&]() -> std::string {
                                         if (is_fresh(identity.stamp, began)) return "the model file was written just before it was read";
                                         return stamp_of(path) == identity.stamp ? "" : "the model file was written to while it was read";
                                       },
                                       .outputs = [&] { return names; }};
  return compiler::cached([&] { return key_of_model(path, inputs, setup, identity); }, setup, source, outputs);
}

std::string why_cached(const std::string& path, const ModelOptions& options) {
  const compiler::Setup setup = setup_of(options);
  std::string why = refusal_to_keep(setup);
  const auto cache = why.empty() ? compiler::ProgramCache::shared(&why) : nullptr;
  return cache ? cache->explain(key_of_model(path, {}, setup, import::identity_of(path))) : why;
}

std::vector<codegen::KernelText> kernels_for_gpu(std::unique_ptr<graph::Graph> graph, const device::cuda::GpuInfo& gpu) {
  return compiler::kernels_of(std::move(graph), setup_of({.device = Device::cuda()}), &gpu);
}

}  // namespace toroid::front
