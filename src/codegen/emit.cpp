#include "codegen/emit.h"

#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/mutants.h"
#include "codegen/prelude/prelude.h"
#include "codegen/transposition.h"

namespace toroid::codegen {

using loop::Statement;
using loop::Step;
using loop::StoreMode;

namespace {

std::string integer_text(int64_t v) {
  if (v == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807ll - 1)";
  bool large = v > std::numeric_limits<int32_t>::max() || v <= std::numeric_limits<int32_t>::min();
  return std::to_string(v) + (large ? "ll" : "");
}

bool fits_i32(const Expr& e) {
  sym::Bounds b = sym::bounds(e);
  return b.lo >= -(int64_t{1} << 31) && b.hi < (int64_t{1} << 31);
}

// Ops on Bool that the prelude has under another name, and integer ops that do nothing.
std::string_view stem_of(ScalarOp op, DType operand) {
  if (is_bool(operand)) {
    switch (op) {
      case ScalarOp::Mul:
        return "and";
      case ScalarOp::Add:
        return "or";
      case ScalarOp::Sub:
        return "xor";
      case ScalarOp::Fmin:
        return "min";
      case ScalarOp::Fmax:
        return "max";
      default:
        break;
    }
  } else if (is_int(operand)) {
    if (op == ScalarOp::Fmin) return "min";
    if (op == ScalarOp::Fmax) return "max";
  }
  return prelude_stem(op);
}

bool is_identity(ScalarOp op, DType operand) {
  bool rounds = op == ScalarOp::Floor || op == ScalarOp::Ceil || op == ScalarOp::Trunc || op == ScalarOp::Round;
  return !is_float(operand) && (rounds || (is_bool(operand) && (op == ScalarOp::Abs || op == ScalarOp::Sign)));
}

ScalarOp extremum_of(sym::Kind kind) { return kind == sym::Kind::Min ? ScalarOp::Min : ScalarOp::Max; }

}  // namespace

ScalarOp fold_of(loop::Reduction r, DType t) {
  if (is_bool(t)) return r == loop::Reduction::Any || r == loop::Reduction::Max || r == loop::Reduction::Sum ? ScalarOp::Or : ScalarOp::And;
  switch (r) {
    case loop::Reduction::Sum:
      return ScalarOp::Add;
    case loop::Reduction::Prod:
      return ScalarOp::Mul;
    case loop::Reduction::Max:
      return ScalarOp::Max;
    default:
      return ScalarOp::Min;
  }
}

std::string name_kernel(const loop::Body& b) {
  std::vector<std::string> parts;
  bool loads = false, casts = false;
  for (auto& s : b.steps) {
    loads = loads || s.step == Step::Load;
    std::string part;
    if (s.step == Step::Reduce || s.step == Step::Scan)
      part = (s.step == Step::Scan ? "scan" : "reduce") + std::string(loop::name_of(s.reduction));
    if (loop::folds_into_memory(s)) part = "scatter";
    if (loop::stores_sum(s)) part = "sums";
    if (s.step == Step::Scalar && s.op == ScalarOp::Cast)
      casts = true;
    else if (s.step == Step::Scalar)
      part = std::string(prelude_stem(s.op));
    if (!part.empty() && parts.size() < 6 && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
  }
  if (parts.empty()) return casts ? "kernel_cast" : loads ? "kernel_copy" : "kernel_fill";
  std::string name = parts.size() > 1 ? "fused" : "kernel";
  for (auto& p : parts) name += "_" + p;
  return name;
}

std::string memory_type(DType t) { return is_bool(t) ? "u8" : std::string(name_of(t)); }

namespace {

// Of each step, whether it is a division that StepEmitter::is_exact speaks of.
std::vector<bool> exact_divisions(const loop::Body& body) {
  using enum ScalarOp;
  constexpr ScalarOp kRounds[] = {Round, Floor, Ceil, Trunc}, kHandsOn[] = {Add, Sub, Mul, Div, Neg, Abs, Min, Max, Select, Cast};
  auto among = [](auto& list, ScalarOp op) { return std::find(std::begin(list), std::end(list), op) != std::end(list); };
  std::vector<bool> counts(body.steps.size()), exact(body.steps.size());  // counts: an error of the value may change a whole number
  for (size_t k = body.steps.size(); k-- > 0;) {
    const Statement& s = body.steps[k];
    if (s.step != Step::Scalar || arity_of(s.op) == 0) continue;
    bool whole = s.op == Cast && is_int(s.dtype) && is_float(body.steps[static_cast<size_t>(s.args[0])].dtype);
    exact[k] = counts[k] && s.op == Div && s.dtype == DType::F32;
    if (!whole && !among(kRounds, s.op) && !(counts[k] && among(kHandsOn, s.op))) continue;
    for (int i = 0; i < arity_of(s.op); ++i) counts[static_cast<size_t>(s.args[i])] = true;
  }
  return exact;
}

// Of each step, whether it is a product that is computed in two passes over a row, before and after a reduction of what depends on it.
// Were it contracted with a sum in one of them alone, what is a maximum there would not be the same value here.
std::vector<bool> repeated_products(const loop::Body& body) {
  const size_t count = body.steps.size();
  std::vector<int> pass(count);
  std::vector<bool> reduced(count), later(count), repeated(count);
  for (size_t k = 0; k < count; ++k)
    loop::for_each_use(body.steps[k], [&](size_t u) { pass[k] = std::max(pass[k], pass[u] + (body.steps[u].step == Step::Reduce)); });
  for (size_t k = count; k-- > 0;) {
    const Statement& s = body.steps[k];
    const bool reduces = s.step == Step::Reduce;
    loop::for_each_use(s, [&](size_t u) {
      reduced[u] = reduced[u] || reduces || reduced[k];
      later[u] = later[u] || (!reduces && later[k]) || (pass[k] > pass[u] && body.steps[u].step != Step::Reduce);
    });
    repeated[k] =
        s.step == Step::Scalar && s.op == ScalarOp::Mul && (s.dtype == DType::F32 || s.dtype == DType::F64) && reduced[k] && later[k];
  }
  return repeated;
}

}  // namespace

StepEmitter::StepEmitter(const loop::Body& body, Expr inner, std::vector<bool> on_inner, int lanes, Names names)
    : body_(body),
      inner_(std::move(inner)),
      on_inner_(std::move(on_inner)),
      exact_(exact_divisions(body)),
      repeated_(repeated_products(body)),
      lanes_(lanes),
      names_(std::move(names)),
      values_(body.steps.size()) {}

void StepEmitter::line(const std::string& text) { text_ += std::string(static_cast<size_t>(2 * indent_), ' ') + text + '\n'; }

std::string StepEmitter::function(const std::string& stem, DType t, bool vector) {
  std::string name = (vector ? "v_" : "s_") + stem + "_" + std::string(name_of(t));
  functions_.insert(name);
  return name;
}

std::string StepEmitter::convert(DType from, DType to, const std::string& value, bool vector) {
  if (from == to) return value;
  return function("cvt_" + std::string(name_of(from)), to, vector) + "(" + value + ")";
}

std::string StepEmitter::literal(const Number& number, DType t, bool vector) {
  Number v = toroid::convert(number, t);
  std::string text;
  if (t == DType::BF16) {
    text = std::to_string(f32_to_bf16(static_cast<float>(v.f)));
  } else if (t == DType::F16 && names_.f16_is_bits) {
    text = std::to_string(f32_to_f16(static_cast<float>(v.f)));
  } else if (is_float(t)) {
    const char* suffix = t == DType::F64 ? "" : "f";
    if (std::isnan(v.f))
      text = fmt::format("__builtin_nan{}(\"\")", suffix);
    else if (std::isinf(v.f))
      text = fmt::format("{}__builtin_inf{}()", v.f < 0 ? "-" : "", suffix);
    else if (t == DType::F64)
      text = fmt::format("{}", v.f);
    else
      text = fmt::format("{}", static_cast<float>(v.f));
    if (std::isfinite(v.f)) text += text.find_first_of(".e") == std::string::npos ? std::string(".0") + suffix : suffix;
    if (t == DType::F16) text = "(f16)" + text;
  } else if (is_bool(t)) {
    text = v.i ? "1" : "0";
    if (vector && v.i) text = "-1";
  } else if (t == DType::U64) {
    text = std::to_string(static_cast<uint64_t>(v.i)) + "ull";
  } else {
    text = integer_text(v.i);
  }
  return vector ? fmt::format("(v{})({})", name_of(t), text) : text[0] == '-' ? "(" + text + ")" : text;
}

std::string StepEmitter::scalar(int k) {
  const Statement& s = step(k);
  if (s.step == Step::Scalar && s.op == ScalarOp::Const) return literal(s.value, s.dtype, false);
  const Value& v = values_[static_cast<size_t>(k)];
  TOROID_CHECK(!v.name.empty() && !v.vector, "value v{} is not known as a scalar", k);
  return v.name;
}

std::string StepEmitter::vector(int k) {
  const Statement& s = step(k);
  if (s.step == Step::Scalar && s.op == ScalarOp::Const) return literal(s.value, s.dtype, true);
  const Value& v = values_[static_cast<size_t>(k)];
  if (v.vector) return v.name;
  return v.splat.empty() ? function("splat", s.dtype, true) + "(" + scalar(k) + ")" : v.splat;
}

void StepEmitter::splat_operands(const std::vector<int>& steps) {
  for (int k : steps) {
    const Statement& s = step(k);
    if (!on_inner_[static_cast<size_t>(k)] && s.step != Step::Reduce) continue;
    for (int a : s.args) {
      if (a < 0 || (step(a).step == Step::Scalar && step(a).op == ScalarOp::Const)) continue;
      Value& v = values_[static_cast<size_t>(a)];
      if (v.name.empty() || v.vector) continue;
      // Rows over their sum: one division a row instead of one a vector.
      bool divides =
          s.step == Step::Scalar && s.op == ScalarOp::Div && s.dtype == DType::F32 && a == s.args[1] && reduced(a) && !is_exact(k);
      if (divides) {
        if (!v.inverse.empty()) continue;
        line(fmt::format("sf32 v{0}_power = {1}({2}), v{0}_inverse = 1.0f / ({2} * v{0}_power);", a,
                         function("quotient_power", DType::F32, false), v.name));
        v.inverse = fmt::format("v{0}_inverse, v{0}_power", a);
        continue;
      }
      if (!v.splat.empty()) continue;
      std::string name = fmt::format("v{}_all", a);
      line(fmt::format("v{} {} = {}({});", name_of(step(a).dtype), name, function("splat", step(a).dtype, true), v.name));
      v.splat = name;
    }
  }
}

bool StepEmitter::reduced(int k) const {
  const Statement& s = step(k);
  if (s.step == Step::Reduce) return true;
  bool found = false;
  for (int i = 0; s.step == Step::Scalar && i < arity_of(s.op); ++i) found = found || reduced(s.args[i]);
  return found;
}

bool StepEmitter::differs(const Expr& e) const {
  bool found = false;
  sym::for_each_symbol(e, [&](const Expr& s) {
    int k = loop::step_of_symbol(*s.node());
    found = found || (k >= 0 ? values_[static_cast<size_t>(k)].vector : s == inner_);
  });
  return found;
}

// Is e = coefficient * inner + what is equal in all lanes?
bool StepEmitter::inner_coefficient(const Expr& e, int64_t* coefficient) const {
  bool through_value = false;
  sym::for_each_symbol(e, [&](const Expr& s) {
    int k = loop::step_of_symbol(*s.node());
    through_value = through_value || (k >= 0 && values_[static_cast<size_t>(k)].vector);
  });
  if (through_value) return false;
  auto c = inner_.is_const() ? std::optional<Expr>(0) : sym::linear_coefficient(e, inner_);
  if (!c || !c->is_const()) return false;
  *coefficient = c->constant();
  return true;
}

std::string StepEmitter::index(const Expr& e) {
  if (e.is_const()) return integer_text(e.constant());
  const sym::Node& n = *e.node();
  switch (n.kind) {
    case sym::Kind::Symbol: {
      int k = loop::step_of_symbol(n);
      return k >= 0 ? scalar(k) : names_.symbol(n);
    }
    case sym::Kind::Poly: {
      std::string out;
      for (auto& t : n.terms) {
        std::string term;
        if (t.factors.empty() || (t.coef != 1 && t.coef != -1))
          term = t.coef < 0 && t.coef != std::numeric_limits<int64_t>::min() ? integer_text(-t.coef) : integer_text(t.coef);
        for (auto& f : t.factors) term += (term.empty() ? "" : " * ") + index(f);
        bool minus = t.coef < 0 && t.coef != std::numeric_limits<int64_t>::min();
        out += out.empty() ? (minus ? "-" : "") + term : (minus ? " - " : " + ") + term;
      }
      return "(" + out + ")";
    }
    case sym::Kind::FloorDiv:
    case sym::Kind::Mod: {
      bool plain = nonnegative(n.args[0]) && sym::known_ge(n.args[1], 1);
      std::string a = index(n.args[0]), b = index(n.args[1]);
      if (plain) return fmt::format("({} {} {})", a, n.kind == sym::Kind::Mod ? "%" : "/", b);
      return fmt::format("{}({}, {})", function(n.kind == sym::Kind::Mod ? "mod" : "floordiv", DType::I64, false), a, b);
    }
    default:
      return call(extremum_of(n.kind), DType::I64, DType::I64, {index(n.args[0]), index(n.args[1])}, false);
  }
}

std::string StepEmitter::vector_index(const Expr& e) {
  if (!differs(e)) return function("splat", DType::I64, true) + "(" + index(e) + ")";
  const sym::Node& n = *e.node();
  int64_t c = 0;
  if (inner_coefficient(e, &c)) {
    std::string iota = function("iota", DType::I64, true) + "()";
    return fmt::format("({}({}) + {}{})", function("splat", DType::I64, true), index(e), iota,
                       c == 1 ? "" : " * (vi64)(" + integer_text(c) + ")");
  }
  switch (n.kind) {
    case sym::Kind::Symbol:
      return vector(loop::step_of_symbol(n));
    case sym::Kind::Poly: {
      std::string out;
      Expr uniform = 0;
      for (auto& t : n.terms) {
        Expr product = t.coef;
        bool lane = false;
        for (auto& f : t.factors) lane = lane || differs(f), product = product * f;
        if (!lane) {
          uniform = uniform + product;
          continue;
        }
        std::string term = t.coef == 1 ? "" : "(vi64)(" + integer_text(t.coef) + ")";
        for (auto& f : t.factors) term += (term.empty() ? "" : " * ") + vector_index(f);
        out += (out.empty() ? "" : " + ") + term;
      }
      if (!(uniform == Expr(0))) out += " + " + vector_index(uniform);
      return "(" + out + ")";
    }
    case sym::Kind::FloorDiv:
    case sym::Kind::Mod: {
      std::string stem = n.kind == sym::Kind::Mod ? "mod" : "floordiv", a = vector_index(n.args[0]), b = vector_index(n.args[1]);
      if (!fits_i32(n.args[0]) || !fits_i32(n.args[1])) return fmt::format("{}({}, {})", function(stem, DType::I64, true), a, b);
      std::string narrow = function("cvt_i64", DType::I32, true);
      return convert(DType::I32, DType::I64, fmt::format("{}({}({}), {}({}))", function(stem, DType::I32, true), narrow, a, narrow, b),
                     true);
    }
    default:
      return call(extremum_of(n.kind), DType::I64, DType::I64, {vector_index(n.args[0]), vector_index(n.args[1])}, true);
  }
}

std::string StepEmitter::call(ScalarOp op, DType operand, DType result, const std::vector<std::string>& args, bool vector) {
  if (op == ScalarOp::Cast) return convert(operand, result, args[0], vector);
  if (is_identity(op, operand)) return args[0];
  bool predicate = op == ScalarOp::IsNan || op == ScalarOp::IsInf || op == ScalarOp::SignBit;
  if (predicate && !is_float(operand)) {
    bool sign = op == ScalarOp::SignBit && name_of(operand)[0] == 'i';
    return sign ? call(ScalarOp::Lt, operand, DType::Bool, {args[0], literal(Number::of(int64_t{0}), operand, vector)}, vector)
                : literal(Number::of(false), DType::Bool, vector);
  }
  bool random = op == ScalarOp::RandUniform || op == ScalarOp::RandNormal;
  if (is_half(operand) && op != ScalarOp::Select) {  // the prelude computes in f32 and wider
    std::vector<std::string> wide;
    for (auto& a : args) wide.push_back(convert(operand, DType::F32, a, vector));
    std::string value = call(op, DType::F32, is_half(result) ? DType::F32 : result, wide, vector);
    return is_half(result) ? convert(DType::F32, result, value, vector) : value;
  }
  std::string list;
  for (auto& a : args) list += (list.empty() ? "" : ", ") + a;
  DType suffix = op == ScalarOp::Select ? result : random ? DType::F32 : operand;
  if (op == ScalarOp::Pow && is_int(operand)) return integer_power(operand, vector) + "(" + list + ")";
  std::string_view stem = stem_of(op, operand);
  TOROID_CHECK(!stem.empty(), "the CPU generator cannot print {}", name_of(op));
  return function(std::string(stem), suffix, vector) + "(" + list + ")";
}

std::string StepEmitter::load_second(DType t) {
  std::string name = fmt::format("v_load_second_{}", name_of(t)), lanes;
  for (int l = 0; l < lanes_; ++l) lanes += fmt::format(", {}", l < lanes_ / 2 ? 2 * l : 2 * l + 1);
  std::string load = function("load", t, true);
  helpers_[name] = fmt::format("static inline v{0} {1}(const {2}* p) {{ return __builtin_shufflevector({3}(p), {3}(p + {4}){5}); }}\n",
                               name_of(t), name, memory_type(t), load, lanes_ - 1, lanes);
  return name;
}

std::string StepEmitter::load_backwards(DType t) {
  std::string name = fmt::format("v_load_backwards_{}", name_of(t)), lanes, load = function("load", t, true);
  for (int l = lanes_; l-- > 0;) lanes += fmt::format(", {}", mutant(Mutant::WrongShuffle) && l > 0 ? l - 1 : l);
  helpers_[name] =
      fmt::format("static inline v{0} {1}(const {2}* p) {{ v{0} x = {3}(p - {4}); return __builtin_shufflevector(x, x{5}); }}\n",
                  name_of(t), name, memory_type(t), load, lanes_ - 1, lanes);
  return name;
}

std::string StepEmitter::transpose(DType t) {
  std::string name = fmt::format("v_transpose_{}", name_of(t)), type = "v" + std::string(name_of(t));
  helpers_[name] = fmt::format("static inline void {1}({0}* x) {{\n  {0} a, b;\n{2}}}\n", type, name, transposition_text(lanes_));
  return name;
}

std::string StepEmitter::store_woven(DType t, int count) {
  std::string name = fmt::format("v_store_woven{}_{}", count, name_of(t)), body;
  for (int part = 0; part < count; ++part) {
    body += fmt::format("  r = x[0];\n");
    for (int from = 0; from < count; ++from) {
      std::string lanes;
      for (int l = 0; l < lanes_; ++l) {
        const int element = part * lanes_ + l, own = element / count;
        const int of = element % count;
        lanes += fmt::format(", {}", of == from ? lanes_ + own : of < from ? l : -1);
      }
      body += fmt::format("  r = __builtin_shufflevector(r, x[{}]{});\n", from, lanes);
    }
    body += fmt::format("  {}(p + {}, r);\n", function("store", t, true), part * lanes_);
  }
  helpers_[name] =
      fmt::format("static inline void {1}({2}* p, const v{0}* x) {{\n  v{0} r;\n{3}}}\n", name_of(t), name, memory_type(t), body);
  return name;
}

std::string StepEmitter::integer_power(DType t, bool vector) {
  std::string n(name_of(t)), one = "int_pow_" + n;
  helpers_[one] = fmt::format(
      "static inline {0} {1}({0} a, {0} b) {{\n"
      "  if (b < ({0})0) return a == ({0})1 ? ({0})1 : a == ({0})-1 ? (b & 1 ? ({0})-1 : ({0})1) : ({0})0;\n"
      "  u64 r = 1, x = (u64)a;\n"
      "  for (u64 e = (u64)b; e; e >>= 1, x *= x) r *= e & 1 ? x : 1;\n"
      "  return ({0})r;\n"
      "}}\n",
      n, one);
  if (!vector) return one;
  std::string lanes = one + "_lanes";  // sorts after the function that it calls
  helpers_[lanes] = fmt::format(
      "static inline v{0} {2}(v{0} a, v{0} b) {{\n  for (int l = 0; l < TOROID_W; ++l) a[l] = {1}(a[l], b[l]);\n  return a;\n}}\n", n, one,
      lanes);
  return lanes;
}

void StepEmitter::emit(int k, bool wants_vector) {
  const Statement& s = step(k);
  bool vector_form = wants_vector && on_inner_[static_cast<size_t>(k)];
  switch (s.step) {
    case Step::Load:
      return emit_load(k, vector_form);
    case Step::Store:
      return emit_store(k, vector_form);
    case Step::Accumulate:
      if (s.value.i == 1) return define(k, names_.second_accumulator, false);
      return define(k, wants_vector ? names_.vector_accumulator : names_.scalar_accumulator, wants_vector);
    case Step::Reduce:
    case Step::Scan:
      return;
    default:
      break;
  }
  if (s.step == Step::Scalar && s.op == ScalarOp::Const) return;
  if (s.step == Step::Check) return emit_check(k, vector_form);
  std::string value;
  if (s.step == Step::Index) {
    value = vector_form ? vector_index(s.index) : index(s.index);
  } else {
    std::vector<std::string> args;
    // The rest of a row is divided like its vectors.
    if (s.op == ScalarOp::Div && on_inner_[static_cast<size_t>(k)] && !is_exact(k)) {
      const std::string& inverse = values_[static_cast<size_t>(s.args[1])].inverse;
      if (!inverse.empty()) {
        const std::string x = vector_form ? vector(s.args[0]) : scalar(s.args[0]);
        line(fmt::format("{}f32 v{} = {}({}, {});", vector_form ? "v" : "s", k, function("quotient", DType::F32, vector_form), x, inverse));
        return define(k, "v" + std::to_string(k), vector_form);
      }
    }
    for (int i = 0; i < arity_of(s.op); ++i) args.push_back(vector_form ? vector(s.args[i]) : scalar(s.args[i]));
    value = repeated_[static_cast<size_t>(k)] ? fmt::format("{}({}, {})", function("roundedmul", s.dtype, vector_form), args[0], args[1])
                                              : call(s.op, step(s.args[0]).dtype, s.dtype, args, vector_form);
  }
  line(fmt::format("{}{} v{} = {};", vector_form ? "v" : "s", name_of(s.dtype), k, value));
  define(k, "v" + std::to_string(k), vector_form);
}

void StepEmitter::emit_load(int k, bool vector_form) {
  const Statement& s = step(k);
  std::string p = names_.pointer(s.buffer, s.dtype), name = "v" + std::to_string(k),
              zero = literal(Number::of(int64_t{0}), s.dtype, vector_form);
  auto scalar_load = [&](const std::string& at) { return fmt::format("{}({} + {})", function("load", s.dtype, false), p, at); };
  if (!vector_form) {
    std::string value = scalar_load(index(s.index));
    if (s.mask >= 0 && !mutant(Mutant::DroppedScalarMask)) value = fmt::format("{} ? {} : {}", scalar(s.mask), value, zero);
    line(fmt::format("s{} {} = {};", name_of(s.dtype), name, value));
    return define(k, name, false);
  }
  int64_t c = 0;
  bool linear = inner_coefficient(s.index, &c);
  if (is_bool(s.dtype) && (c == 2 || c == -1)) linear = false;  // those load vectors of memory's own type
  std::string whole;                                            // a load of all lanes
  if (linear && c == 1)
    whole = fmt::format("{}({} + {})", function("load", s.dtype, true), p, index(s.index));
  else if (linear && c == 0)
    whole = fmt::format("{}({})", function("splat", s.dtype, true), scalar_load(index(s.index)));
  else if (linear && c == 2)
    whole = fmt::format("{}({} + {})", load_second(s.dtype), p, index(s.index));
  else if (linear && c == -1)
    whole = fmt::format("{}({} + {})", load_backwards(s.dtype), p, index(s.index));
  bool lane_mask = s.mask >= 0 && values_[static_cast<size_t>(s.mask)].vector;
  auto gather = [&](const std::string& at) { return fmt::format("{}({}, {})", function("gather", s.dtype, true), p, at); };
  std::string type = "v" + std::string(name_of(s.dtype));
  if (s.mask < 0) {
    line(fmt::format("{} {} = {};", type, name, whole.empty() ? gather(vector_index(s.index)) : whole));
  } else if (!lane_mask) {
    line(fmt::format("{} {} = {};", type, name, zero));
    line(fmt::format("if ({}) {} = {};", scalar(s.mask), name, whole.empty() ? gather(vector_index(s.index)) : whole));
  } else {
    // Lanes without access read element 0: it exists when any lane may read.
    std::string mask = vector(s.mask), hall = function("hall", DType::Bool, true), hany = function("hany", DType::Bool, true);
    std::string safe = gather(fmt::format("{}({}, {}, (vi64)(0))", function("sel", DType::I64, true), mask, vector_index(s.index)));
    line(fmt::format("{} {} = {};", type, name, zero));
    if (!whole.empty() && c != 0)
      line(fmt::format("if ({}({})) {} = {};", mutant(Mutant::DroppedLaneMask) ? hany : hall, mask, name, whole));
    line(fmt::format("{}if ({}({})) {} = {}({}, {}, {});", !whole.empty() && c != 0 ? "else " : "", hany, mask, name,
                     function("sel", s.dtype, true), mask, !whole.empty() && c == 0 ? whole : safe, zero));
  }
  define(k, name, true);
}

// One comparison of numbers without a sign; what is behind it is never on the way of good indices.
void StepEmitter::emit_check(int k, bool vector_form) {
  const Statement& s = step(k);
  const std::string name = "v" + std::to_string(k), record = names_.pointer(s.buffer, DType::I64);
  std::string value, size;
  if (vector_form) {
    const std::string splat = function("splat", DType::I64, true);
    value = vector(s.args[0]), size = fmt::format("{}({})", splat, index(s.index));
    if (s.mask >= 0) {
      const std::string sel = function("sel", DType::I64, true), mask = vector(s.mask);
      value = fmt::format("{}({}, {}, (vi64)(0))", sel, mask, value), size = fmt::format("{}({}, {}, (vi64)(1))", sel, mask, size);
    }
  } else {
    value = scalar(s.args[0]), size = index(s.index);
    if (s.mask >= 0) value = fmt::format("({} ? {} : 0)", scalar(s.mask), value), size = fmt::format("({} ? {} : 1)", scalar(s.mask), size);
  }
  line(fmt::format("{}i64 {} = {}({}, {}, {}, {});", vector_form ? "v" : "s", name, function("check", DType::I64, vector_form), value, size,
                   record, s.value.i));
  define(k, name, vector_form);
}

std::string StepEmitter::combined(const Statement& s, const std::string& old, const std::string& value, bool vector_form) {
  constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Max, ScalarOp::Min};
  return s.mode == StoreMode::Set ? value : call(kOps[static_cast<int>(s.mode)], s.dtype, s.dtype, {old, value}, vector_form);
}

void StepEmitter::emit_store(int k, bool vector_form) {
  const Statement& s = step(k);
  std::string p = names_.pointer(s.buffer, s.dtype);
  auto load = [&](const std::string& at, bool v) { return fmt::format("{}({} + {})", function("load", s.dtype, v), p, at); };
  if (!vector_form) {
    std::string at = index(s.index), guard = s.mask >= 0 ? fmt::format("if ({}) ", scalar(s.mask)) : "";
    line(fmt::format("{}{}({} + {}, {});", guard, function("store", s.dtype, false), p, at,
                     combined(s, s.mode == StoreMode::Set ? "" : load(at, false), scalar(s.args[0]), false)));
    return;
  }
  int64_t c = 0;
  bool contiguous = inner_coefficient(s.index, &c) && c == 1;
  bool lane_mask = s.mask >= 0 && values_[static_cast<size_t>(s.mask)].vector;
  std::string guard;
  if (s.mask >= 0)
    guard = lane_mask ? fmt::format("if ({}({})) ", function("hall", DType::Bool, true), vector(s.mask))
                      : fmt::format("if ({}) ", scalar(s.mask));
  if (contiguous) {
    std::string at = index(s.index);
    line(fmt::format("{}{}({} + {}, {});", guard, function("store", s.dtype, true), p, at,
                     combined(s, s.mode == StoreMode::Set ? "" : load(at, true), vector(s.args[0]), true)));
    if (!lane_mask) return;
    open(fmt::format("else if ({}({}))", function("hany", DType::Bool, true), vector(s.mask)));
  } else {
    open(s.mask >= 0 && !lane_mask ? fmt::format("if ({})", scalar(s.mask)) : "");
  }
  // Lane after lane, in order: several may address one element. They are taken from memory, where a lane that a variable names is one load;
  // of a vector in registers each would be a store of them all and a load that waits for it.
  auto lanes = [&](const char* name, std::string_view type, std::string_view element, const std::string& value) {
    line(fmt::format("union {{ v{} all; {} lane[{}]; }} {} = {{{}}};", type, element, lanes_, name, value));
  };
  const bool steps = inner_coefficient(s.index, &c);
  const std::string at = steps ? fmt::format("l * {}", integer_text(c)) : "at.lane[l]",
                    lane = is_bool(s.dtype) ? "x.lane[l] & 1" : "x.lane[l]", base = steps ? "first" : p,
                    element = fmt::format("{}[{}]{}", base, at, is_bool(s.dtype) ? " != 0" : "");
  if (steps)
    line(fmt::format("{}* const first = {} + {};", memory_type(s.dtype), p, index(s.index)));
  else
    lanes("at", "i64", "i64", vector_index(s.index));
  lanes("x", name_of(s.dtype), is_bool(s.dtype) ? "i32" : name_of(s.dtype), vector(s.args[0]));
  if (lane_mask) lanes("m", "bool", "i32", vector(s.mask));
  line("#pragma clang loop vectorize(disable) unroll(disable)");
  line(fmt::format("for (int l = 0; l < {}; ++l) {}{}[{}] = {};", lanes_, lane_mask ? "if (m.lane[l]) " : "", base, at,
                   combined(s, element, lane, false)));
  close();
}

}  // namespace toroid::codegen
