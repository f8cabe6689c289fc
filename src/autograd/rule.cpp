#include "autograd/rule.h"

#include <unordered_map>

#include "autograd/rules/forms.h"
#include "base/check.h"
#include "base/gradient_bugs.h"
#include "ops/derivative.h"

namespace toroid::autograd {

using namespace ops::forms;

namespace {

size_t index_of(const GradientCall& c, std::string_view param) {
  const int i = c.op().schema.find(param);
  TOROID_CHECK(i >= 0, "{} has no parameter {}", c.op().name, param);
  return static_cast<size_t>(i);
}

}  // namespace

bool GradientCall::wants(std::string_view param, size_t item) const {
  const auto& w = wanted[index_of(*this, param)];
  return item < w.size() && w[item];
}

void GradientCall::set(std::string_view param, const Tensor& gradient, size_t item) {
  const size_t i = index_of(*this, param);
  if (!wants(param, item)) return;
  const auto* list = std::get_if<std::vector<Tensor>>(&args()[i]);
  const Tensor& operand = list ? (*list)[item] : std::get<Tensor>(args()[i]);
  gradients[i].resize(wanted[i].size());
  const Tensor summed = sum_to(gradient, sizes_of(operand));
  gradients[i][item] = planted(GradientBug::DtypeNotCast) ? summed : cast_to(summed, operand.dtype());
}

Tensor GradientCall::cotangent(size_t r) const {
  if (cotangents[r].defined()) return cotangents[r];
  return zeros_like(results[r]);
}

void pointwise_rule(GradientCall& c) {
  if (!c.cotangents[0].defined()) return;
  bool complex = is_complex(c.results[0].dtype());
  for (auto& a : c.args())
    if (auto* t = std::get_if<Tensor>(&a)) complex = complex || (t->defined() && is_complex(t->dtype()));
  if (complex) {
    TOROID_USER_CHECK(complex_pointwise_rule(c), "{}: gradients of this operation on complex numbers are not supported", c.op().name);
    return;
  }
  for (size_t i = 0; i < c.args().size(); ++i) {
    if (c.wanted[i].empty() || !c.wanted[i][0]) continue;
    if (auto args = ops::derivative_arguments(c, i, c.results[0], c.cotangents[0]))
      c.set(c.op().schema.params[i].name, ops::call(ops::derivative_row(c.op(), i), std::move(*args))[0]);
  }
}

std::vector<std::span<const RuleRow>> rule_families() {
  return {reduction_rules(), scan_rules(), product_rules(),   index_rules(),  bag_rules(),    view_rules(),
          pool_rules(),      loss_rules(), attention_rules(), linalg_rules(), complex_rules()};
}

namespace {

// nullptr where the name has none.
const RuleRow* find_row(const std::string& name) {
  static const auto& rows = *[] {
    auto& map = *new std::unordered_map<std::string_view, const RuleRow*>;
    for (auto family : rule_families())
      for (auto& row : family) TOROID_CHECK(map.emplace(row.name, &row).second, "two gradient rules for {}", row.name);
    return &map;
  }();
  const auto it = rows.find(name);
  return it == rows.end() ? nullptr : it->second;
}

}  // namespace

Rule find_rule(const ops::Op& op) {
  if (has_custom_gradient(op)) return custom_rule;
  if (const RuleRow* row = find_row(op.name)) return row->rule;
  return op.formula ? pointwise_rule : op.index_map ? view_rule : nullptr;
}

Extension find_extension(const ops::Op& op) {
  const RuleRow* row = find_row(op.name);
  return row ? row->extension : nullptr;
}

}  // namespace toroid::autograd
