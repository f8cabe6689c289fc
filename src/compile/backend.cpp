#include "compile/backend.h"

#include <map>
#include <mutex>

#include "base/check.h"
#include "base/text.h"
#include "compile/model.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"

namespace toroid::front {
namespace {

Program compiled(std::unique_ptr<graph::Graph> g, const BackendOptions& options) {
  ModelOptions m;
  m.mode = options.reduce_overhead ? Mode::ReduceOverhead : Mode::Default;
  m.freeze = options.freezing;
  m.templates = options.templates;
  m.eager = !options.fuse;
  auto model = std::make_shared<compiler::CompiledModel>(compiler::CompiledModel::compile(std::move(g), m));
  return [model](std::span<const Tensor> inputs) { return model->run(inputs); };
}

Program reference(std::unique_ptr<graph::Graph> g, const BackendOptions&) {
  if (auto functional = graph::functionalize(*g)) g = std::move(functional);
  return [g = std::shared_ptr<const graph::Graph>(std::move(g))](std::span<const Tensor> inputs) { return graph::interpret(*g, inputs); };
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, Backend> backends{{"compiled", compiled}, {"reference", reference}};
};
Registry& registry() {
  static Registry& r = *new Registry;  // never destroyed: threads may outlive main
  return r;
}

}  // namespace

Backend find_backend(const std::string& name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (auto it = r.backends.find(name); it != r.backends.end()) return it->second;
  std::vector<std::string_view> names;
  for (auto& [n, b] : r.backends) names.push_back(n);
  fail<UserError>("there is no backend \"{}\"{}", name, did_you_mean(name, names));
}

void register_backend(const std::string& name, Backend backend) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  r.backends[name] = std::move(backend);
}

}  // namespace toroid::front
