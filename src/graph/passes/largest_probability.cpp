#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// Arguments of `amax` and `sum.dim_IntList`, and of `sub.Tensor`.
constexpr size_t kDims = 1, kKeep = 2, kAlpha = 2;

// What makes the operand number i of n, where it is the operation `name`.
const Node* maker(const Node* n, size_t i, std::string_view name) {
  const auto* v = n ? std::get_if<Value*>(&n->args[i]) : nullptr;
  const Node* made = v && *v ? (*v)->producer : nullptr;
  return made && made->op->name == name ? made : nullptr;
}

// The dimensions that a reduction folds, in order; all where it names none, and none of a number, whose only "dimension" is no size.
std::vector<int64_t> reduced(const Node& n) {
  const auto rank = static_cast<int64_t>(std::get<Value*>(n.args[0])->type.sizes.size());
  std::vector<int64_t> out;
  if (rank == 0) return out;
  if (auto* list = std::get_if<std::vector<Expr>>(&n.args[kDims]))
    for (auto& d : *list) out.push_back(ops::normal_dim(*n.op, d.constant(), rank));
  for (int64_t d = 0; out.empty() && d < rank; ++d) out.push_back(d);
  std::sort(out.begin(), out.end());
  return out;
}

bool keeps(const Node& n) {
  auto* keep = std::get_if<bool>(&n.args[kKeep]);
  return keep && *keep;
}

// The sum of a softmax whose largest quotient n is: exp(x - max) / sum of them, along the same dimensions.
const Node* sum_below(const Node& n) {
  const Node *quotient = n.op->name == "amax" ? maker(&n, 0, "div.Tensor") : nullptr, *exp = maker(quotient, 0, "exp"),
             *sum = maker(quotient, 1, "sum.dim_IntList"), *shifted = maker(exp, 0, "sub.Tensor"), *max = maker(shifted, 1, "amax");
  if (!sum || !max || sum->args[0] != quotient->args[0] || max->args[0] != shifted->args[0]) return nullptr;
  auto* alpha = std::get_if<Expr>(&shifted->args[kAlpha]);
  if (!alpha || *alpha != Expr(1) || !keeps(*sum) || !keeps(*max)) return nullptr;
  const DType dtype = n.results[0]->type.dtype;
  if (!is_float(dtype) || sum->results[0]->type.dtype != dtype || exp->results[0]->type.dtype != dtype) return nullptr;
  const auto dims = reduced(n);
  if (reduced(*sum) != dims || reduced(*max) != dims) return nullptr;
  // Without elements amax refuses, or gives the lowest number.
  for (const int64_t d : dims) {
    const Expr& size = quotient->results[0]->type.sizes[static_cast<size_t>(d)];
    if (!sym::known({sym::Rel::Ge, size, 1}).value_or(false)) return nullptr;
  }
  return sum;
}

// Of each largest quotient that is replaced, the sum. One stays where others may compare the quotients with it, as gradients do: targets
// divide by approximations, which need not give the same for 1 / sum twice. Equal quotients must be one value by then (cse).
std::unordered_map<const Node*, const Node*> find_sums(const Graph& g) {
  std::unordered_map<const Value*, size_t> compared;
  for (auto& n : g.nodes)
    if (n->op->name != "argmax" && n->op->name != "argmin") for_each_operand(*n, [&](const Value* used) { ++compared[used]; });
  for (auto& o : g.outputs)
    if (o.value) ++compared[o.value];
  std::unordered_map<const Node*, const Node*> out;
  for (auto& n : g.nodes)
    if (const Node* sum = sum_below(*n); sum && compared[std::get<Value*>(n->args[0])] == 1) out.emplace(n.get(), sum);
  return out;
}

}  // namespace

// The largest element x gives exp(x - x) = 1, which no other exponential exceeds, and to divide by the sum keeps their order.
std::unique_ptr<Graph> largest_probability(const Graph& g) {
  const auto sums = find_sums(g);
  if (sums.empty()) return nullptr;
  Rebuild out(g);
  for (auto& n : g.nodes) {
    const auto found = sums.find(n.get());
    if (found == sums.end()) {
      out.copy(*n);
      continue;
    }
    const Node* sum = found->second;
    out.replace(*n, [&] {
      const Tensor largest = ops::call1("reciprocal", {out.at(sum->results[0])});
      if (keeps(*n)) return std::vector<Tensor>{largest};
      const auto dims = reduced(*n);
      return std::vector<Tensor>{ops::call1("squeeze.dims", {largest, std::vector<Expr>(dims.begin(), dims.end())})};
    });
    if (log_enabled(Artifact::Graph))
      log(Artifact::Graph, fmt::format("largest_probability: {} is 1 / {}", n->results[0]->name, sum->results[0]->name));
  }
  return out.finish();
}

}  // namespace toroid::graph
