// The functions of toroid/grad.h: what a function calls is recorded as a graph, and the joint graph is called in its place.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "autograd/differentiate.h"
#include "base/check.h"
#include "graph/pass.h"
#include "graph/recorder.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"
#include "tensor/grad_state.h"
#include "toroid/grad.h"

namespace toroid::autograd {
namespace {

using graph::Value;

// Records calls above another dispatcher, which is asked of sizes and gets the joint graph afterwards. Tensors that are not made here,
// among them stand-ins of a trace below, become inputs.
class FunctionTrace : public graph::Recorder {
 public:
  FunctionTrace(graph::Graph& g, Dispatcher& below) : Recorder(g), below_(below) {}

  Tensor lift(const Tensor& t) {
    if (!t.defined() || made_.count(t.impl())) return t;
    Tensor& stand_in = lifted_[t.impl()];
    if (!stand_in.defined()) {
      TensorType type{t.dtype(), {}, {}};
      for (int64_t d = 0; d < t.dim(); ++d) type.sizes.push_back(t.size(d).expr());
      for (auto& e : type.sizes) declare_symbols(e);
      if (!is_proxy(t) && !t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
      stand_in = keep(proxy(graph().add_input(type, graph::InputKind::User, "x")), t.device());
      originals_.push_back(t);
    }
    return stand_in;
  }
  // Behind the inputs of the graph, in their order.
  const std::vector<Tensor>& originals() const { return originals_; }
  // Where the graph runs as a whole: on the one GPU that an operation is on, else on the CPU.
  const Device& device() const { return device_; }

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    const Device device = ops::device_of(op, args);
    args = ops::autocast_args(op, std::move(args), device, where);
    runs_on(device, where);
    for (auto& a : args) a = map_arg<Tensor>(a, [&](const Tensor& t) { return lift(t); });
    const bool writes = graph::is_mutating(op);
    auto results = Recorder::call(op, std::move(args), where);
    for (auto& t : results) {
      if (!grad_mode && !writes && (is_float(t.dtype()) || is_complex(t.dtype())))
        t = Recorder::call(ops::get("detach"), {t}, where).at(0);  // a NoGrad within the function
      keep(t, device);
    }
    return results;
  }
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    runs_on(t.device(), where);
    runs_on(device, where);
    return keep(Recorder::call(ops::get("clone"), {lift(t), std::monostate{}}, where).at(0), device);
  }
  bool decide(const sym::Relation& r) override { return below_.decide(r); }
  void require(const sym::Relation& r, const std::string& error) override {
    const auto known = sym::known(r);
    if (!known) return below_.require(r, error);
    if (!*known) fail<UserError>("{}", error);
  }
  int64_t specialize(const Expr& e) override { return below_.specialize(e); }
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override {
    if (!made_.count(t.impl())) return below_.read(t, what, where);
    fail<UserError>("{}: {} of a tensor inside of a function that is differentiated; its value is not known yet there",
                    ops::place_text(where), what);
  }

 private:
  void declare_symbols(const Expr& e) {
    sym::for_each_symbol(e, [&](const Expr& s) {
      if (!graph().find_symbol(s.node()->name)) graph().symbols.push_back({s});
    });
  }
  Tensor keep(Tensor t, const Device& device) {
    t.impl()->device = device;
    made_.insert(t.impl());
    kept_.push_back(t);
    return t;
  }

  void runs_on(const Device& device, const std::source_location& where) {
    if (!device.is_cuda() || device == device_) return;
    TOROID_USER_CHECK(!device_.is_cuda(),
                      "{}: {} follows {} in one function that is differentiated; bring its tensors to one GPU with to()",
                      ops::place_text(where), to_string(device), to_string(device_));
    device_ = device;
  }

