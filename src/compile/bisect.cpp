#include "compile/bisect.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "tune/check/equivalence.h"

namespace toroid::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// The graph with all results of its operations as outputs, and nothing else.
std::unique_ptr<Graph> exposed(const Graph& g) {
  auto out = graph::clone(g);
  out->outputs.clear();
  for (auto& n : out->nodes)
    for (Value* r : n->results) out->outputs.push_back({r, {}, -1});
  return out;
}

// Terms of the longest sum behind an element, or more: a reduction's elements, a row of a matrix, a filter's weights.
int64_t longest_sum(const std::vector<Tensor>& operands, const std::vector<Tensor>& results) {
  int64_t terms = 1;
  for (auto& t : operands) {
    for (auto& r : results)
      if (r.numel() > 0) terms = std::max(terms, t.numel() / r.numel());
    for (int64_t size : t.sizes()) terms = std::max(terms, size);
    if (t.dim() > 2 && t.sizes()[0] > 0) terms = std::max(terms, t.numel() / t.sizes()[0]);
  }
  return terms;
}

std::vector<tune::Contract> contracts_of(const std::vector<Tensor>& operands, const std::vector<Tensor>& results, bool tf32) {
  tune::Contract c;
  c.length = longest_sum(operands, results);
  c.intermediates = 1;
  c.tf32 = tf32;
  for (auto& t : operands) c.operands.push_back(t.dtype());
  std::vector<tune::Contract> out;
  for (auto& r : results) {
    c.result = r.dtype();
    c.accumulate = r.dtype() == DType::F64 || r.dtype() == DType::C128 ? DType::F64 : DType::F32;
    out.push_back(c);
  }
  return out;
}

// Each element moved by about one unit in its last place, up or down.
Tensor nudged(const Tensor& t) {
  if (!t.defined() || !is_float(t.dtype())) return t;
  std::vector<double> v = t.contiguous().to_vector();
  uint64_t state = 1;
  for (double& x : v) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x += ((state >> 63) != 0 ? 2 : -2) * tune::unit_roundoff(t.dtype()) * x;
  }
  return Tensor::of(v, t.sizes(), t.dtype());
}

// Whether results differ by no more than a few times what such moves of the operands make of them: sums of large terms that cancel are as
// far off, and no bound by the size of the result allows for them.
bool is_ill_conditioned(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::vector<Tensor>& moved) {
  constexpr double kTimes = 8;
  for (size_t r = 0; r < want.size(); ++r) {
    if (!is_float(want[r].dtype()) || got[r].dtype() != want[r].dtype() || got[r].sizes() != want[r].sizes()) return false;
    const auto g = got[r].contiguous().to_vector(), w = want[r].contiguous().to_vector(), m = moved[r].contiguous().to_vector();
    double error = 0, spread = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      if (!std::isfinite(g[i]) || !std::isfinite(w[i]) || !std::isfinite(m[i])) return false;
      error = std::max(error, std::fabs(g[i] - w[i])), spread = std::max(spread, std::fabs(m[i] - w[i]));
    }
    if (error > kTimes * spread) return false;
  }
  return true;
}

class Bisecting {
 public:
  Bisecting(const Graph& g, std::span<const Tensor> inputs, bool tf32)
      : g_(g), symbols_(graph::bind_inputs(g, inputs)), values_(g.values.size()), random_(g.values.size()), tf32_(tf32) {
    size_t next = 0;
    for (auto& in : g.inputs) {
      const auto at = static_cast<size_t>(in.value->id);
      if (in.kind == graph::InputKind::Random)
        random_[at] = true;
      else
        values_[at] = in.kind == graph::InputKind::User ? inputs[next++] : in.data;
    }
  }

  // got: the results of all operations, in their order.
  BisectReport compare_all(const std::vector<Tensor>& got) {
    size_t next = 0;
    for (auto& n : g_.nodes) {
      const std::vector<Tensor> own(got.begin() + static_cast<long>(next), got.begin() + static_cast<long>(next + n->results.size()));
      next += n->results.size();
      if (can_be_compared(*n))
        compare(*n, own);
      else
        ++report_.left_out;
      for (size_t r = 0; r < own.size(); ++r) values_[static_cast<size_t>(n->results[r]->id)] = own[r];
    }
    return std::move(report_);
  }

 private:
  bool can_be_compared(const Node& n) const {
    bool draws = n.op->random;
    graph::for_each_operand(n, [&](const Value* v) { draws = draws || random_[static_cast<size_t>(v->id)]; });
    return !draws && n.op->name.find("empty") == std::string::npos;
  }

  void compare(const Node& n, const std::vector<Tensor>& got) {
    std::vector<Tensor> operands;
    graph::for_each_operand(n, [&](const Value* v) { operands.push_back(values_[static_cast<size_t>(v->id)]); });
    const auto same = [](const Tensor& t) { return t; };
    std::vector<Tensor> want = reference(n, same);
    for (auto& t : want) t = t.contiguous();
    ++report_.compared;
    const std::string why = tune::compare(got, want, contracts_of(operands, want, tf32_));
    if (why.empty() || is_ill_conditioned(got, want, reference(n, nudged))) return;
    report_.beyond.push_back({n.results.empty() ? "" : n.results[0]->name, n.op->name, n.where, why});
  }

  // Of the node's operands as `given` makes them.
  std::vector<Tensor> reference(const Node& n, Tensor (*given)(const Tensor&)) {
    CallArgs args;
    for (auto& a : n.args)
      args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? given(values_[static_cast<size_t>(v->id)]) : Tensor(); }));
    return graph::interpret_node(n, std::move(args), symbols_);
  }

  const Graph& g_;
  graph::BoundSymbols symbols_;
  std::vector<Tensor> values_;
  std::vector<bool> random_;
  const bool tf32_;
  BisectReport report_;
};

}  // namespace

BisectReport bisect(std::unique_ptr<Graph> g, std::span<const Tensor> inputs, const RunGraph& run, bool tf32) {
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
  Bisecting work(*g, inputs, tf32);
  const std::vector<Tensor> got = run(exposed(*g), inputs);
  size_t expected = 0;
  for (auto& n : g->nodes) expected += n->results.size();
  TOROID_CHECK(got.size() == expected, "the program gave {} results of its operations, {} were expected", got.size(), expected);
  return work.compare_all(got);
}

}  // namespace toroid::compiler
