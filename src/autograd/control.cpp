#include "autograd/control.h"

#include <algorithm>
#include <iterator>

#include "autograd/differentiate.h"
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "graph/control_flow.h"
#include "graph/effects.h"
#include "graph/known_sizes.h"

namespace toroid::autograd {

using graph::Graph;

namespace {

bool has_gradient(const graph::Value* v) { return is_float(v->type.dtype) || is_complex(v->type.dtype); }

void refuse_draws(const graph::Node& n) {
  TOROID_USER_CHECK(!graph::effects_of(n).has(graph::Effect::Draws),
                    "{} ({}): a region draws random numbers, so it has no gradient; draw them before it", n.op->name, n.where);
}

// t with sizes that guards have for equal to its own.
Tensor with_sizes(const Tensor& t, const std::vector<Expr>& sizes) {
  return ops::forms::sizes_of(t) == sizes ? t : ops::call1("reshape", {t, sizes});
}

// Of a result of this type; undefined: 0.
Tensor cotangent_of(const Tensor& t, const TensorType& type) {
  return t.defined() ? with_sizes(t, type.sizes) : zeros(type.sizes, type.dtype);
}

// The joint graph of a region by the operands that are wanted, without the results of the region itself: it takes the operands and the
// cotangents of the float results, and gives the gradients.
std::shared_ptr<Graph> backward(Graph& around, const Graph& region, const std::vector<bool>& wanted) {
  const auto whole = graph::clone(region);
  const graph::LentSizes lent(around, *whole);
  Request request{.inputs = {}, .takes_cotangents = true, .seeds = false};
  size_t operand = 0;
  for (size_t i = 0; i < whole->inputs.size(); ++i)
    if (whole->inputs[i].kind == graph::InputKind::User && wanted[operand++]) request.inputs.push_back(i);
  std::shared_ptr<Graph> joint = differentiate(*whole, request);
  joint->name = region.name + "_gradient";
  joint->outputs.erase(joint->outputs.begin(), joint->outputs.begin() + static_cast<std::ptrdiff_t>(region.outputs.size()));
  {
    graph::Recorder inside(*joint);
    DispatchScope scope(inside);
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      graph::Value*& gradient = joint->outputs[i].value;
      gradient = inside.value_of(with_sizes(inside.proxy(gradient), region.inputs[request.inputs[i]].value->type.sizes));
    }
  }
  lent.take_back(around, *joint);
  return joint;
}

std::vector<Tensor> list_of(const Arg<Tensor>& a) {
  const auto* list = std::get_if<std::vector<Tensor>>(&a);
  return list ? *list : std::vector<Tensor>();
}

std::vector<graph::Value*> values_of(graph::Recorder& recorder, const std::vector<Tensor>& tensors) {
  std::vector<graph::Value*> out;
  for (const Tensor& t : tensors) out.push_back(recorder.value_of(t));
  return out;
}

// What a scan carried into each step, stacked: the scan once more, with that as further results.
std::vector<Tensor> carried_in(graph::Recorder& recorder, const graph::Node& n, size_t carried) {
  std::shared_ptr<Graph> region = graph::clone(*n.regions[0]);
  size_t left = carried;
  for (auto& in : region->inputs)
    if (in.kind == graph::InputKind::User && left > 0) region->outputs.push_back({in.value, {}, -1}), --left;
  const graph::Node* made = graph::add_region_node(recorder.graph(), graph::scan_op(), n.args, {region}, n.where);
  std::vector<Tensor> out;
  for (size_t i = made->results.size() - carried; i < made->results.size(); ++i) out.push_back(recorder.proxy(made->results[i]));
  return out;
}

}  // namespace

std::vector<Tensor> cond_gradients(graph::Recorder& recorder, const graph::Node& n, const CallArgs& args,
                                   const std::vector<Tensor>& cotangents, const std::vector<bool>& wanted) {
  refuse_draws(n);
  const std::vector<Tensor> given = list_of(args[3]);
  std::vector<graph::Value*> operands = values_of(recorder, given);
  for (size_t i = 0; i < cotangents.size(); ++i) {
    const TensorType& type = n.results[i]->type;
    if (has_gradient(n.results[i])) operands.push_back(recorder.value_of(cotangent_of(cotangents[i], type)));
  }
  std::vector<std::shared_ptr<Graph>> regions;
  for (auto& r : n.regions) regions.push_back(backward(recorder.graph(), *r, wanted));
  if (planted(GradientBug::OtherBranch)) std::swap(regions[0], regions[1]);
  const graph::Node* made = graph::add_region_node(
      recorder.graph(), graph::cond_op(), {recorder.value_of(std::get<Tensor>(args[0])), {}, {}, operands}, std::move(regions), n.where);
  std::vector<Tensor> out(given.size());
  for (size_t i = 0, next = 0; i < out.size(); ++i)
    if (wanted[i]) out[i] = recorder.proxy(made->results[next++]);
  return out;
}