  Dispatcher& below_;
  Device device_;
  std::unordered_set<const TensorImpl*> made_;
  std::vector<Tensor> kept_;  // so that no address of made_ is used again
  std::unordered_map<const TensorImpl*, Tensor> lifted_;
  std::vector<Tensor> originals_;
};

Tensor on_device(const Tensor& t, const Device& device) {
  return t.defined() && !(t.device() == device) ? current_dispatcher().move(t, device, std::source_location::current()) : t;
}

// Calls the nodes of a functional graph on tensors, through the innermost dispatcher, on one device. What the graph writes to inputs is
// written. The casts of autocast are nodes already.
std::vector<Tensor> called(const graph::Graph& g, std::span<const Tensor> inputs, const Device& device) {
  const DeviceScope on(device);
  const ops::NoAutocast casts_are_nodes;
  std::unordered_map<const Value*, Tensor> at;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    at[g.inputs[i].value] = on_device(g.inputs[i].data.defined() ? g.inputs[i].data : inputs[i], device);
  for (auto& n : g.nodes) {
    const ops::PlaceScope place(n->where);
    CallArgs args;
    for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](const Value* v) { return v ? at.at(v) : Tensor(); }));
    const auto results = ops::call(*n->op, std::move(args));
    for (size_t i = 0; i < results.size(); ++i) at[n->results[i]] = results[i];
  }
  std::vector<Tensor> out;
  for (auto& o : g.outputs) {
    if (o.mutates >= 0)
      ops::call("copy_", {inputs[static_cast<size_t>(o.mutates)], at.at(o.value)});
    else
      out.push_back(o.value ? at.at(o.value) : Tensor());
  }
  return out;
}

struct Differentiated {
  std::vector<Tensor> values, gradients;
};

Differentiated differentiated(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                              std::optional<std::span<const Tensor>> cotangents) {
  graph::Graph g;
  g.name = "gradients";
  Dispatcher& below = current_dispatcher();
  FunctionTrace trace(g, below);
  Request request{.inputs = {}, .takes_cotangents = cotangents.has_value()};
  for (const Tensor& t : by) {
    TOROID_USER_CHECK(t.defined(), "a gradient by an undefined tensor");
    const Value* input = trace.value_of(trace.lift(t));
    for (size_t i = 0; i < g.inputs.size(); ++i)
      if (g.inputs[i].value == input) request.inputs.push_back(i);
  }
  std::vector<Device> devices;  // of the results, and of the gradients
  {
    DispatchScope scope(trace);
    const GradModeScope only_scopes_within(true);
    for (const Tensor& t : fn()) {
      g.outputs.push_back({trace.value_of(trace.lift(t)), {}, -1});
      devices.push_back(t.defined() ? t.device() : trace.device());
    }
  }
  for (const Tensor& t : by) devices.push_back(t.device());
  for (auto& s : g.symbols)
    TOROID_USER_CHECK(!s.unbacked,
                      "the size {} follows from values of tensors; such sizes have no place in a function that is differentiated",
                      sym::to_string(s.expr));
  for (auto& guard : g.guards) below.require(guard, guard.is_requirement() ? guard.error : "sizes of a function that is differentiated");
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  const auto functional = graph::run_passes(graph::clone(g), std::span(&functionalize, 1));
  const auto joint = differentiate(*functional, request);
  std::vector<Tensor> inputs = trace.originals();
  if (cotangents) {
    size_t floats = 0;
    for (auto& o : g.outputs) floats += o.value && (is_float(o.value->type.dtype) || is_complex(o.value->type.dtype));
    TOROID_USER_CHECK(cotangents->size() == floats, "vjp: {} cotangents are given for {} float results", cotangents->size(), floats);
    inputs.insert(inputs.end(), cotangents->begin(), cotangents->end());
  }
  Differentiated out;
  out.values = called(*joint, inputs, trace.device());
  for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = on_device(out.values[i], devices[i]);
  out.gradients.assign(out.values.end() - static_cast<std::ptrdiff_t>(by.size()), out.values.end());
  out.values.resize(out.values.size() - by.size());
  return out;
}

}  // namespace
}  // namespace toroid::autograd

namespace toroid {

std::pair<Tensor, std::vector<Tensor>> value_and_gradients(const std::function<Tensor()>& fn, std::span<const Tensor> by) {
  auto d = autograd::differentiated([&] { return std::vector<Tensor>{fn()}; }, by, std::nullopt);
  return {std::move(d.values[0]), std::move(d.gradients)};
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> vjp(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                                                        std::span<const Tensor> cotangents) {
  auto d = autograd::differentiated(fn, by, cotangents);
  return {std::move(d.values), std::move(d.gradients)};
}

std::vector<Tensor> detail::picked(std::span<const Tensor* const> arguments, std::span<const size_t> positions) {
  std::vector<Tensor> out;
  for (size_t i : positions) {
    TOROID_USER_CHECK(i < arguments.size() && arguments[i], "a gradient by argument {}, which is no tensor; the function has {} arguments",
                      i, arguments.size());
    out.push_back(*arguments[i]);
  }
  return out;
}

}  // namespace toroid
