// The functions of toroid/grad.h: what a function calls is recorded as a graph, and the joint graph is called in its place.

#include <algorithm>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/function_trace.h"
#include "base/check.h"
#include "graph/decided_views.h"
#include "graph/pass.h"
#include "ops/call_place.h"
#include "tensor/grad_state.h"
#include "toroid/grad.h"
#include "toroid/tensor_notes.h"

namespace toroid::autograd {
namespace {

using graph::Value;

struct Differentiated {
  std::vector<Tensor> values, gradients;
};

std::set<const Value*> values_read(const graph::Graph& g) {
  std::set<const Value*> out;
  for (auto& n : g.nodes)
    for (auto& a : n->args) {
      if (auto* v = std::get_if<Value*>(&a)) out.insert(*v);
      if (auto* list = std::get_if<std::vector<Value*>>(&a)) out.insert(list->begin(), list->end());
    }
  for (auto& o : g.outputs) out.insert(o.value);
  return out;
}

// Gradients by tensors that the function does not read are zeros, which is what someone wants who asks by several. Not by weights that
// their module has exchanged, nor where an optimizer steps all of them: it would train nothing.
// "add.Tensor (called at model.cpp:7)": what has made a value.
std::string maker_of(const Value& v) {
  if (!v.producer) return "an input";
  const std::string& place = v.producer->where;
  return v.producer->op->name + (place.empty() ? "" : fmt::format(" (called at {})", place));
}

// A stand-in that a variable outside still holds would be an empty tensor there.
void refuse_kept(FunctionTrace& trace) {
  if (const Tensor held = trace.still_held(); held.defined())
    fail<UserError>(
        "a function that is differentiated keeps the result of {} beyond its end, in a variable outside of it: return the tensor, or write "
        "it in place (copy_) into one that is there before",
        maker_of(*trace.value_of(held)));
}

// The first value that has a size; null: none has it as it is.
const Value* first_of_size(const graph::Graph& g, const Expr& size) {
  for (auto& n : g.nodes)
    for (const Value* r : n->results)
      if (std::find(r->type.sizes.begin(), r->type.sizes.end(), size) != r->type.sizes.end()) return r;
  return nullptr;
}

void refuse_sizes_of_data(const graph::Graph& g) {
  const auto unbacked = std::find_if(g.symbols.begin(), g.symbols.end(), [](auto& s) { return s.unbacked; });
  if (unbacked == g.symbols.end()) return;
  const Value* made = first_of_size(g, unbacked->expr);
  fail<UserError>(
      "{} gives a tensor whose size follows from values, which has no place in a function that is differentiated where it is compiled: use "
      "what keeps the sizes (where, masked_fill_, a product with the mask; of counts sum(one_hot(x, n), {{0}})), or call "
      "value_and_gradients() outside of compile()",
      made ? maker_of(*made) : "an operation");
}

void refuse_forgotten(const graph::Graph& g, std::span<const Tensor> by, const std::vector<const Value*>& inputs) {
  const auto read = values_read(g);
  std::vector<size_t> unread;
  for (size_t i = 0; i < by.size(); ++i)
    if (!read.count(inputs[i])) unread.push_back(i);
  for (size_t i : unread)
    if (const std::string where = detail::replaced(by[i]); !where.empty())
      fail<UserError>(
          "the function does not depend on tensor {} of the {} by which it is differentiated: another one took its place in the module ({}). "
          "Make the optimizer after load_state() and to()",
          i, by.size(), where);
  const bool trained = std::any_of(unread.begin(), unread.end(), [&](size_t i) { return detail::is_trained(by[i]); });
  TOROID_USER_CHECK(unread.size() < by.size() || !trained,
                    "the function depends on none of the {} tensors by which it is differentiated, which an optimizer trains. Does the "
                    "optimizer have the tensors that the loss reads? It keeps those that it was made with",
                    by.size());
}

// An argument of a compiled function is whatever a call gives, so that a variable of the function which is that tensor now is another one
// in its program, and would have no part in the gradient.
void refuse_captured_arguments(FunctionTrace& trace, std::span<const Tensor> by) {
  for (size_t i = 0; i < by.size(); ++i) {
    const Tensor given = trace.behind(by[i]);
    const bool captured = given.impl() != by[i].impl() && std::any_of(trace.originals().begin(), trace.originals().end(),
                                                                      [&](auto& o) { return o.impl() == given.impl(); });
    TOROID_USER_CHECK(!captured,
                      "tensor {} by which it is differentiated is an argument of the compiled function, which reads the same tensor by a "
                      "variable of its own, too: to its program these are two tensors. Read the argument alone, or differentiate by the "
                      "variable",
                      i);
  }
}

Differentiated differentiated(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                              std::optional<std::span<const Tensor>> cotangents) {
  graph::Graph g;
  g.name = "gradients";
  Dispatcher& below = current_dispatcher();
  FunctionTrace trace(g, below);
  Request request{.inputs = {}, .takes_cotangents = cotangents.has_value()};
  std::vector<const Value*> by_inputs;
  for (const Tensor& t : by) {
    TOROID_USER_CHECK(t.defined(), "a gradient by an undefined tensor");
    const Value* input = by_inputs.emplace_back(trace.value_of(trace.lift(t)));
    for (size_t i = 0; i < g.inputs.size(); ++i)
      if (g.inputs[i].value == input) request.inputs.push_back(i);
  }
  std::vector<Device> devices;  // of the results, and of the gradients
  {
    DispatchScope scope(trace);
    const ElementReader::Scope reads(&trace);
    const GradModeScope only_scopes_within(true);
    for (const Tensor& t : fn()) {
      g.outputs.push_back({trace.value_of(trace.lift(t)), {}, -1});
      devices.push_back(t.defined() ? t.device() : trace.device());
    }
  }
  for (const Tensor& t : by) devices.push_back(t.device());
  refuse_captured_arguments(trace, by);
  if (!by.empty()) refuse_forgotten(g, by, by_inputs);
  refuse_kept(trace);
  refuse_sizes_of_data(g);
  graph::decide_written_views(g, [&](const sym::Relation& r, const std::string&) { return trace.decide(r); });
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  const auto functional = graph::run_passes(graph::clone(g), std::span(&functionalize, 1));
  const auto joint = differentiate(*functional, request);
  std::vector<Tensor> inputs = trace.originals();
  if (cotangents) {
    size_t floats = 0;
    for (auto& o : g.outputs) floats += o.value && (is_float(o.value->type.dtype) || is_complex(o.value->type.dtype));
    TOROID_USER_CHECK(cotangents->size() == floats, "vjp: {} cotangents are given for {} float results", cotangents->size(), floats);
    size_t next = 0;
    for (auto& o : g.outputs) {
      if (!o.value || !(is_float(o.value->type.dtype) || is_complex(o.value->type.dtype))) continue;
      const Tensor& given = (*cotangents)[next++];
      TOROID_USER_CHECK(given.defined() && given.dim() == o.value->type.dim(), "vjp: cotangent {} has not the rank of its result, {}",
                        next - 1, o.value->type.dim());
      for (size_t d = 0; d < o.value->type.sizes.size(); ++d) {
        const sym::Relation equal{sym::Rel::Eq, given.size(static_cast<int64_t>(d)).expr(), o.value->type.sizes[d]};
        if (!sym::known(equal).value_or(false))
          below.require(equal, fmt::format("vjp: dimension {} of cotangent {} is {}, its result has {}", d, next - 1,
                                           sym::to_string(equal.a), sym::to_string(equal.b)));
      }
    }
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

std::pair<Tensor, std::vector<Tensor>> value_and_gradients(const std::function<Tensor()>& fn, std::span<const Tensor> by,
                                                           Tensor::Where where) {
  auto d = ops::at_place(where, [&] { return autograd::differentiated([&] { return std::vector<Tensor>{fn()}; }, by, std::nullopt); });
  return {std::move(d.values[0]), std::move(d.gradients)};
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> vjp(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                                                        std::span<const Tensor> cotangents, Tensor::Where where) {
  auto d = ops::at_place(where, [&] { return autograd::differentiated(fn, by, cotangents); });
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
