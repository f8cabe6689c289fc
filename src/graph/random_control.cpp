// Random control flow: regions are random graphs over the operands of the node.
#include <set>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/random_generator.h"

namespace toroid::graph {

using ops::call1;

namespace {

std::vector<Value*> values_of(Recorder& r, const std::vector<Drawn>& list) {
  std::vector<Value*> out;
  for (auto& d : list) out.push_back(r.value_of(d.t));
  return out;
}

}  // namespace

// A region that takes `operands` and returns a value of the type of each of the first `results` of them. In loops these are bounded
// first: what goes round must not grow.
std::shared_ptr<Graph> RandomGenerator::region(const char* name, const std::vector<Drawn>& operands, size_t results, bool loop) {
  RandomGraphOptions options{.nodes = 1 + static_cast<int>(pick(5)), .in_place = false, .mixed_dtypes = false, .data_dependent = false};
  options.special_values = false;
  options.degenerate = options_.degenerate;
  options.doubles = options_.doubles;
  options.while_loops = options_.while_loops;
  options.control_flow = options_.nodes > 5 && chance(3);
  RandomGenerator inner(random_(), options);
  inner.graph_->name = name;
  inner.is_region_ = true;
  inner.graph_->symbols = graph_->symbols;  // known from around
  DispatchScope scope(inner.recorder_);
  std::vector<Drawn> first;
  for (auto& d : operands) {
    Drawn in = d;
    in.t = inner.recorder_.proxy(inner.graph_->add_input({d.t.dtype(), sizes_of(d.t), {}}, InputKind::User, "a"));
    in.exact = in.exact && !loop;
    inner.pool_.push_back(in);
  }
  if (loop)
    for (size_t i = 0; i < results; ++i) inner.pool_[i] = inner.bounded(inner.pool_[i]);
  first.assign(inner.pool_.begin(), inner.pool_.begin() + static_cast<int64_t>(results));
  for (int tries = 0; static_cast<int>(inner.graph_->nodes.size()) < options.nodes && tries < 40; ++tries) inner.attempt();
  for (auto& want : first) {
    std::vector<const Drawn*> fitting;
    for (auto& d : inner.pool_)
      if (d.t.dtype() == want.t.dtype() && sizes_of(d.t) == sizes_of(want.t)) fitting.push_back(&d);
    const Drawn& chosen = chance(3) ? *one_of(fitting) : *fitting.back();
    inner.graph_->outputs.push_back({inner.recorder_.value_of(loop ? inner.bounded(chosen).t : chosen.t), {}, -1});
  }
  inner.graph_->symbols.clear();
  return std::move(inner.graph_);
}

std::vector<Drawn> RandomGenerator::control() {
  std::vector<Drawn> carried, others;
  const DType number = options_.doubles ? DType::F64 : DType::F32;
  auto fits = [&](const Drawn& d) { return d.t.dtype() == number && !d.wild && d.t.dim() <= 3; };
  for (int64_t i = 0, n = 2 + pick(4); i < n; ++i)
    if (const Drawn& d = any(); fits(d)) (carried.empty() || chance(2) ? carried : others).push_back(d);
  if (carried.empty()) fail<UserError>("nothing to carry was drawn");
  auto all = carried;
  all.insert(all.end(), others.begin(), others.end());
  Node* n = nullptr;
  switch (options_.while_loops ? pick(3) : 2 * pick(2)) {
    case 0: {
      Drawn x = any_exact();
      Tensor p = call1("any", {call1("gt.Scalar", {x.t, 0.5})});
      auto yes = region("then", all, carried.size(), false), no = region("else", all, carried.size(), false);
      n = add_region_node(*graph_, cond_op(), {recorder_.value_of(p), {}, {}, values_of(recorder_, all)}, {yes, no}, "random");
      break;
    }
    case 1: {
      // The first carried tensor counts; it is added to the region that the others go through.
      auto body = region("body", all, carried.size(), true);
      Recorder counting(*body);
      DispatchScope scope(counting);
      Value* i = body->new_value({DType::I64, {}, {}}, "i");
      body->inputs.insert(body->inputs.begin(), {i, InputKind::User, "i", {}});
      body->outputs.insert(body->outputs.begin(), {counting.value_of(call1("add.Tensor", {counting.proxy(i), Expr(1)})), {}, -1});
      auto condition = std::make_shared<Graph>();
      condition->name = "go on";
      Recorder testing(*condition);
      DispatchScope inner(testing);
      for (auto& in : body->inputs) condition->add_input(in.value->type, InputKind::User, in.name);
      Tensor goes_on = call1("lt.Scalar", {testing.proxy(condition->inputs[0].value), Expr(pick(4))});
      condition->outputs.push_back({testing.value_of(goes_on), {}, -1});
      DispatchScope outer(recorder_);
      auto start = values_of(recorder_, carried);
      start.insert(start.begin(), recorder_.value_of(call1("full", {Exprs{}, Expr(0), DType::I64})));
      n = add_region_node(*graph_, while_loop_op(), {{}, {}, start, values_of(recorder_, others)}, {condition, body}, "random");
      break;
    }
    default: {
      Drawn xs = any_rank(1, 3);
      if (!fits(xs)) fail<UserError>("nothing to scan over was drawn");
      Drawn slice = xs;
      slice.t = call1("select.int", {xs.t, Expr(0), Expr(0)});
      all.insert(all.begin() + static_cast<int64_t>(carried.size()), slice);
      auto combine = region("combine", all, carried.size(), true);
      if (chance(2)) combine->outputs.push_back(combine->outputs[0]);
      n = add_region_node(*graph_, scan_op(), {{}, values_of(recorder_, carried), values_of(recorder_, {xs}), values_of(recorder_, others)},
                          {combine}, "random");
    }
  }
  std::vector<Drawn> out;
  for (auto* r : n->results)
    if (is_float(r->type.dtype)) out.push_back(rough(recorder_.proxy(r)));
  return out;
}

}  // namespace toroid::graph
