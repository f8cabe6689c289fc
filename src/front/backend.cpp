#include "front/backend.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/compile_scope.h"
#include "base/text.h"
#include "compile/model.h"
#include "compile/program_cache.h"
#include "dist/group.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "ops/custom.h"

namespace toroid::front {
namespace {

// What the backends here make: a program that can be had on other tensors.
struct Rebindable {
  Program program;
  std::function<Program(OtherTensors)> rebind;
  std::function<std::string()> tuning = {};  // see background_tuning()
  std::vector<Tensor> operator()(std::span<const Tensor> inputs) const { return program(inputs); }
};

// A program between copies, around `program`. held: for each input of that its tensor; undefined: the caller's.
struct BetweenCopies {
  Program program;
  std::vector<Tensor> held;
  std::vector<Device> places;
  Device device;
  bool writes;

  std::vector<Tensor> operator()(std::span<const Tensor> given) const {
    std::vector<Tensor> originals, inputs;
    size_t next = 0;
    for (auto& t : held) originals.push_back(t.defined() ? t : given[next++]);
    for (auto& t : originals) inputs.push_back(moved(t, device));
    auto results = program(inputs);
    for (size_t i = 0; writes && i < inputs.size(); ++i)
      if (originals[i].device() != device) copy_elements(inputs[i], originals[i]);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].defined()) results[i] = moved(results[i], places[i]);
    return results;
  }

  Program rebind(OtherTensors others) const {
    BetweenCopies out = *this;
    if (!(out.program = rebound(program, others))) return {};
    for (auto& t : out.held) {
      auto other = std::find_if(others.begin(), others.end(), [&](auto& o) { return t.defined() && o.first.impl() == t.impl(); });
      if (other != others.end()) t = other->second;
    }
    return Rebindable{out, [out](OtherTensors more) { return out.rebind(more); }, [out] { return background_tuning(out.program); }};
  }
};

// A program between copies: of what it reads to its device, and of what it makes and writes to where that belongs. Tensors of the graph
// that are elsewhere become inputs, so that each call reads what they hold then.
Program between_copies(std::unique_ptr<graph::Graph> g, const Device& device, const BackendOptions& options,
                       const std::function<Program(std::unique_ptr<graph::Graph>)>& make) {
  if (!device.is_cuda() && !options.device.is_cuda()) return make(std::move(g));
  std::vector<Tensor> held;  // for each input of the program; undefined: the caller's
  bool writes = false;
  for (auto& n : g->nodes) writes = writes || graph::is_mutating(*n->op) || ops::writes_arguments(*n->op);
  for (auto& in : g->inputs) {
    const bool bound = in.data.defined() && in.kind != graph::InputKind::Constant && in.data.device() != device;
    if (bound) {
      held.push_back(std::exchange(in.data, {}));
      in.kind = graph::InputKind::User;
    } else if (in.kind == graph::InputKind::User) {
      held.emplace_back();
    }
  }
  std::vector<Device> places = options.output_devices;
  if (places.empty()) places.assign(g->outputs.size(), options.device);
  BetweenCopies out{make(std::move(g)), std::move(held), std::move(places), device, writes};
  return Rebindable{out, [out](OtherTensors others) { return out.rebind(others); }, [out] { return background_tuning(out.program); }};
}

Program run_by(std::shared_ptr<compiler::CompiledModel> model, bool frozen) {
  return Rebindable{[model](std::span<const Tensor> inputs) { return model->run(inputs); },
                    [model, frozen](OtherTensors others) -> Program {
                      auto other = frozen ? std::nullopt : model->rebound(others);
                      return other ? run_by(std::make_shared<compiler::CompiledModel>(std::move(*other)), frozen) : Program();
                    },
                    [model] { return model->background_tuning(); }};
}

Program compiled(std::unique_ptr<graph::Graph> g, const BackendOptions& options) {
  const compiler::Setup setup{options.device, options.options, options.donated, options.eager, options.notes};
  return between_copies(std::move(g), options.device, options, [&](std::unique_ptr<graph::Graph> program) -> Program {
    const bool frozen = setup.options.get(options::kFreezing);
    if (options.eager)
      return run_by(std::make_shared<compiler::CompiledModel>(compiler::CompiledModel::make(std::move(program), setup)), frozen);
    const graph::Graph& g = *program;
    compiler::ProgramSource source{[&] { return std::move(program); }};
    for (auto& in : g.inputs) source.bound.push_back(in.data);
    source.refusal = compiler::refusal_to_keep(g, setup.device, source.bound);
    const auto key = [&] {
      auto made = compiler::key_of(g.name, setup);
      add_graph(made, g, setup);
      return made;
    };
    return run_by(std::make_shared<compiler::CompiledModel>(compiler::cached(key, setup, source)), frozen);
  });
}

Program reference(std::unique_ptr<graph::Graph> g, const BackendOptions& options) {
  return between_copies(std::move(g), Device::cpu(), options, [](std::unique_ptr<graph::Graph> program) -> Program {
    const graph::PassRow functionalize = graph::find_pass("functionalize");
    program = graph::run_passes(std::move(program), std::span(&functionalize, 1));
    return [g = std::shared_ptr<const graph::Graph>(std::move(program))](std::span<const Tensor> inputs) {
      return graph::interpret(*g, inputs);
    };
  });
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

Program rebound(const Program& program, OtherTensors others) {
  const auto* made = program.target<Rebindable>();
  return made ? made->rebind(others) : Program();
}

std::string background_tuning(const Program& program) {
  const auto* made = program.target<Rebindable>();
  return made && made->tuning ? made->tuning() : "";
}

namespace {

struct Waiting {
  Backend backend;
  std::shared_ptr<const graph::Graph> graph;
  BackendOptions options;
  std::once_flag once = {};
  std::atomic<bool> done{false};
  Program program = {};

  const Program& get() {
    std::call_once(once, [this] {
      const CompileScope compiling;
      program = backend(graph::clone(*graph), options);
      done.store(true, std::memory_order_release);
    });
    return program;
  }
};

Program waiting(const Backend& backend, std::shared_ptr<const graph::Graph> g, const BackendOptions& options) {
  auto state = std::make_shared<Waiting>(backend, std::move(g), options);
  return Rebindable{[state](std::span<const Tensor> inputs) { return state->get()(inputs); },
                    [state](OtherTensors others) {
                      if (state->done.load(std::memory_order_acquire)) return rebound(state->program, others);
                      std::shared_ptr<graph::Graph> other = graph::clone(*state->graph);
                      for (auto& in : other->inputs)
                        for (auto& [from, to] : others)
                          if (in.data.defined() && in.data.impl() == from.impl()) {
                            in.data = to;
                            break;
                          }
                      return waiting(state->backend, std::move(other), state->options);
                    },
                    [state] { return state->done.load(std::memory_order_acquire) ? background_tuning(state->program) : std::string(); }};
}

}  // namespace

Program compiled_when_used(const Backend& backend, std::unique_ptr<graph::Graph> g, const BackendOptions& options) {
  return waiting(backend, std::move(g), options);
}

bool is_tuned_together(const graph::Graph& g, const CompileOptions& options) {
  const bool meets = std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return n->op->collective; });
  return meets && tunes(options.mode()) && distributed::has_world();
}

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
