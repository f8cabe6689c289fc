// The order in which formulas emit their steps is theirs, not the compiler's: a step stands before what first needs it, and what its first
// operand is made of before what its second one is made of.
#include "ops/formula_steps.h"

#include <gtest/gtest.h>

#include "ops/derivative.h"
#include "ops/table.h"
#include "toroid/error.h"

namespace toroid::ops {
namespace {

using TypeArg = Arg<const TensorType*>;

class Emitted : public ScalarBuilder {
 public:
  int emit(const ScalarNode& node) override {
    nodes.push_back(node);
    return static_cast<int>(nodes.size()) - 1;
  }
  std::vector<ScalarNode> nodes;
};

// The steps that `id` is made of in the order in which a reader comes across them, from the first operand on.
void read(const Emitted& steps, int id, std::vector<int>& met) {
  const ScalarNode& n = steps.nodes[static_cast<size_t>(id)];
  if (n.op == ScalarOp::Input || std::find(met.begin(), met.end(), id) != met.end()) return;
  for (int k = 0; k < arity_of(n.op); ++k) read(steps, n.args[k], met);
  met.push_back(id);
}

TypeArg argument_of(const Param& p, const TensorType& type) {
  if (p.type == ParamType::Tensor) return &type;
  if (p.has_default || p.optional) return map_arg<const TensorType*>(p.default_value, [](const Tensor&) { return nullptr; });
  switch (p.type) {
    case ParamType::Int:
      return Expr(2);
    case ParamType::Str:
      return std::string("none");
    case ParamType::DType:
      return DType::F32;
    case ParamType::Bool:
      return true;
    default:
      return 2.0;
  }
}

// What the row emits; nothing where it refuses floats.
std::optional<Emitted> emitted(const Op& op, S* result) {
  const TensorType type{DType::F32, {}, {}};
  std::vector<TypeArg> args;
  for (const Param& p : op.schema.params) args.push_back(argument_of(p, type));
  FormulaCall f(op, args);
  Emitted steps;
  uint32_t bit = 1;
  for (const Param& p : op.schema.params) {
    if (p.type != ParamType::Tensor) continue;
    const DType dtype = op.bool_operands & bit || op.promote == Promote::Logical ? DType::Bool : DType::F32;
    bit <<= 1;
    f.operands.push_back({&steps, steps.emit({.op = ScalarOp::Input, .dtype = dtype, .value = {}}), dtype});
  }
  if (op.promote == Promote::Logical) f.compute = DType::Bool;
  try {
    *result = emit_formula(f);
  } catch (const UserError&) {
    return std::nullopt;
  }
  return steps;
}

// Whether the row was looked at.
bool expect_order(const Op& op) {
  S result;
  std::optional<Emitted> steps = emitted(op, &result);
  if (!steps) return false;
  std::vector<int> met, order;
  read(*steps, result.id, met);
  for (size_t i = 0; i < steps->nodes.size(); ++i)
    if (steps->nodes[i].op != ScalarOp::Input) order.push_back(static_cast<int>(i));
  EXPECT_EQ(met, order) << op.name;
  return true;
}

TEST(FormulaSteps, AreEmittedAsTheResultNeedsThem) {
  int rows = 0, derivatives = 0;
  for (const Op& op : table().rows()) {
    if (!op.formula || !expect_order(op)) continue;
    ++rows;
    for (size_t i = 0; i < op.schema.params.size(); ++i) {
      if (op.schema.params[i].type != ParamType::Tensor || op.promote == Promote::Logical) continue;
      try {
        derivatives += expect_order(derivative_row(op, i));
      } catch (const Error&) {  // it has none
      }
    }
  }
  EXPECT_GT(rows, 150);
  EXPECT_GT(derivatives, 80);
}

// What the result does not need is left out, and a step that it needs twice is emitted once.
TEST(FormulaSteps, AreThoseOfTheResultAlone) {
  static Op op = get("relu");
  op.formula = [](const FormulaCall& f) {
    exp(f[0]);
    const S twice = f[0] * 3.0;
    return (twice - sin(f[0])) + twice * cos(f[0]);
  };
  S result;
  const Emitted steps = *emitted(op, &result);
  std::vector<ScalarOp> ops;
  for (const ScalarNode& n : steps.nodes) ops.push_back(n.op);
  using enum ScalarOp;
  EXPECT_EQ(ops, (std::vector<ScalarOp>{Input, Const, Mul, Sin, Sub, Cos, Mul, Add}));
  EXPECT_EQ(result.id, 7);
}

}  // namespace
}  // namespace toroid::ops
