// checkpoint(): marks what is recorded, and on the tape one node that computes its function again.
#include "toroid/checkpoint.h"

#include <algorithm>
#include <optional>

#include "autograd/differentiate.h"
#include "autograd/function_trace.h"
#include "autograd/tape/record.h"
#include "base/check.h"
#include "graph/decided_views.h"
#include "graph/effects.h"
#include "graph/pass.h"
#include "ops/call_errors.h"
#include "tensor/checkpoint_scope.h"
#include "toroid/random.h"

namespace toroid::autograd {
namespace {

void check_names(const CheckpointPolicy& policy) {
  for (auto& name : policy.save) {
    const auto& rows = ops::table().rows();
    const bool known = ops::table().find(name) ||
                       std::any_of(rows.begin(), rows.end(), [&](auto& op) { return op.name.substr(0, op.name.find('.')) == name; });
    if (known) continue;
    std::string near;
    for (auto& n : ops::table().near(name)) near += (near.empty() ? "; near: " : ", ") + n;
    fail<UserError>("checkpoint: there is no operation \"{}\" whose results could be kept{}", name, near);
  }
}

// A function as a graph of whatever tensors it used.
struct Traced {
  std::unique_ptr<graph::Graph> graph;  // functional
  std::vector<Tensor> operands;
  Device device;

  Traced(const std::function<std::vector<Tensor>()>& fn, Dispatcher& below) {
    graph::Graph g;
    g.name = "checkpoint";
    FunctionTrace trace(g, below);
    {
      DispatchScope scope(trace);
      const ElementReader::Scope reads(&trace);
      for (const Tensor& t : fn()) g.outputs.push_back({trace.value_of(trace.lift(t)), {}, -1});
    }
    operands = trace.originals();
    device = trace.device();
    graph::decide_written_views(g, [&](const sym::Relation& r, const std::string&) { return trace.decide(r); });
    const graph::PassRow functionalize = graph::find_pass("functionalize");
    graph = graph::run_passes(graph::clone(g), std::span(&functionalize, 1));
  }
  bool draws() const {
    return std::any_of(graph->nodes.begin(), graph->nodes.end(), [](auto& n) { return effects_of(*n).has(graph::Effect::Draws); });
  }
};

// Draws from where the stream of the process was, and leaves it as it is now.
class DrawnBefore {
 public:
  using State = std::optional<Generator::State>;  // null: nothing is drawn
  explicit DrawnBefore(const State& then) {
    if (!then) return;
    now_ = default_generator().state();
    default_generator().set_state(*then);
  }
  ~DrawnBefore() {
    if (now_) default_generator().set_state(*now_);
  }
  DrawnBefore(const DrawnBefore&) = delete;
  DrawnBefore& operator=(const DrawnBefore&) = delete;

 private:
  State now_;
};

// The tensors that the backward pass computes from: as they are before the function writes to them.
std::vector<Tensor> kept_for(const Traced& t) {
  const GradModeScope off(false);
  std::vector<Tensor> out = t.operands;
  for (auto& o : t.graph->outputs) {
    if (o.mutates < 0) continue;
    Tensor& written = out[static_cast<size_t>(o.mutates)];
    TOROID_USER_CHECK(!edge_of(written), "checkpoint: its function writes to a tensor that requires gradients; write it outside");
    written = ops::call1("clone", {written, std::monostate{}});
  }
  return out;
}

// What the tape walks back through: the function's values are computed again, then its gradients.
FunctionNode::Function recomputation_of(std::shared_ptr<graph::Graph> g, const Request& request, const std::vector<Tensor>& results,
                                        Device device, std::vector<Device> gradient_devices) {
  std::erase_if(g->outputs, [](auto& o) { return o.mutates >= 0; });  // what it writes is written once
  std::vector<bool> counts;
  for (auto& r : results) counts.push_back(has_gradient(r.dtype()));
  return [=, gradient_devices = std::move(gradient_devices)](const std::vector<Tensor>& kept, std::vector<Tensor> cotangents) {
    auto joint = differentiate(*g, request);
    joint->outputs.erase(joint->outputs.begin(), joint->outputs.end() - static_cast<std::ptrdiff_t>(request.inputs.size()));
    std::vector<Tensor> inputs(kept.begin(), kept.end());
    for (size_t i = 0; i < counts.size(); ++i)
      if (counts[i]) inputs.push_back(cotangents[i]);
    auto out = called(*joint, inputs, device);
    for (size_t i = 0; i < out.size(); ++i) out[i] = on_device(out[i], gradient_devices[i]);
    return out;
  };
}

std::vector<Tensor> on_tape(const std::function<std::vector<Tensor>()>& fn, Dispatcher& eager, const std::source_location& where) {
  Traced traced(fn, eager);
  const std::vector<Tensor> kept = kept_for(traced);
  const DrawnBefore::State drawn = traced.draws() ? DrawnBefore::State(default_generator().state()) : std::nullopt;
  std::vector<Tensor> results;
  {
    const GradModeScope off(false);
    results = called(*traced.graph, traced.operands, traced.device);
  }
  Request request{.inputs = {}, .takes_cotangents = true, .seeds = false};
  std::vector<GradEdge> edges;
  std::vector<Device> devices;
  for (size_t i = 0; i < kept.size(); ++i) {
    GradEdge e = has_gradient(kept[i].dtype()) ? edge_of(traced.operands[i]) : GradEdge{};
    if (!e) continue;
    request.inputs.push_back(i);
    edges.push_back(std::move(e));
    devices.push_back(kept[i].device());
  }
  if (edges.empty()) return results;
  const auto gradients = recomputation_of(std::move(traced.graph), request, results, traced.device, std::move(devices));
  const auto reverse = [gradients, drawn](const std::vector<Tensor>& of, std::vector<Tensor> cotangents) {
    const DrawnBefore stream(drawn);
    return gradients(of, std::move(cotangents));
  };
  auto node = std::make_shared<FunctionNode>("checkpoint", ops::place_text(where), std::move(edges), reverse);
  for (size_t i = 0; i < kept.size(); ++i) node->keep(kept[i], fmt::format("operand {}", i));
  set_results(node, results, traced.operands);
  return results;
}

}  // namespace
}  // namespace toroid::autograd

namespace toroid {

std::vector<Tensor> detail::checkpointed(const std::function<std::vector<Tensor>()>& fn, const CheckpointPolicy& policy,
                                         const std::source_location& where) {
  autograd::check_names(policy);
  Dispatcher* innermost = innermost_dispatcher();
  if (innermost && innermost != eager_dispatcher()) {
    const CheckpointScope scope({CheckpointScope::new_ids(), &policy.save});
    return fn();
  }
  if (!grad_mode || !gradients_are_in_use()) return fn();
  return autograd::on_tape(fn, current_dispatcher(), where);
}

}  // namespace toroid
