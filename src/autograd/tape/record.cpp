#include "autograd/tape/record.h"

#include <algorithm>

#include "autograd/rule.h"
#include "base/check.h"
#include "ops/autocast.h"
#include "ops/call_errors.h"
#include "ops/custom.h"

namespace toroid::autograd {
namespace {

bool is_view(const ops::Op& op) { return (op.index_map || op.write_back) && op.schema.params[0].alias; }

// Which of a call's tensors are to get gradients, and where these go.
struct Wanted {
  std::vector<Tensor> operands;
  std::vector<bool> by_operand;
  std::vector<GradEdge> edges;

  explicit Wanted(const CallArgs& args) : operands(operands_of(args)) {
    for (auto& t : operands) {
      GradEdge e = has_gradient(t.dtype()) ? edge_of(t) : GradEdge{};
      by_operand.push_back(static_cast<bool>(e));
      if (e) edges.push_back(std::move(e));
    }
  }
};

std::string role_of(const ops::Op& op, const CallArgs& args, size_t operand) {
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t here = operands_of({args[i]}).size();
    if (operand < here) return fmt::format("its operand \"{}\"", op.schema.params[i].name);
    operand -= here;
  }
  return "an operand";
}

// Of a custom operation with a gradient of its own, which may read all its tensors.
std::shared_ptr<Node> custom_node(const ops::Op& op, const CallArgs& args, Wanted wanted, std::span<const Tensor> results,
                                  const std::source_location& where) {
  CallArgs numbers;  // tensors are kept by the node
  for (auto& a : args) numbers.push_back(map_arg<Tensor>(a, [](const Tensor&) { return Tensor(); }));
  const auto reverse = [&op, numbers, by_operand = wanted.by_operand](const std::vector<Tensor>& kept, std::vector<Tensor> cotangents) {
    size_t next = 0;
    CallArgs full;
    for (auto& a : numbers) full.push_back(map_arg<Tensor>(a, [&](const Tensor&) { return kept[next++]; }));
    const std::vector<Tensor> made(kept.begin() + static_cast<std::ptrdiff_t>(next), kept.end());
    auto all = custom_gradients(op, full, made, std::move(cotangents));
    std::vector<Tensor> out;
    for (size_t i = 0; i < all.size(); ++i)
      if (by_operand[i]) out.push_back(all[i]);
    return out;
  };
  auto node = std::make_shared<FunctionNode>(op.name, ops::place_text(where), std::move(wanted.edges), reverse);
  for (size_t i = 0; i < wanted.operands.size(); ++i) node->keep(wanted.operands[i], role_of(op, args, i));
  for (auto& r : results) node->keep(r, "its result");
  return node;
}

std::shared_ptr<Node> node_of(const ops::Op& op, const CallArgs& args, Wanted wanted, std::span<const Tensor> results,
                              const std::source_location& where) {
  if (has_custom_gradient(op)) return custom_node(op, args, std::move(wanted), results, where);
  std::shared_ptr<const Reverse> reverse;
  std::string error, place = ops::place_text(where);
  try {
    reverse = reverse_of(op, args, wanted.by_operand, place);
  } catch (const UserError& e) {
    error = e.what();  // of who asks for the gradient
  }
  auto node = std::make_shared<OperationNode>(op.name, std::move(place), std::move(wanted.edges), reverse, std::move(error));
  for (size_t i = 0; reverse && i < reverse->inputs.size(); ++i) {
    const auto& source = reverse->inputs[i];
    if (source.kind == Reverse::Kind::Operand) node->keep(wanted.operands[source.index], role_of(op, args, source.index));
    if (source.kind == Reverse::Kind::Result) node->keep(results[source.index], "its result");
  }
  return node;
}

std::vector<Tensor> functional(const ops::Op& op, CallArgs args, const std::source_location& where, const Forward& forward) {
  Wanted wanted(args);
  std::vector<Tensor> results;
  {
    const GradModeScope off(false);
    results = forward(args);
  }
  if (op.name == "detach" || reads_sizes_alone(op)) return results;
  const std::vector<Tensor> operands = wanted.operands;
  const bool follows = std::any_of(results.begin(), results.end(), [](auto& r) { return has_gradient(r.dtype()); });
  if (!wanted.edges.empty() && follows)
    set_results(node_of(op, args, std::move(wanted), results, where), results, operands);
  else if (is_view(op))
    for (auto& r : results) set_history(r, {}, &operands[0]);
  return results;
}

// The value is computed as by the operation that does not write, remembered as that, and then written.
std::vector<Tensor> in_place(const ops::Op& op, CallArgs args, const std::source_location& where) {
  const Tensor self = std::get<Tensor>(args.at(0));
  check_writable(self, op.name);
  if (op.schema.name == "copy_") args.at(1) = std::get<Tensor>(args.at(1)).to(self.device(), where);  // it brings its source along
  Tensor value = ops::call(*op.inplace_of, std::move(args), where).at(0);
  const GradEdge computed = edge_of(value);
  if (value.sizes() != self.sizes()) {
    const std::vector<Expr> sizes(self.sizes().begin(), self.sizes().end());
    ops::check_fits(op, std::vector<Expr>(value.sizes().begin(), value.sizes().end()), sizes);
    value = ops::call1("expand", {value, sizes}, where);
  }
  if (value.dtype() != self.dtype()) value = ops::call1("_to_copy", {value, self.dtype()}, where);
  const GradEdge edge = has_gradient(self.dtype()) ? edge_of(value) : GradEdge{};
  if (computed.node)
    for (auto& kept : computed.node->kept())
      if (kept.is_in(*self.impl()->storage)) kept.make_own();
  {
    const GradModeScope off(false);
    copy_elements(value, self);
  }
  self.impl()->storage->writes.note();
  set_written(self, edge, where);
  return {self};
}

// Of an opaque operation that writes: nothing is known of what the new contents depend on.
void check_no_gradients(const ops::Op& op, const CallArgs& args) {
  const auto operands = operands_of(args);
  for (size_t i = 0; i < operands.size(); ++i)
    TOROID_USER_CHECK(!has_gradient(operands[i].dtype()) || !edge_of(operands[i]),
                      "{} writes to its arguments, which gradients do not follow, and {} requires gradients; call it under NoGrad, or give "
                      "it detach() of that",
                      op.name, role_of(op, args, i));
}

}  // namespace

