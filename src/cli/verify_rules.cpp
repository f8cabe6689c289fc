#include "cli/verify_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/scalar.h"
#include "cli/factor_checks.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "tensor/tensor_impl.h"

namespace toroid::cli {
namespace {

std::string_view base_name(const graph::Node& n) {
  std::string_view name = n.op->name;
  return name.substr(0, name.find('.'));
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Their results hold whatever the memory held.
constexpr std::array<std::string_view, 7> kUninitialised = {"empty",     "empty_like",        "empty_permuted", "empty_strided",
                                                            "new_empty", "new_empty_strided", "resize"};
// Take only the type of their first operand.
constexpr std::array<std::string_view, 9> kIgnoresContents = {"copy",      "fill",     "zero",     "full_like", "zeros_like",
                                                              "ones_like", "new_full", "new_ones", "new_zeros"};

// The values that a random operation gives.
struct Support {
  std::string_view op;
  double lo, hi;
  bool whole;
};
constexpr Support kSupports[] = {
    {"rand", 0, 1, false},
    {"rand_like", 0, 1, false},
    {"bernoulli", 0, 1, true},
    {"exponential", 0, HUGE_VAL, false},
    {"geometric", 1, HUGE_VAL, true},
    {"log_normal", 0, HUGE_VAL, false},
    {"multinomial", 0, HUGE_VAL, true},
};

// A dropout that is switched off is no random operation.
bool is_random(const graph::Node& n) {
  if (!n.op->random) return false;
  for (std::string_view name : {"train", "training"}) {
    int at = n.op->schema.find(name);
    if (at < 0) continue;
    auto* flag = std::get_if<bool>(&n.args[static_cast<size_t>(at)]);
    if (flag && !*flag) return false;
  }
  return true;
}

// Transposes, other views, and copies.
bool only_moves(const graph::Node& n) {
  static constexpr std::array<std::string_view, 4> kCopies = {"clone", "contiguous", "_conj", "_conj_physical"};
  return !n.args.empty() && std::holds_alternative<graph::Value*>(n.args[0]) && (n.op->index_map || is_one_of(base_name(n), kCopies));
}

std::optional<std::string> check_support(const Tensor& t, std::string_view op) {
  if (is_complex(t.dtype())) return std::nullopt;
  for (auto& s : kSupports) {
    if (s.op != op) continue;
    for (double v : t.to_vector())
      if (!(v >= s.lo && v <= s.hi) || (s.whole && v != std::floor(v))) return fmt::format("{} is no value that {} gives", v, op);
  }
  return std::nullopt;
}

}  // namespace

void VerifyRules::make() const {
  if (graph_) return;
  const auto g = make_();
  graph_ = graph::functionalize(*g);
  if (!graph_) graph_ = graph::clone(*g);
  std::set<const graph::Value*> random;
  for (auto& n : graph_->nodes) {
    bool taints = is_random(*n) || is_one_of(base_name(*n), kUninitialised);
    const graph::Value* ignored = nullptr;
    if (is_one_of(base_name(*n), kIgnoresContents) && !n->args.empty())
      if (auto* v = std::get_if<graph::Value*>(&n->args[0])) ignored = *v;
    graph::for_each_operand(*n, [&](const graph::Value* v) { taints = taints || (v != ignored && random.count(v)); });
    if (taints) random.insert(n->results.begin(), n->results.end());
  }
  for (auto& o : graph_->outputs) {
    if (o.mutates >= 0) continue;
    OutputRule rule;
    if (o.value && o.value->producer) {
      const graph::Value* v = o.value;
      if (!random.count(v))
        while (only_moves(*v->producer) && std::get<graph::Value*>(v->producer->args[0])->producer)
          v = std::get<graph::Value*>(v->producer->args[0]);
      rule.producer = v->producer;
      rule.result = v->result;
      rule.direct = v == o.value;
      if (random.count(v))
        rule.kind = OutputKind::Random;
      else if (factor_check(rule.producer->op->name))
        rule.kind = OutputKind::Factor;
    }
    rules_.push_back(rule);
  }
}

std::optional<std::string> VerifyRules::check(size_t index, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                              const Tensor& expected, const Tolerance& tolerance) const {
  if (index >= got.size()) return fmt::format("there is no such output; the model has {}", got.size());
  const auto by_value = compare_tensors(got[index], expected, tolerance);
  if (!by_value) return std::nullopt;
  make();
  if (index >= rules_.size() || rules_[index].kind == OutputKind::Value) return by_value;
  const OutputRule& rule = rules_[index];
  if (auto type = compare_types(got[index], expected)) return type;
  if (rule.kind == OutputKind::Random) return check_support(got[index], base_name(*rule.producer));
  auto by_product = check_product(index, inputs, got, tolerance);
  return by_product ? std::optional(*by_value + "; " + *by_product) : std::nullopt;
}

std::optional<std::string> VerifyRules::check_product(size_t index, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                                      const Tolerance& tolerance) const {
  const OutputRule& rule = rules_[index];
  const FactorCheck& check = *factor_check(rule.producer->op->name);
  if (!is_one_of_results(check, rule.result)) return "this result is unique";
  // The factors that the program does not return, and the matrix itself, from the interpreter.
  auto probe = graph::clone(*graph_);
  size_t at = 0;
  while (graph_->nodes[at].get() != rule.producer) ++at;
  const graph::Node& node = *probe->nodes[at];
  std::vector<graph::Output> outputs = {{std::get<graph::Value*>(node.args[0]), {}, -1}};
  for (auto* r : node.results) outputs.push_back({r, {}, -1});
  size_t factors = node.results.size();
  for (auto& o : probe->outputs)
    if (o.mutates < 0) outputs.push_back(o);
  probe->outputs = std::move(outputs);
  auto values = graph::interpret(*probe, inputs);
  if (!rule.direct)
    if (auto differs = compare_tensors(got[index], values[1 + factors + index], tolerance))
      return "the interpreter's result differs, too: " + *differs;
  for (size_t i = 0; i < rules_.size() && i < got.size(); ++i)
    if (rules_[i].producer == rule.producer && rules_[i].direct && got[i].defined()) values[1 + rules_[i].result] = got[i];
  return check.run(values[0], std::span(values).subspan(1, factors));
}

}  // namespace toroid::cli
