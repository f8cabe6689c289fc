// What a gradient rule sees of a call, and what it gives: the gradients of the call's operands.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op.h"

namespace toroid::autograd {

// A call in reverse. `results` is what it returned, `cotangents` what a change of each result changes (dL/dresult); one that is undefined
// is 0. A rule sets the gradients that are wanted; one that it leaves out is 0.
struct GradientCall : ops::CallReader {
  GradientCall(const ops::Op& op, std::span<const Arg<Tensor>> args) : ArgReader(op, args), wanted(args.size()), gradients(args.size()) {}

  std::vector<Tensor> results, cotangents;
  // By parameter, and by tensor of a parameter that is a list.
  std::vector<std::vector<bool>> wanted;
  std::vector<std::vector<Tensor>> gradients;

  bool wants(std::string_view param, size_t item = 0) const;
  // The gradient of the operand: summed over the dimensions that the call broadcast, and cast to the operand's dtype.
  void set(std::string_view param, const Tensor& gradient, size_t item = 0);
  // The cotangent of result r; zeros where it is undefined.
  Tensor cotangent(size_t r = 0) const;
};

// Rules are made of operations, so that they can be traced, and differentiated again.
using Rule = void (*)(GradientCall&);

// The rule for an operation: its own one, or that of its kind (pointwise rows, views). nullptr: it has none, and is differentiated as what
// it is made of where it is a composite.
Rule find_rule(const ops::Op& op);

// What a call is recorded as before it is reversed: an operation whose further results its gradient reads. The call's own results; none
// where it is recorded as itself. The GradientCall has no results yet.
using Extension = std::vector<Tensor> (*)(const GradientCall&);
// nullptr: the operation is always recorded as itself.
Extension find_extension(const ops::Op& op);

// Where a name has a rule.
struct RuleRow {
  const char* name;
  Rule rule;
  Extension extension = nullptr;
};
std::span<const RuleRow> reduction_rules();
std::span<const RuleRow> scan_rules();
std::span<const RuleRow> product_rules();
std::span<const RuleRow> index_rules();
std::span<const RuleRow> bag_rules();
std::span<const RuleRow> view_rules();
std::span<const RuleRow> pool_rules();
std::span<const RuleRow> loss_rules();
std::span<const RuleRow> attention_rules();  // of calls that draw nothing
std::span<const RuleRow> linalg_rules();
std::span<const RuleRow> complex_rules();
// All of them.
std::vector<std::span<const RuleRow>> rule_families();
// A custom operation, by the gradient that was registered for it (toroid/custom_gradient.h).
void custom_rule(GradientCall& c);
bool has_custom_gradient(const ops::Op& op);
// Its gradients, one for each tensor among the arguments; undefined: 0. UserError where they are others.
std::vector<Tensor> custom_gradients(const ops::Op& op, std::span<const Arg<Tensor>> args, std::vector<Tensor> results,
                                     std::vector<Tensor> cotangents);
// A pointwise row, by the derivatives of its formula.
void pointwise_rule(GradientCall& c);
// The same on complex numbers; false where there is no rule.
bool complex_pointwise_rule(GradientCall& c);
// A view, by where its elements come from.
void view_rule(GradientCall& c);
// Whether an operation reads the sizes of its operand and no element: zeros_like, rand_like.
inline bool reads_sizes_alone(const ops::Op& op) { return op.name.find("_like") != std::string::npos; }
// Of operations that gradients do not follow, such as detach: their results are numbers like any other.
void no_gradient(GradientCall& c);

}  // namespace toroid::autograd
