#include "toroid/custom_gradient.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "autograd/rule.h"
#include "autograd/rules/forms.h"
#include "base/check.h"
#include "ops/custom.h"
#include "ops/custom_marks.h"

namespace toroid {
namespace autograd {
namespace {

struct CustomGradients {
  std::shared_mutex mutex;
  std::unordered_map<const ops::Op*, CustomGradient> by_row;
};
CustomGradients& registered() {
  static CustomGradients& r = *new CustomGradients;  // never destroyed: threads may outlive main
  return r;
}

CustomArg public_argument(const Arg<Tensor>& a) {
  if (auto* t = std::get_if<Tensor>(&a)) return *t;
  if (auto* list = std::get_if<std::vector<Tensor>>(&a)) return *list;
  if (auto* e = std::get_if<Expr>(&a)) return SymInt(*e);
  if (auto* d = std::get_if<double>(&a)) return *d;
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* s = std::get_if<std::string>(&a)) return *s;
  return std::vector<Tensor>{};  // an empty list
}

}  // namespace

bool has_custom_gradient(const ops::Op& op) { return ops::has_own_gradient(op); }

std::vector<Tensor> custom_gradients(const ops::Op& op, std::span<const Arg<Tensor>> args, std::vector<Tensor> results,
                                     std::vector<Tensor> cotangents) {
  CustomGradientCall call{{}, {}, std::move(results), std::move(cotangents)};
  for (auto& a : args) {
    call.arguments.push_back(public_argument(a));
    if (auto* t = std::get_if<Tensor>(&a)) call.inputs.push_back(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&a)) call.inputs.insert(call.inputs.end(), list->begin(), list->end());
  }
  CustomGradient gradient;
  {
    std::shared_lock lock(registered().mutex);
    gradient = registered().by_row.at(&op);
  }
  auto out = gradient(call);
  TOROID_USER_CHECK(out.size() == call.inputs.size(), "the gradient of {} returns {} tensors; expected one for each of its {} inputs",
                    op.name, out.size(), call.inputs.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].defined()) continue;
    const auto type = [](const Tensor& t) { return to_string(TensorType{t.dtype(), ops::forms::sizes_of(t), {}}); };
    TOROID_USER_CHECK(type(out[i]) == type(call.inputs[i]), "the gradient of {} returns {} for its input {}, which is {}", op.name,
                      type(out[i]), i, type(call.inputs[i]));
  }
  return out;
}

void custom_rule(GradientCall& c) {
  std::vector<Tensor> cotangents;
  for (size_t r = 0; r < c.results.size(); ++r) cotangents.push_back(c.cotangent(r));
  const auto gradients = custom_gradients(c.op(), c.args(), c.results, std::move(cotangents));
  size_t next = 0;
  for (size_t i = 0; i < c.args().size(); ++i)
    for (size_t k = 0; k < c.wanted[i].size(); ++k, ++next)
      if (gradients[next].defined()) c.set(c.op().schema.params[i].name, gradients[next], k);
}

}  // namespace autograd

void register_custom_op_gradient(const CustomOpBase& op, CustomGradient gradient) {
  TOROID_USER_CHECK(gradient, "{}: the gradient is empty", op.name());
  TOROID_USER_CHECK(!ops::writes_arguments(op.op()), "{} writes to its arguments; only operations that do not have gradients of their own",
                    op.name());
  auto& r = autograd::registered();
  std::unique_lock lock(r.mutex);
  TOROID_USER_CHECK(r.by_row.emplace(&op.op(), std::move(gradient)).second, "{} has a gradient already", op.name());
  ops::mark_own_gradient(op.op());
}

}  // namespace toroid
