#include "codegen/cpu/scans.h"

#include "base/check.h"
#include "base/mutants.h"

namespace toroid::codegen {

using loop::Reduction;

namespace {

bool is_position(Reduction r) { return r == Reduction::ArgMax || r == Reduction::ArgMin; }
std::string type(DType t, bool vector) { return (vector ? "v" : "s") + std::string(name_of(t)); }

}  // namespace

DType ScanWriter::carry_type(Reduction r, DType t) {
  if (is_bool(t)) return DType::I32;
  bool compares = is_position(r) || r == Reduction::Max || r == Reduction::Min;
  return is_float(t) && !compares ? DType::F64 : accumulator_type(t);
}

std::string ScanWriter::combined(Reduction r, DType t, const std::string& earlier, const std::string& later, bool vector) {
  if (r == Reduction::LogSumExp) return fmt::format("{}({}, {})", log_add_exp(t, vector), earlier, later);
  ScalarOp op = r == Reduction::Sum    ? ScalarOp::Add
                : r == Reduction::Prod ? ScalarOp::Mul
                : r == Reduction::Max  ? ScalarOp::Max
                                       : ScalarOp::Min;
  return e_.call(op, t, t, {earlier, later}, vector);
}

// Of equal elements the later one wins.
std::string ScanWriter::earlier_wins(Reduction r, DType t, const std::string& earlier, const std::string& later, bool vector) {
  return fmt::format("{}({}, {})", e_.function(r == Reduction::ArgMax ? "argmax_better" : "argmin_better", t, vector), earlier, later);
}

std::string ScanWriter::log_add_exp(DType t, bool vector) {
  std::string name = "log_add_exp" + std::string(vector ? "_lanes" : "");
  auto call = [&](ScalarOp op, DType result, std::vector<std::string> args) { return e_.call(op, t, result, args, vector); };
  std::string far = call(ScalarOp::Sub, t, {call(ScalarOp::Min, t, {"a", "b"}), "top"});
  std::string sum = call(ScalarOp::Add, t, {"top", call(ScalarOp::Log1p, t, {call(ScalarOp::Exp, t, {far})})});
  e_.add_helper(name, fmt::format("static inline {0} {1}({0} a, {0} b) {{\n  const {0} top = {2};\n  return {3};\n}}\n", type(t, vector),
                                  name, call(ScalarOp::Max, t, {"a", "b"}),
                                  call(ScalarOp::Select, t, {call(ScalarOp::IsInf, DType::Bool, {"top"}), "top", sum})));
  return name;
}

// A function that replaces each lane by the fold of the lanes up to it, in log2(lanes) steps (Hillis and Steele, "Data parallel
// algorithms", 1986).
std::string ScanWriter::prefix(Reduction r, DType t) {
  std::string name = fmt::format("v_scan{}_{}", loop::name_of(r), name_of(t)), v = type(t, true), text;
  std::string start = e_.literal(loop::identity_of(r, t), t, true);
  for (int d = 1; d < e_.lanes(); d *= 2) {
    std::string shift;
    for (int l = 0; l < e_.lanes(); ++l) shift += fmt::format(", {}", l < d ? l : e_.lanes() + l - d);
    text += fmt::format("  y = __builtin_shufflevector({}, x{});\n", start, shift);
    if (!is_position(r)) {
      text += fmt::format("  x = {};\n", combined(r, t, "y", "x", true));
      continue;
    }
    text +=
        fmt::format("  y_at = __builtin_shufflevector((vi64)(0), *at{});\n  earlier = {};\n", shift, earlier_wins(r, t, "y", "x", true));
    text += fmt::format("  x = {}(earlier, y, x), *at = {}(earlier, y_at, *at);\n", e_.function("sel", t, true),
                        e_.function("sel", DType::I64, true));
  }
  e_.add_helper(name, is_position(r)
                          ? fmt::format("static inline {0} {1}({0} x, vi64* at) {{\n  {0} y;\n  vi64 y_at;\n  vbool earlier;\n{2}  "
                                        "return x;\n}}\n",
                                        v, name, text)
                          : fmt::format("static inline {0} {1}({0} x) {{\n  {0} y;\n{2}  return x;\n}}\n", v, name, text));
  return name;
}

void ScanWriter::declare(int k, bool lanes) {
  Reduction r = plan_.step(k).reduction;
  DType t = carry_type(k);
  e_.line(fmt::format("{} a{} = {};", type(t, lanes), k, e_.literal(loop::identity_of(r, t), t, lanes)));
  if (is_position(r))
    e_.line(fmt::format("{} a{}_at = {};", type(DType::I64, lanes), k, e_.literal(Number::of(int64_t{0}), DType::I64, lanes)));
}

void ScanWriter::begin_row(int k, const std::string& bytes, const std::string& count) {
  Reduction r = plan_.step(k).reduction;
  DType t = carry_type(k);
  std::string fill = fmt::format("c{}[l] = {}", k, e_.literal(loop::identity_of(r, t), t, false));
  e_.line(fmt::format("{0}* c{1} = ({0}*)(scratch + {2});", name_of(t), k, bytes));
  if (is_position(r)) {
    e_.line(fmt::format("i64* c{0}_at = (i64*)(scratch + {1}) + {2};", k, bytes, count));
    fill += fmt::format(", c{}_at[l] = 0", k);
  }
  e_.line(fmt::format("for (i64 l = 0; l < {}; ++l) {};", count, fill));
}

void ScanWriter::take(int k, bool lanes, const std::string& at) {
  DType t = carry_type(k);
  e_.line(fmt::format("{0} a{1} = {2}(c{1} + {3});", type(t, lanes), k, e_.function("load", t, lanes), at));
  if (is_position(plan_.step(k).reduction))
    e_.line(fmt::format("{0} a{1}_at = {2}(c{1}_at + {3});", type(DType::I64, lanes), k, e_.function("load", DType::I64, lanes), at));
}

void ScanWriter::keep(int k, bool lanes, const std::string& at) {
  DType t = carry_type(k);
  e_.line(fmt::format("{0}(c{1} + {2}, a{1});", e_.function("store", t, lanes), k, at));
  if (is_position(plan_.step(k).reduction))
    e_.line(fmt::format("{0}(c{1}_at + {2}, a{1}_at);", e_.function("store", DType::I64, lanes), k, at));
}

void ScanWriter::emit(int k, bool lanes, bool along, const Expr& at) {
  const loop::Statement& s = plan_.step(k);
  Reduction r = s.reduction;
  DType t = carry_type(k);
  bool vector = lanes || along;
  std::string carry = fmt::format("a{}", k), value = vector ? e_.vector(s.args[0]) : e_.scalar(s.args[0]);
  std::string here = is_position(r) ? vector ? e_.vector_index(at) : e_.index(at) : "";
  value = e_.convert(plan_.step(s.args[0]).dtype, t, value, vector);
  auto all = [&](DType dtype, const std::string& scalar) { return fmt::format("{}({})", e_.function("splat", dtype, true), scalar); };
  if (along) {
    std::string own = fmt::format("x{}", k);
    if (is_position(r)) {
      e_.line(fmt::format("vi64 {0}_at = {1};", own, here));
      e_.line(fmt::format("v{0} {1} = {2}({3}, &{1}_at);", name_of(t), own, prefix(r, t), value));
      e_.line(fmt::format("const vbool {}_earlier = {};", own, earlier_wins(r, t, all(t, carry), own, true)));
      e_.line(fmt::format("{0} = {1}({0}_earlier, {2}, {0});", own, e_.function("sel", t, true), all(t, carry)));
      e_.line(fmt::format("{0}_at = {1}({0}_earlier, {2}, {0}_at);", own, e_.function("sel", DType::I64, true),
                          all(DType::I64, carry + "_at")));
      e_.line(fmt::format("{0}_at = {1}_at[{2}];", carry, own, e_.lanes() - 1));
    } else {
      e_.line(fmt::format("const v{} {} = {};", name_of(t), own,
                          combined(r, t, all(t, carry), fmt::format("{}({})", prefix(r, t), value), true)));
    }
    if (!mutant(Mutant::LostCarry)) e_.line(fmt::format("{} = {}[{}];", carry, own, e_.lanes() - 1));
    value = own;
  } else if (is_position(r)) {
    e_.line(fmt::format("const {} x{} = {};", type(t, vector), k, value));
    e_.line(
        fmt::format("const {} x{}_earlier = {};", type(DType::Bool, vector), k, earlier_wins(r, t, carry, fmt::format("x{}", k), vector)));
    e_.line(fmt::format("{0} = {1}(x{2}_earlier, {0}, x{2});", carry, e_.function("sel", t, vector), k));
    e_.line(fmt::format("{0}_at = {1}(x{2}_earlier, {0}_at, {3});", carry, e_.function("sel", DType::I64, vector), k, here));
    value = carry;
  } else {
    e_.line(fmt::format("{} = {};", carry, combined(r, t, carry, value, vector)));
    value = carry;
  }
  value = is_position(r) ? value + "_at" : e_.convert(t, s.dtype, value, vector);
  e_.line(fmt::format("const {} v{} = {};", type(s.dtype, vector), k, value));
  e_.define(k, fmt::format("v{}", k), vector);
}

}  // namespace toroid::codegen
