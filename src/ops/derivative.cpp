#include "ops/derivative.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/gradient_bugs.h"
#include "ops/rows/forms.h"
#include "ops/scalar_program.h"
#include "ops/slopes.h"
#include "ops/table.h"

namespace toroid::ops {
namespace {

using TypeArg = Arg<const TensorType*>;

bool is_absent(const TypeArg& a) {
  auto* t = std::get_if<const TensorType*>(&a);
  return std::holds_alternative<std::monostate>(a) || (t && !*t);
}

// The parameters grad and result come before those of the primal row.
constexpr size_t kBefore = 2;

struct Derivation {
  ScalarProgram program;
  size_t inputs = 1;  // grad, and the operands of the primal row that are given
  S result;           // what the primal row computes
  S value;            // grad times the derivative; without builder: 0
};

// args: those of the primal row; what a tensor parameter that is not optional lacks stands for nothing that matters.
void derive(Derivation& out, const Op& op, size_t param, std::span<const TypeArg> args, DType compute) {
  FormulaCall f(op, args);
  f.compute = compute;
  S by;
  const S grad = out.program.input(0, compute);
  uint32_t bit = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = op.schema.params[i];
    if (p.type != ParamType::Tensor) continue;
    const bool condition = op.bool_operands & bit;
    bit <<= 1;
    if (p.optional && is_absent(args[i])) continue;
    f.operands.push_back(out.program.input(static_cast<int64_t>(out.inputs++), condition ? DType::Bool : compute));
    if (i == param) by = f.operands.back();
  }
  out.result = op.formula(f);
  if (op.primal && param == 0 && !planted(GradientBug::CotangentOfZero)) {
    // A derivative is linear in its first operand: by that, it is itself, also where that is 0 and hides an infinite slope.
    f.operands[0] = cast(grad, compute);
    out.value = op.formula(f);
    return;
  }
  const Slope slope = find_slope(op);
  const S derivative = slope ? slope(f, op.schema.params[param].name, out.result) : out.program.derivative(out.result, by);
  if (!derivative.builder) return;
  const S g = cast(grad, derivative.dtype), value = out.program.times(g, derivative);
  // What has no part in the end has none here, also where the derivative is infinite: a value that was not chosen.
  out.value = value.builder && !planted(GradientBug::ChosenAlone) && out.program.may_be_singular(derivative)
                  ? select(g == 0.0, lit(g, 0), value)
                  : value;
}

S derived_formula(const FormulaCall& f) {
  const Op& op = *f.op().primal;
  size_t next = 0;
  std::vector<S> inputs{f.operands.at(next++)};
  const bool has_result = !is_absent(f.args()[1]);
  const S result = has_result ? f.operands.at(next++) : S{};
  std::vector<TypeArg> args(f.args().begin() + kBefore, f.args().end());
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = op.schema.params[i];
    if (p.type != ParamType::Tensor) continue;
    if (!is_absent(args[i])) {
      inputs.push_back(f.operands.at(next++));
    } else if (!p.optional) {
      inputs.emplace_back();
      args[i] = f.args()[0];  // grad's type for one that the derivative does not depend on
    }
  }
  Derivation d;
  derive(d, op, f.op().primal_param, args, f.compute);
  TOROID_CHECK(d.value.builder, "{} is 0", f.op().name);
  return d.program.replay(d.value, *f.operands[0].builder, inputs, has_result ? d.result.id : -1, result);
}

void derived_meta(MetaCall& c) {
  const TensorType& grad = *std::get<const TensorType*>(c.args()[0]);
  c.result(grad.dtype, grad.sizes);
}

Op make_row(const Op& op, size_t param) {
  Op row;
  row.primal = &op;
  row.primal_param = param;
  row.name = row.schema.name = std::string(kDerivativeSpace) + op.name + "." + op.schema.params[param].name;
  row.schema.returns = op.schema.returns;
  for (const char* name : {"grad", "result"}) {
    Param p;
    p.name = name;
    while (op.schema.find(p.name) >= 0) p.name += "_";
    p.optional = row.schema.params.size() == 1;
    row.schema.params.push_back(p);
  }
  for (Param p : op.schema.params) {
    p.optional = p.optional || p.type == ParamType::Tensor;
    p.keyword_only = p.has_default = p.alias = p.mutated = false;
    row.schema.params.push_back(p);
  }
  row.meta = derived_meta;
  row.formula = derived_formula;
  row.promote = Promote::KeepFirst;
  row.bool_operands = op.bool_operands << kBefore;
  row.domain_lo = op.domain_lo;
  row.domain_hi = op.domain_hi;
  return row;
}

}  // namespace

const Op& derivative_row(const Op& op, size_t param) {
  TOROID_CHECK(op.formula && param < op.schema.params.size() && op.schema.params[param].type == ParamType::Tensor,
               "a derivative of {} by parameter {}", op.name, param);
  static std::mutex mutex;
  static auto& rows = *new std::map<std::pair<const Op*, size_t>, Op>;  // never destroyed: graphs point to rows
  std::lock_guard lock(mutex);
  const auto it = rows.find({&op, param});
  return it != rows.end() ? it->second : rows.emplace(std::pair(&op, param), make_row(op, param)).first->second;
}

const Op* find_derivative(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (!name.starts_with(kDerivativeSpace) || dot < kDerivativeSpace.size()) return nullptr;
  const Op* op = table().find(name.substr(kDerivativeSpace.size(), dot - kDerivativeSpace.size()));
  const int param = op && op->formula ? op->schema.find(name.substr(dot + 1)) : -1;
  if (param < 0 || op->schema.params[static_cast<size_t>(param)].type != ParamType::Tensor) return nullptr;
  return &derivative_row(*op, static_cast<size_t>(param));
}

std::optional<CallArgs> derivative_arguments(const CallReader& c, size_t param, const Tensor& result, const Tensor& grad) {
  const Op& op = c.op();
  std::deque<TensorType> held;
  std::vector<TypeArg> types;
  for (auto& a : c.args())
    types.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      return t.defined() ? &held.emplace_back(TensorType{t.dtype(), forms::sizes_of(t), {}}) : nullptr;
    }));
  const DType compute = compute_type(result.dtype());
  Derivation d;
  derive(d, op, param, types, compute);
  if (!d.value.builder) return std::nullopt;
  std::vector<bool> needed = d.program.needs(d.value, d.inputs);
  bool takes_result = false;
  if (d.result.dtype == compute) {
    const std::vector<bool> beside = d.program.needs(d.value, d.inputs, d.result.id);
    takes_result = beside.back() && std::count(beside.begin(), beside.end() - 1, true) < std::count(needed.begin(), needed.end() - 1, true);
    if (takes_result) needed = beside;
  }
  CallArgs out{grad, takes_result ? Arg<Tensor>(result) : std::monostate{}};
  size_t input = 1;
  for (size_t i = 0; i < types.size(); ++i) {
    const Param& p = op.schema.params[i];
    const bool is_operand = p.type == ParamType::Tensor && !(p.optional && is_absent(types[i]));
    const bool is_needless = is_operand && !needed[input] && !p.optional && std::holds_alternative<Tensor>(c.args()[i]);
    input += is_operand;
    out.push_back(is_needless || is_absent(types[i]) ? Arg<Tensor>() : c.args()[i]);
  }
  return out;
}

}  // namespace toroid::ops
