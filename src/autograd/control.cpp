#include "autograd/control.h"

#include "autograd/differentiate.h"
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "graph/control_flow.h"
#include "graph/effects.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Node;

namespace {

// From the operands of a region and the cotangents of its float results to the gradients of the wanted operands.
std::shared_ptr<Graph> backward(const Graph& around, const Graph& region, const std::vector<bool>& wanted) {
  const auto whole = graph::clone(region);
  const auto is_outer = [&](const graph::Symbol& s) { return around.find_symbol(s.expr.node()->name) != nullptr; };
  for (auto& s : around.symbols)
    if (!whole->find_symbol(s.expr.node()->name)) whole->symbols.push_back(s);
  Request request{.inputs = {}, .takes_cotangents = true};
  size_t operand = 0;
  for (size_t i = 0; i < whole->inputs.size(); ++i)
    if (whole->inputs[i].kind == graph::InputKind::User && wanted[operand++]) request.inputs.push_back(i);
  std::shared_ptr<Graph> joint = differentiate(*whole, request);
  joint->name = region.name + "_gradient";
  joint->outputs.erase(joint->outputs.begin(), joint->outputs.begin() + static_cast<std::ptrdiff_t>(region.outputs.size()));
  std::erase_if(joint->symbols, is_outer);
  return joint;
}

}  // namespace

std::vector<Tensor> cond_gradients(graph::Recorder& recorder, const Node& n, const CallArgs& args, const std::vector<Tensor>& cotangents,
                                   const std::vector<bool>& wanted) {
  TOROID_USER_CHECK(!graph::effects_of(n).has(graph::Effect::Draws),
                    "{} ({}): a branch draws random numbers, so it has no gradient; draw them before the branch", n.op->name, n.where);
  const auto& given = std::get<std::vector<Tensor>>(args[3]);
  std::vector<graph::Value*> operands;
  for (const Tensor& t : given) operands.push_back(recorder.value_of(t));
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& type = n.results[i]->type;
    if (is_float(type.dtype) || is_complex(type.dtype))
      operands.push_back(recorder.value_of(cotangents[i].defined() ? cotangents[i] : zeros(type.sizes, type.dtype)));
  }
  std::vector<std::shared_ptr<Graph>> regions;
  for (auto& r : n.regions) regions.push_back(backward(recorder.graph(), *r, wanted));
  if (planted(GradientBug::OtherBranch)) std::swap(regions[0], regions[1]);
  const Node* made = graph::add_region_node(recorder.graph(), graph::cond_op(),
                                            {recorder.value_of(std::get<Tensor>(args[0])), {}, {}, operands}, std::move(regions), n.where);
  std::vector<Tensor> out(given.size());
  for (size_t i = 0, next = 0; i < out.size(); ++i)
    if (wanted[i]) out[i] = recorder.proxy(made->results[next++]);
  return out;
}

}  // namespace toroid::autograd
