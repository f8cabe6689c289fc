#include "cli/train_program.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "graph/bind.h"
#include "graph/pass.h"
#include "import/load_model.h"
#include "ops/call_errors.h"
#include "tensor/dispatch.h"
#include "toroid/autograd.h"
#include "toroid/ops.h"

namespace toroid::cli {
namespace {

using graph::InputKind;

void check_program(const graph::Graph& g, const std::string& path) {
  TOROID_USER_CHECK(std::any_of(g.inputs.begin(), g.inputs.end(),
                                [](auto& in) { return in.kind == InputKind::Parameter && is_float(in.value->type.dtype); }),
                    "{}: the program has no float parameters; there is nothing to train", path);
  for (auto& n : g.nodes)
    TOROID_USER_CHECK(n->regions.empty(), "{}: the program has control flow ({}); such programs are not trained", path, n->op->schema.name);
  const auto first = std::find_if(g.outputs.begin(), g.outputs.end(), [](auto& o) { return o.mutates < 0; });
  const graph::Value* loss = first == g.outputs.end() ? nullptr : first->value;
  TOROID_USER_CHECK(loss && is_float(loss->type.dtype) && loss->type.sizes.empty(),
                    "{}: the program's first result must be its loss, one float without dimensions; export a module that computes it",
                    path);
}

// The sizes that a tensor has in this call, as numbers: a program's nodes have them among their arguments.
std::vector<int64_t> numbers(const Tensor& t) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(current_dispatcher().specialize(t.size(d).expr()));
  return out;
}

Arg<Tensor> with_numbers(Arg<Tensor> a, const graph::BoundSymbols& symbols) {
  if (auto* e = std::get_if<Expr>(&a)) *e = symbols.value(*e);
  if (auto* list = std::get_if<std::vector<Expr>>(&a))
    for (auto& e : *list) e = symbols.value(e);
  return a;
}

}  // namespace

TrainProgram::TrainProgram(const std::string& path) : path_(path) {
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  graph_ = graph::run_passes(import::load_model(path), std::span(&functionalize, 1));
  check_program(*graph_, path);
  const NoGrad copies;
  for (auto& in : graph_->inputs) {
    held_.push_back(nullptr);
    if (in.kind == InputKind::User) continue;
    TOROID_USER_CHECK(in.data.defined(), "{}: the input \"{}\" of the program has no contents", path, in.name);
    held_.back() = &members_.emplace_back(clone(in.data));
    if (in.kind == InputKind::Parameter && is_float(in.data.dtype()))
      add_parameter(in.name, *held_.back());
    else
      add_buffer(in.name, *held_.back(), in.kind != InputKind::Constant);
    in.data = {};
  }
}

std::vector<std::string> TrainProgram::input_names() const {
  std::vector<std::string> out;
  for (auto& in : graph_->inputs)
    if (in.kind == InputKind::User) out.push_back(in.name);
  return out;
}

Tensor TrainProgram::loss(const train::Batch& inputs) {
  graph::BoundSymbols symbols;
  std::vector<Tensor> values(graph_->values.size());
  const auto at = [&](const graph::Value* v) -> Tensor& { return values[static_cast<size_t>(v->id)]; };
  size_t next = 0;
  for (size_t i = 0; i < graph_->inputs.size(); ++i) {
    const graph::Input& in = graph_->inputs[i];
    if (held_[i]) {
      at(in.value) = *held_[i];
      continue;
    }
    TOROID_USER_CHECK(next < inputs.size(), "{}: {} inputs are given; the program takes {}", path_, inputs.size(), input_names().size());
    const Tensor given = inputs[next++];
    const TensorType& type = in.value->type;
    const auto sizes = numbers(given);
    TOROID_USER_CHECK(given.dtype() == type.dtype && sizes.size() == type.sizes.size() && graph::bind_sizes(symbols, type, sizes) < 0,
                      "{}: the input \"{}\" of a batch is {} [{}]; the program was exported for {}", path_, in.name, name_of(given.dtype()),
                      fmt::join(sizes, ", "), to_string(type));
    at(in.value) = given;
  }
  graph::check_sizes(*graph_, symbols);
  for (auto& n : graph_->nodes) {
    const ops::PlaceScope place(n->where);
    CallArgs args;
    for (auto& a : n->args)
      args.push_back(with_numbers(map_arg<Tensor>(a, [&](const graph::Value* v) { return v ? at(v) : Tensor(); }), symbols));
    const auto results = ops::call(*n->op, std::move(args));
    for (size_t i = 0; i < n->results.size(); ++i) {
      graph::bind_sizes(symbols, n->results[i]->type, numbers(results.at(i)));
      at(n->results[i]) = results[i];
    }
  }
  Tensor loss;
  for (auto& o : graph_->outputs) {
    if (o.mutates < 0 && !loss.defined()) loss = at(o.value);
    if (o.mutates >= 0 && is_training() && held_[static_cast<size_t>(o.mutates)])
      copy_(*held_[static_cast<size_t>(o.mutates)], at(o.value));
  }
  return loss;
}

}  // namespace toroid::cli
