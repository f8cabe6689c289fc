#include "front/taped_passes.h"

#include <unordered_set>

#include "autograd/differentiate.h"
#include "base/check.h"
#include "base/compile_scope.h"
#include "base/log.h"
#include "graph/pass.h"
#include "ops/table.h"
#include "tensor/layout.h"

namespace toroid::front {

using autograd::Divided;
using Kind = Divided::Kind;

namespace {

// Joint, through the passes that a program begins with, so that the partition sees what will be computed. Random numbers become functions
// of a state there.
std::unique_ptr<graph::Graph> joint_of(const graph::Graph& g, const std::vector<size_t>& wanted, const CompileOptions& options) {
  const auto contents = graph::clone(g);  // new contents of inputs have cotangents, too
  for (auto& o : contents->outputs) o.mutates = -1;
  auto joint = autograd::differentiate(*contents, {.inputs = wanted, .takes_cotangents = true, .seeds = false});
  for (size_t i = 0; i < g.outputs.size(); ++i) joint->outputs[i].mutates = g.outputs[i].mutates;
  const auto passes = graph::pipeline({.templates = options.get(options::kTemplates)});
  return graph::run_passes(std::move(joint), passes, nullptr, options);
}

// Gives the memory up where nobody else holds it.
void donate(const Tensor& t) {
  Storage& s = *t.impl()->storage;
  if (t.shared_impl().use_count() == 1 && t.impl()->storage.use_count() == 1 && s.owner.use_count() == 1) s.donated = true;
}

}  // namespace

TapedPasses::TapedPasses(const graph::Graph& g, const std::string& name, const Backend& backend, const BackendOptions& options,
                         const std::vector<bool>& wanted, std::vector<Device> devices)
    : backend_(backend) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) inputs.push_back(i);
  follows_ = autograd::follows_from(g, inputs);
  try {
    auto joint = joint_of(g, inputs, options.options);
    joint->name = name;
    const bool arithmetic_is_dear = !options.device.is_cuda();
    divided_ = autograd::divide(*joint, inputs.size(),
                                autograd::policy_of(options.options.get(options::kActivationMemoryBudget), arithmetic_is_dear));
  } catch (const UserError& e) {
    error_ = e.what();
    return;
  }
  has_gradients_ = divided_.backward != nullptr;
  for (auto& o : g.outputs)
    if (o.mutates < 0) is_input_.push_back(o.value && !o.value->producer);
  returned_ = is_input_.size();
  BackendOptions own{options.options, options.device, {}};
  own.options.set("capture_results", "own");  // what is saved stays as it is however many calls follow
  forward_.options = backward_.options = own;
  forward_.options.output_devices = options.output_devices;
  forward_.options.output_devices.resize(returned_, options.device);
  forward_.options.output_devices.resize(divided_.forward->outputs.size() - (divided_.results - returned_), options.device);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (divided_.gradients[i]) backward_.options.output_devices.push_back(devices[inputs[i]]);
  for (size_t i = 0; i < divided_.inputs.size(); ++i)
    if (divided_.inputs[i].kind == Kind::Saved) backward_.options.donated.push_back(i);
}

const Program& TapedPasses::compiled(Compiled& c, const std::unique_ptr<graph::Graph>& g) const {
  const auto make = [&] {
    const CompileScope compiling;
    return backend_(graph::clone(*g), c.options);
  };
  if (!is_tuned_together(*g, c.options.options)) {
    std::call_once(c.once, [&] { c.program = make(); });
    return c.program;
  }
  {
    std::lock_guard lock(c.mutex);
    if (c.program) return c.program;
  }
  Program made = make();
  std::lock_guard lock(c.mutex);
  if (!c.program) c.program = std::move(made);
  return c.program;
}

std::vector<size_t> TapedPasses::read(Kind kind) const {
  std::vector<size_t> out;
  for (auto& in : divided_.inputs)
    if (in.kind == kind) out.push_back(in.index);
  return out;
}

std::vector<int64_t> TapedPasses::sizes_of(std::span<const Tensor> operands) const {
  std::vector<int64_t> out;
  for (auto& s : divided_.sizes) out.push_back(operands[s.operand].sizes()[s.dimension]);
  return out;
}

// Passes may find that values are equal, and backends may return one tensor for these; but who writes a result changes nothing else. An
// input that the function returns stays itself.
void TapedPasses::separate(std::vector<Tensor>& made, std::span<const Tensor> operands) const {
  std::unordered_set<const Storage*> taken;
  for (auto& t : operands) taken.insert(t.impl()->storage.get());
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].defined() || (i < returned_ && is_input_[i]) || taken.insert(made[i].impl()->storage.get()).second) continue;
    Tensor own = Tensor::empty(made[i].sizes(), made[i].dtype(), made[i].device());
    copy_elements(made[i], own);
    made[i] = own;
  }
}

TapedPasses::Results TapedPasses::forward(std::span<const Tensor> operands) {
  Results out;
  out.results = compiled(forward_, divided_.forward)(operands);
  separate(out.results, operands);
  out.saved.assign(out.results.begin() + static_cast<std::ptrdiff_t>(returned_), out.results.end());
  out.results.resize(returned_);
  return out;
}

std::vector<Tensor> TapedPasses::backward(std::vector<Tensor> kept, const std::vector<Tensor>& cotangents,
                                          const std::vector<int64_t>& sizes) {
  std::vector<Tensor> out(divided_.gradients.size());
  if (!has_gradients_) return out;
  const size_t operands = read_operands().size(), results = read_results().size();
  std::vector<Tensor> given;
  size_t operand = 0, result = operands, saved = operands + results;
  for (auto& in : divided_.inputs) {
    if (in.kind == Kind::Operand) given.push_back(std::move(kept.at(operand++)));
    if (in.kind == Kind::Result) given.push_back(std::move(kept.at(result++)));
    if (in.kind == Kind::Cotangent) given.push_back(made_dense(cotangents.at(in.index)));
    if (in.kind == Kind::Sizes) {
      std::vector<int64_t> all = sizes;
      all.push_back(0);
      given.push_back(Tensor::empty(all, DType::U8, backward_.options.device));
    }
    if (in.kind != Kind::Saved) continue;
    given.push_back(std::move(kept.at(saved++)));
    donate(given.back());
  }
  const auto gradients = compiled(backward_, divided_.backward)(given);
  for (size_t i = 0; i < out.size(); ++i)
    if (divided_.gradients[i]) out[i] = gradients[*divided_.gradients[i]];
  return out;
}

}  // namespace toroid::front
