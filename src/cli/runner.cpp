#include "cli/runner.h"

#include "base/check.h"
#include "base/text.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "import/load_model.h"

namespace toroid::cli {
namespace {

class InterpreterRunner : public Runner {
 public:
  explicit InterpreterRunner(std::unique_ptr<graph::Graph> g) {
    graph::PassRow functionalize = graph::find_pass("functionalize");
    graph_ = graph::run_passes(std::move(g), std::span(&functionalize, 1));
  }
  std::vector<Tensor> run(std::span<const Tensor> user_inputs) override { return graph::interpret(*graph_, user_inputs); }

 private:
  std::unique_ptr<graph::Graph> graph_;
};

class CompiledRunner : public Runner {
 public:
  CompiledRunner(compiler::CompiledModel model, const Device& device) : device_(device), model_(std::move(model)) {}
  std::vector<Tensor> run(std::span<const Tensor> user_inputs) override {
    std::vector<Tensor> inputs;
    for (auto& t : user_inputs) inputs.push_back(t.to(device_));
    auto outputs = model_.run(inputs);
    for (auto& t : outputs)
      if (t.defined()) t = t.to(Device::cpu());
    return outputs;
  }

 private:
  const Device device_;
  compiler::CompiledModel model_;
};

}  // namespace

Backend backend_from_name(const std::string& name) {
  if (name == "compiled") return Backend::Compiled;
  if (name == "interpreter") return Backend::Interpreter;
  static constexpr std::string_view kNames[] = {"compiled", "interpreter"};
  fail<UserError>("unknown backend \"{}\" (there are \"compiled\" and \"interpreter\"){}", name, did_you_mean(name, kNames));
}

std::unique_ptr<Runner> make_runner(Backend backend, std::unique_ptr<graph::Graph> graph, const std::string& device) {
  const Device where = device_from_name(device);
  if (backend == Backend::Compiled)
    return std::make_unique<CompiledRunner>(front::compile_model(std::move(graph), {.device = where}), where);
  TOROID_USER_CHECK(!where.is_cuda(), "the interpreter runs on the CPU; leave --device out");
  return std::make_unique<InterpreterRunner>(std::move(graph));
}

std::unique_ptr<Runner> make_model_runner(Backend backend, const std::string& path, std::span<const Tensor> inputs,
                                          const std::string& device) {
  if (backend != Backend::Compiled) return make_runner(backend, import::load_model(path, inputs), device);
  const Device where = device_from_name(device);
  return std::make_unique<CompiledRunner>(front::load_model(path, inputs, {.device = where}), where);
}

}  // namespace toroid::cli
