#include "cli/runner.h"

#include "base/check.h"
#include "base/text.h"
#include "compile/model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"

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
  explicit CompiledRunner(std::unique_ptr<graph::Graph> g) : model_(compiler::CompiledModel::compile(std::move(g))) {}
  std::vector<Tensor> run(std::span<const Tensor> user_inputs) override { return model_.run(user_inputs); }

 private:
  compiler::CompiledModel model_;
};

}  // namespace

Backend backend_from_name(const std::string& name) {
  if (name == "compiled") return Backend::Compiled;
  if (name == "interpreter") return Backend::Interpreter;
  static constexpr std::string_view kNames[] = {"compiled", "interpreter"};
  fail<UserError>("unknown backend \"{}\" (there are \"compiled\" and \"interpreter\"){}", name, did_you_mean(name, kNames));
}

std::unique_ptr<Runner> make_runner(Backend backend, std::unique_ptr<graph::Graph> graph) {
  if (backend == Backend::Interpreter) return std::make_unique<InterpreterRunner>(std::move(graph));
  return std::make_unique<CompiledRunner>(std::move(graph));
}

}  // namespace toroid::cli