std::vector<Tensor> scan_gradients(graph::Recorder& recorder, const graph::Node& n, const CallArgs& args,
                                   const std::vector<Tensor>& cotangents, const std::vector<bool>& wanted) {
  refuse_draws(n);
  const std::vector<Tensor> init = list_of(args[1]), xs = list_of(args[2]), extra = list_of(args[3]);
  const size_t carried = init.size();
  const auto differs = [](const Tensor& t) { return is_float(t.dtype()) || is_complex(t.dtype()); };
  // Within the region: what is carried and scanned over has a gradient whenever it is a number.
  std::vector<bool> inner;
  for (auto* list : {&init, &xs}) std::transform(list->begin(), list->end(), std::back_inserter(inner), differs);
  inner.insert(inner.end(), wanted.end() - static_cast<std::ptrdiff_t>(extra.size()), wanted.end());
  const std::shared_ptr<Graph> body = backward(recorder.graph(), *n.regions[0], inner);

  // The inputs of the body: cotangents of what is carried, sums of the gradients of `extra`; what was carried, xs, cotangents of the ys,
  // and `extra`. Its results: the cotangents before the step, the sums, the gradients of xs.
  const auto backwards = [](const Tensor& t) { return planted(GradientBug::ScanForward) ? t : flip(t, 0); };
  std::vector<graph::Input> users, others, first, sums, stacked, last;
  for (auto& in : body->inputs) (in.kind == graph::InputKind::User ? users : others).push_back(in);
  std::vector<Tensor> start, over;
  for (const Tensor& t : carried_in(recorder, n, carried)) over.push_back(backwards(t));
  for (const Tensor& t : xs) over.push_back(backwards(t));
  const size_t operands = carried + xs.size() + extra.size();
  stacked.assign(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(carried + xs.size()));
  last.assign(users.begin() + static_cast<std::ptrdiff_t>(carried + xs.size()), users.begin() + static_cast<std::ptrdiff_t>(operands));
  for (size_t r = 0, next = operands; r < n.results.size(); ++r) {
    if (!has_gradient(n.results[r])) continue;
    const TensorType& type = n.results[r]->type;
    const Tensor cotangent = cotangent_of(cotangents[r], type);
    (r < carried ? first : stacked).push_back(users[next++]);
    (r < carried ? start : over).push_back(r < carried ? cotangent : backwards(cotangent));
  }
  std::vector<graph::Output> before, totals, of_xs;
  size_t next = 0;
  for (size_t i = 0; i < operands; ++i) {
    if (!inner[i]) continue;
    const graph::Output gradient = body->outputs[next++];
    if (i < carried) before.push_back(gradient);
    if (i >= carried && i < carried + xs.size()) of_xs.push_back(gradient);
    if (i < carried + xs.size()) continue;
    graph::Value* sum = body->new_value({gradient.value->type.dtype, gradient.value->type.sizes, {}}, "sum");
    start.push_back(zeros(sum->type.sizes, sum->type.dtype));
    graph::Recorder inside(*body);
    DispatchScope scope(inside);
    sums.push_back({sum, graph::InputKind::User, "sum", {}});
    totals.push_back({inside.value_of(ops::forms::add(inside.proxy(sum), inside.proxy(gradient.value))), {}, -1});
  }
  body->inputs.clear();
  for (auto* part : {&first, &sums, &stacked, &last, &others}) body->inputs.insert(body->inputs.end(), part->begin(), part->end());
  body->outputs.clear();
  for (auto* part : {&before, &totals, &of_xs}) body->outputs.insert(body->outputs.end(), part->begin(), part->end());
  const graph::Node* made =
      graph::add_region_node(recorder.graph(), graph::scan_op(),
                             {{}, values_of(recorder, start), values_of(recorder, over), values_of(recorder, extra)}, {body}, n.where);
  // In the order of the results: carried, sums, xs.
  std::vector<Tensor> out(operands);
  size_t result = 0;
  const auto take = [&](size_t from, size_t to, bool flipped) {
    for (size_t i = from; i < to; ++i) {
      if (!inner[i]) continue;
      const Tensor t = recorder.proxy(made->results[result++]);
      if (wanted[i]) out[i] = flipped ? backwards(t) : t;
    }
  };
  take(0, carried, false);
  take(carried + xs.size(), operands, false);
  take(carried, carried + xs.size(), true);
  return out;
}

}  // namespace toroid::autograd
