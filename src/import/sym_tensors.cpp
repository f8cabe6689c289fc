#include "import/sym_tensors.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::import {
namespace {

struct Function {
  std::string_view head, op;
  size_t operands;  // 0: two or more, joined from the left
};

constexpr Function kFunctions[] = {
    {"Add", "add.Tensor", 0},
    {"Mul", "mul.Tensor", 0},
    {"Min", "minimum", 0},
    {"Max", "maximum", 0},
    {"And", "logical_and", 0},
    {"Or", "logical_or", 0},
    {"Not", "logical_not", 1},
    {"Pow", "pow.Tensor_Tensor", 2},
    {"FloatPow", "pow.Tensor_Tensor", 2},
    {"PowByNatural", "pow.Tensor_Tensor", 2},
    {"IntTrueDiv", "div.Tensor", 2},
    {"FloatTrueDiv", "div.Tensor", 2},
    {"TruncToFloat", "trunc", 1},
    {"TruncToInt", "trunc", 1},
    {"FloorToInt", "floor", 1},
    {"CeilToInt", "ceil", 1},
    {"RoundToInt", "round", 1},
    {"OpaqueUnaryFn_sqrt", "sqrt", 1},
    {"OpaqueUnaryFn_exp", "exp", 1},
    {"OpaqueUnaryFn_log", "log", 1},
    {"OpaqueUnaryFn_sin", "sin", 1},
    {"OpaqueUnaryFn_cos", "cos", 1},
    {"OpaqueUnaryFn_tanh", "tanh", 1},
    {"Equality", "eq.Tensor", 2},
    {"Eq", "eq.Tensor", 2},
    {"Unequality", "ne.Tensor", 2},
    {"Ne", "ne.Tensor", 2},
    {"LessThan", "le.Tensor", 2},
    {"GreaterThan", "ge.Tensor", 2},
    {"StrictLessThan", "lt.Tensor", 2},
    {"StrictGreaterThan", "gt.Tensor", 2},
};

Tensor constant(Arg<Tensor> number, DType dtype) { return ops::call1("scalar_tensor", {std::move(number), dtype}); }

// Computed with whole numbers only.
bool is_whole(const SymAst& ast) {
  static constexpr std::string_view kHeads[] = {"Add",      "Mul",      "Min",     "Max", "Pow",       "PowByNatural",
                                                "FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod", "ModularIndexing",
                                                "LShift",   "RShift"};
  if (ast.kind == SymAstKind::Integer || ast.kind == SymAstKind::Symbol) return true;
  if (ast.kind != SymAstKind::Call || std::find(std::begin(kHeads), std::end(kHeads), ast.name) == std::end(kHeads)) return false;
  return std::all_of(ast.args.begin(), ast.args.end(), is_whole);
}

}  // namespace

Tensor number_tensor(const SymAst& ast, const SymValues& symbols) {
  if (ast.kind == SymAstKind::Bool) return constant(static_cast<bool>(ast.value), DType::Bool);
  if (auto v = fold(ast)) return constant(*v, DType::F64);
  if (is_whole(ast)) return constant(symbols.expr(ast), DType::F64);
  if ((ast.is_call("ToFloat") || ast.is_call("Identity")) && ast.args.size() == 1) return number_tensor(ast.args[0], symbols);
  for (auto& f : kFunctions) {
    if (!ast.is_call(f.head)) continue;
    TOROID_USER_CHECK(f.operands ? ast.args.size() == f.operands : !ast.args.empty(), "{} has {} operands: {}", ast.name, ast.args.size(),
                      to_string(ast));
    Tensor out = number_tensor(ast.args[0], symbols);
    if (f.operands == 1) return ops::call1(f.op, {out});
    for (size_t i = 1; i < ast.args.size(); ++i) out = ops::call1(f.op, {out, number_tensor(ast.args[i], symbols)});
    return out;
  }
  fail<UserError>("the number {} is computed from sizes by \"{}\", which Toroid does not have", to_string(ast), ast.name);
}

}  // namespace toroid::import