void set_results(const std::shared_ptr<Node>& node, std::span<const Tensor> results, std::span<const Tensor> operands) {
  for (auto& r : results) {
    node->results.push_back({r.dtype(), r.sizes(), {}, {}});
    node->device = r.device();
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& r = results[i];
    const auto shares = [&](const Tensor& t) { return t.impl()->storage == r.impl()->storage; };
    const auto of = std::find_if(operands.begin(), operands.end(), shares);
    if (of != operands.end() && of->impl() == r.impl()) continue;  // the operand itself
    const bool follows = has_gradient(r.dtype());
    set_history(r, follows ? GradEdge{node, i, nullptr} : GradEdge{}, of == operands.end() ? nullptr : &*of);
  }
}

std::vector<Tensor> remembered(const ops::Op& op, CallArgs args, const std::source_location& where, const Forward& forward) {
  if (!grad_mode) {
    if (!is_view(op)) return forward(std::move(args));
    const Tensor self = std::get<Tensor>(args.at(0));
    auto results = forward(std::move(args));
    for (auto& r : results)
      if (r.impl() != self.impl()) cut_history(r);
    return results;
  }
  if (!op.inplace_of && ops::writes_arguments(op)) check_no_gradients(op, args);
  const Device device = ops::device_of(op, args);
  args = ops::autocast_args(op, std::move(args), device, where);
  const ops::NoAutocast chosen;
  return op.inplace_of ? in_place(op, std::move(args), where) : functional(op, std::move(args), where, forward);
}

}  // namespace toroid::autograd
