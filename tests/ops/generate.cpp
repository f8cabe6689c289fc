#include "generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/descriptions.h"
#include "ops/refused.h"
#include "ops/row_text.h"
#include "ops/table.h"
#include "toroid/options.h"

namespace toroid::generate {
namespace {

using ops::Op;
using ops::Param;
using ops::ParamType;

// The names that toroid/ops.h declares by hand, with signatures that no rule gives.
const std::set<std::string, std::less<>>& by_hand() {
  // clang-format off
  static const std::set<std::string, std::less<>> names = {
      "abs", "acos", "adaptive_avg_pool2d", "add", "add_", "addcdiv", "addcdiv_", "addcmul", "addcmul_", "addmm", "all", "amax",
      "amin", "any", "arange", "argmax", "argmin", "argsort", "asin", "atan", "atan2", "avg_pool2d", "baddbmm", "batch_norm",
      "bernoulli", "bitwise_not", "bmm", "cat", "ceil", "chunk", "clamp", "clamp_", "clone", "contiguous", "conv1d", "conv2d",
      "conv_transpose2d", "copy_", "cos", "cosh", "cross_entropy", "cumprod", "cumsum", "detach", "diagonal", "div", "div_",
      "dot", "dropout", "einsum", "elu", "embedding", "empty_like", "eq", "erf", "erfc", "exp", "exp2", "exp_", "expand", "expm1",
      "eye", "fill_", "flatten", "flip", "floor", "floor_divide", "full", "full_like", "gather", "ge", "gelu", "glu",
      "group_norm", "gt", "hardsigmoid", "hardswish", "hardtanh", "index", "index_add", "index_add_", "index_copy", "index_copy_",
      "index_put", "index_put_", "index_select", "install_eager", "isfinite", "isinf", "isnan", "layer_norm", "le", "leaky_relu",
      "kl_div", "lerp", "lgamma", "linear", "log", "log10", "log1p", "log2", "log_sigmoid", "log_softmax", "logical_and", "logical_not",
      "logical_or", "logical_xor", "logsumexp", "lt", "masked_fill", "masked_fill_", "matmul", "max", "max_pool2d", "maximum",
      "mean", "min", "minimum", "mish", "mm", "mse_loss", "mul", "mul_", "mv", "nan_to_num", "narrow", "ne", "neg", "nonzero",
      "norm", "normalize", "one_hot", "ones", "ones_like", "outer", "pad", "permute", "pow", "poisson_nll_loss", "prod", "rand", "rand_like", "randint", "randn",
      "randn_like", "reciprocal", "relu", "relu6", "relu_", "remainder", "repeat", "repeat_interleave", "reshape", "rms_norm",
      "roll", "round", "rsqrt", "scalar_tensor", "scaled_dot_product_attention", "scatter", "scatter_add", "scatter_add_",
      "select", "selu", "sigmoid", "sigmoid_", "sign", "silu", "sin", "sinh", "slice", "softmax", "softplus", "sort", "split",
      "split_with_sizes", "sqrt", "sqrt_", "square", "squeeze", "stack", "std_dev", "std_mean", "stft", "sub", "sub_", "sum", "t", "tan", "tanh",
      "tanh_", "to", "topk", "transpose", "tril", "triu", "trunc", "unbind", "unflatten", "unique", "unsqueeze", "var", "var_mean", "view", "where",
      "zero_", "zeros", "zeros_like",
  };
  // clang-format on
  return names;
}

// Further rows of those names: what the functions written by hand do not reach.
bool is_beside_hand(std::string_view row) {
  static const std::set<std::string_view> rows = {"div.Tensor_mode", "div.Scalar_mode",    "div_.Tensor_mode", "div_.Scalar_mode",
                                                  "round.decimals",  "masked_fill.Tensor", "clamp.Tensor",     "max.other",
                                                  "min.other",       "scatter.value",      "scatter.reduce",   "scatter.value_reduce",
                                                  "bernoulli.p",     "bernoulli.Tensor",   "sort.stable",      "view.dtype"};
  return rows.count(row) > 0;
}

// Operations that are no formulas, and that PyTorch has in place nevertheless.
bool has_inplace(std::string_view name) {
  static const std::set<std::string_view> names = {
      "addbmm", "addmm",       "addmv",        "addr",    "baddbmm", "cumprod",        "cumsum",         "tril",
      "triu",   "index_fill",  "index_reduce", "scatter", "put",     "scatter_reduce", "masked_scatter", "renorm",
      "copy",   "float_power", "ldexp",        "div",     "divide",  "logit",          "conj_physical"};
  return names.count(name) > 0;
}

std::string base_of(std::string_view row) { return std::string(row.substr(0, row.find('.'))); }
std::string overload_of(std::string_view row) { return row.find('.') == row.npos ? "" : std::string(row.substr(row.find('.') + 1)); }
std::string without_underscore(std::string name) { return name.ends_with("_") ? name.substr(0, name.size() - 1) : name; }

bool is_required_generator(const Param& p) { return p.name == "generator" && !p.has_default; }

// Why a row has no function; empty: it has one, or shares one.
std::string reason_against(const Op& op) {
  const std::string base = base_of(op.name);
  if (op.collective) return "served by the functions of toroid/collectives.h";
  if (!ops::space_of(op.name).empty()) return "of another library; only graphs that are imported name it";
  if (base.starts_with("_")) return "private to ATen";
  if (base.ends_with("_copy")) return "the copying form of a view; clone() of the view";
  for (const Param& p : op.schema.params) {
    if (p.type == ParamType::Graph) return "takes graphs; higher-order functions have an interface of their own";
    if (p.type == ParamType::Complex) return "takes a complex number, which has no parameter type";
    if (is_required_generator(p) || overload_of(op.name).ends_with("generator")) return "takes a generator; manual_seed() sets the seed";
  }
  if (by_hand().count(base == "std" ? "std_dev" : base) && !is_beside_hand(op.name))
    return "served by the function of that name in toroid/ops.h";
  if (base == "where_" || (base == "normal_" && base != op.name) || op.name == "bernoulli_" || op.name == "bernoulli_.p")
    return "PyTorch has no such operation in place";
  if (op.inplace_of && !op.inplace_of->formula && !op.inplace_of->random && !has_inplace(without_underscore(base)))
    return "PyTorch has no such operation in place";
  return "";
}

// One parameter of a C++ function.
struct Parameter {
  std::string type, name, fallback;  // fallback: the default's text, empty: none
  std::string argument;              // as an argument of the row
  char kind = 'N';                   // T tensor, O operand, N number, L sizes, S string, D dtype, V tensors
};

struct Function {
  const Op* op = nullptr;
  std::string name;
  std::vector<Parameter> parameters;
  bool on_device = false;

  size_t least() const {
    size_t n = parameters.size();
    while (n > 0 && !parameters[n - 1].fallback.empty()) --n;
    return n;
  }
};

std::string number_text(double v) {
  if (std::isinf(v)) return v > 0 ? "std::numeric_limits<double>::infinity()" : "-std::numeric_limits<double>::infinity()";
  return fmt::format("{}", v);
}

std::string default_text(const Param& p) {
  if (!p.has_default) return p.optional && !p.keyword_only ? "" : p.optional ? "{}" : "";
  const auto& v = p.default_value;
  if (auto* e = std::get_if<Expr>(&v)) return fmt::format("{}", e->constant());
  if (auto* d = std::get_if<double>(&v)) return number_text(*d);
  if (auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (auto* s = std::get_if<std::string>(&v)) return fmt::format("\"{}\"", *s);
  if (auto* l = std::get_if<std::vector<Expr>>(&v)) {
    std::string out;
    for (const Expr& e : *l) out += fmt::format("{}{}", out.empty() ? "" : ", ", e.constant());
    return "{" + out + "}";
  }
  return "{}";
}

bool is_dimension(std::string_view name) {
  static const std::set<std::string_view> others = {"axis", "axis0", "axis1", "source", "destination", "dimension", "start_dim", "end_dim"};
  return name.starts_with("dim") || others.count(name) > 0;
}

Parameter integer_parameter(const Op& op, const Param& p) {
  Parameter out{"", p.name, default_text(p), "", p.list ? 'L' : 'N'};
  if (p.name == "reduction") {
    static const std::map<std::string, std::string> names = {{"", ""}, {"0", "\"none\""}, {"1", "\"mean\""}, {"2", "\"sum\""}};
    return {"Reduction", p.name, names.at(out.fallback), fmt::format("Expr(reduction.number(\"{}\", where))", base_of(op.name)), 'S'};
  }
  if (p.list && is_dimension(p.name)) {
    out.type = "const Dims&";
    out.argument = p.optional ? fmt::format("dims_or_none({})", p.name) : fmt::format("numbers({})", p.name);
  } else if (p.list && p.name == "indices") {  // beside a number of parts: SizeList would take that, too
    out = {"const std::vector<SymInt>&", p.name, out.fallback, fmt::format("exprs({})", p.name), 'M'};
  } else if (p.list) {
    out.type = p.optional ? "const std::optional<SizeList>&" : "const SizeList&";
    out.argument = p.optional ? fmt::format("optional({})", p.name) : fmt::format("exprs({})", p.name);
  } else if (is_dimension(p.name)) {
    out.type = p.optional ? "std::optional<int64_t>" : "int64_t";
    out.argument = fmt::format("{}({})", p.optional ? "optional" : "Expr", p.name);
  } else {
    out.type = p.optional ? "const std::optional<SymInt>&" : "const SymInt&";
    out.argument = p.optional ? fmt::format("optional({})", p.name) : p.name + ".expr()";
  }
  return out;
}

// Of a formula of two tensors each may be a number.
Parameter parameter_of(const Op& op, const Param& p, bool is_operand) {
  const std::string fallback = default_text(p);
  const auto plain = [&](const std::string& type, char kind, const std::string& wrap = "") {
    const std::string whole = p.optional ? fmt::format("std::optional<{}>", type) : type;
    return Parameter{whole, p.name, fallback,
                     p.optional     ? fmt::format("optional({})", p.name)
                     : wrap.empty() ? p.name
                                    : fmt::format("{}({})", wrap, p.name),
                     kind};
  };
  switch (p.type) {
    case ParamType::Tensor:
      if (p.list) return {"const std::vector<Tensor>&", p.name, fallback, p.name, 'V'};
      if (is_operand) return {"const Operand&", p.name, fallback, fmt::format("argument({})", p.name), 'O'};
      return {"const Tensor&", p.name, fallback, p.optional ? fmt::format("maybe({})", p.name) : p.name, 'T'};
    case ParamType::Scalar:
      return {p.optional ? "const std::optional<Operand>&" : "const Operand&", p.name, fallback,
              fmt::format("number(\"{}\", \"{}\", {})", op.name, p.name, p.name), 'O'};
    case ParamType::Int:
      return integer_parameter(op, p);
    case ParamType::Float:
      if (p.list) return plain("std::vector<double>", 'L');
      return plain("double", 'N');
    case ParamType::Bool:
      return plain(p.list ? "std::vector<bool>" : "bool", p.list ? 'L' : 'N');
    case ParamType::Str:
      return plain("Word", 'S', "std::string");
    case ParamType::DType:
      return plain("DType", 'D');
    default:
      return {"", p.name, "", "std::monostate{}", ' '};
  }
}

bool is_binary_formula(const Op& op) {
  const Op& functional = op.inplace_of ? *op.inplace_of : op;
  const auto& params = op.schema.params;
  return functional.formula && !functional.bool_operands && params.size() >= 2 && params[0].type == ParamType::Tensor &&
         params[1].type == ParamType::Tensor && !params[1].optional &&
         std::none_of(params.begin() + 2, params.end(), [](const Param& p) { return p.type == ParamType::Tensor; });
}

Function function_of(const Op& op) {
  static const std::map<std::string, std::string> renamed = {{"std", "std_dev"}, {"trace", "matrix_trace"}};  // names of namespaces
  Function f{&op, base_of(op.name), {}, false};
  if (auto it = renamed.find(f.name); it != renamed.end()) f.name = it->second;
  const auto& params = op.schema.params;
  const bool has_tensor = std::any_of(params.begin(), params.end(), [](const Param& p) { return p.type == ParamType::Tensor; });
  const bool binary = is_binary_formula(op);
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].type == ParamType::Ignored && params[i].name == "device" && !has_tensor) {
      f.parameters.push_back({"std::optional<Device>", "device", "{}", "std::monostate{}", 'D'});
      f.on_device = true;
    } else {
      f.parameters.push_back(parameter_of(op, params[i], binary && i < 2 && !(op.inplace_of && i == 0)));
    }
  }
  if (is_beside_hand(op.name)) {
    for (Parameter& p : f.parameters) p.fallback.clear();  // calls of the function written by hand must stay what they are
  }
  bool is_followed_by_required = false;
  for (size_t i = f.parameters.size(); i-- > 0;) {
    Parameter& p = f.parameters[i];
    if (p.type.empty()) continue;
    if (is_followed_by_required) p.fallback.clear();
    if (p.fallback.empty()) is_followed_by_required = true;
  }
  return f;
}

std::vector<Parameter> shown(const Function& f) {
  std::vector<Parameter> out;
  for (const Parameter& p : f.parameters)
    if (!p.type.empty()) out.push_back(p);
  return out;
}

// Whether an argument could be meant for either.
bool confusable(char a, char b) {
  if (a == b) return true;
  const std::string pair = a < b ? std::string{a, b} : std::string{b, a};
  return pair == "NO" || pair == "LN" || pair == "NS" || pair == "LO";
}

size_t least_of(const std::vector<Parameter>& ps) {
  size_t n = ps.size();
  while (n > 0 && !ps[n - 1].fallback.empty()) --n;
  return n;
}

bool collide(const Function& f, const Function& g) {
  if (f.name != g.name) return false;
  const auto a = shown(f), b = shown(g);
  for (size_t n = std::max(least_of(a), least_of(b)); n <= std::min(a.size(), b.size()); ++n) {
    bool same = true;
    for (size_t i = 0; i < n; ++i) same = same && confusable(a[i].kind, b[i].kind);
    if (same) return true;
  }
  return false;
}

// Makes the first parameter that may be left out one that may not. False when there is none.
bool require_one_more(Function& f) {
  for (Parameter& p : f.parameters)
    if (!p.type.empty() && !p.fallback.empty()) return p.fallback.clear(), true;
  return false;
}

bool takes_number_for_tensor(const Function& f, const Function& of_numbers) {
  return f.name == of_numbers.name && is_binary_formula(*f.op) &&
         std::any_of(of_numbers.op->schema.params.begin(), of_numbers.op->schema.params.begin() + 2,
                     [](const Param& p) { return p.type == ParamType::Scalar; }) &&
         of_numbers.op->schema.params.size() == f.op->schema.params.size();
}

// Whether the first parameter after the tensor has no place among positional arguments, and is no property of a new tensor.
bool begins_by_name(const Op& op) {
  const auto& params = op.schema.params;
  return params.size() > 1 && params[0].type == ParamType::Tensor && params[1].keyword_only && params[1].type != ParamType::DType &&
         params[1].type != ParamType::Ignored;
}

struct Functions {
  std::vector<Function> all;  // in the order of their names' first rows
  std::vector<std::pair<std::string, std::string>> without;
};

void add_function(Functions& out, Function f) {
  for (const Function& g : out.all)
    if (takes_number_for_tensor(g, f))
      return void(out.without.emplace_back(f.op->name, fmt::format("{} takes numbers as well", g.op->name)));
  const auto collides = [&] { return std::any_of(out.all.begin(), out.all.end(), [&](const Function& g) { return collide(f, g); }); };
  const Function whole = f;
  while (collides())
    if (!require_one_more(f)) {
      f = whole;
      f.name += "_" + overload_of(f.op->name);
      break;
    }
  out.all.push_back(std::move(f));
}

const Functions& functions() {
  static const Functions made = [] {
    Functions out;
    std::vector<std::string> order;
    std::map<std::string, std::vector<const Op*>> by_name;
    for (const Op& op : ops::table().rows()) {
      if (std::string reason = reason_against(op); !reason.empty()) {
        out.without.emplace_back(op.name, reason);
        continue;
      }
      auto& rows = by_name[base_of(op.name)];
      if (rows.empty()) order.push_back(base_of(op.name));
      rows.push_back(&op);
    }
    for (const std::string& name : order) {
      auto& rows = by_name[name];
      // What PyTorch takes by position goes before what it takes by name, which has no position there.
      std::stable_partition(rows.begin(), rows.end(), [](const Op* op) { return !begins_by_name(*op); });
      std::stable_partition(rows.begin(), rows.end(), [](const Op* op) { return is_binary_formula(*op); });
      for (const Op* op : rows) add_function(out, function_of(*op));
    }
    return out;
  }();
  return made;
}

std::string result_type(const Op& op) {
  const auto& r = op.schema.returns;
  if (r.empty()) return "void";
  if (r[0].list || r.size() > 3) return "std::vector<Tensor>";
  if (r.size() == 1) return "Tensor";
  return r.size() == 2 ? "std::pair<Tensor, Tensor>" : "std::tuple<Tensor, Tensor, Tensor>";
}

std::string signature(const Function& f, bool declares) {
  std::string out = fmt::format("{} {}(", result_type(*f.op), f.name);
  for (const Parameter& p : shown(f))
    out += fmt::format("{} {}{}, ", p.type, p.name, declares && !p.fallback.empty() ? " = " + p.fallback : "");
  return out + (declares ? "Where where = Where::current())" : "Where where)");
}

// Braces around one number would be that number: a form of its own takes them for a list. Empty where a function takes none beside a
// number.
std::string form_for_braces(const Function& f) {
  const std::vector<Parameter> parameters = shown(f);
  const auto list = std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.kind == 'M'; });
  if (list == parameters.end()) return "";
  Function braced = f;
  std::string args;
  for (Parameter& p : braced.parameters) {
    if (p.kind == 'M') p.type = "std::initializer_list<SymInt>";
    args += p.kind == 'M' ? fmt::format("std::vector<SymInt>({}), ", p.name) : p.name + ", ";
  }
  return fmt::format("inline {} {{ return {}({}where); }}\n", signature(braced, true), f.name, args);
}

std::string definition(const Function& f) {
  std::string args;
  for (const Parameter& p : f.parameters) args += (args.empty() ? "" : ", ") + p.argument;
  const std::string type = result_type(*f.op);
  const char* function = type == "Tensor"                      ? "call1"
                         : type == "std::pair<Tensor, Tensor>" ? "two"
                         : type.starts_with("std::tuple")      ? "three"
                                                               : "call";
  const bool by_row = type == "std::pair<Tensor, Tensor>" || type.starts_with("std::tuple");
  const std::string row = fmt::format("{}\"{}\"{}", by_row ? "ops::get(" : "", f.op->name, by_row ? ")" : "");
  std::string before;
  if (f.on_device) before = "DeviceScope scope(device.value_or(default_device()));\n  ";
  if (is_binary_formula(*f.op) && !f.op->inplace_of)
    before = fmt::format("need_tensor(\"{}\", {}, {});\n  ", f.op->name, f.parameters[0].name, f.parameters[1].name);
  return fmt::format("{} {{\n  {}{}{}({}, {{{}}}, where);\n}}\n", signature(f, false), before, type == "void" ? "" : "return ", function,
                     row, args);
}

constexpr const char* kNotice = "Generated from the operation table by tests/ops/generate.cpp (scripts/generate.sh); do not edit.";

std::string header() {
  std::string out = fmt::format(
      "// The operations of the table that toroid/ops.h does not declare by hand, under their PyTorch names; toroid/ops.h includes it.\n"
      "// {}\n#pragma once\n\n#include <limits>\n#include <tuple>\n\n#include \"toroid/ops_arguments.h\"\n\n// clang-format off\nnamespace toroid {{\n\n",
      kNotice);
  std::string last;
  for (const Function& f : functions().all) {
    const std::string base = base_of(f.op->name);
    if (base != last) out += fmt::format("// {}{}\n", base.ends_with("_") ? "In place: " : "", ops::description(base));
    last = base;
    out += signature(f, true) + ";\n";
    out += form_for_braces(f);
  }
  return out + "\n}  // namespace toroid\n// clang-format on\n";
}

std::string source() {
  std::string out = fmt::format(
      "// Definitions of toroid/ops_table.h.\n// {}\n#include \"ops/function_arguments.h\"\n\n// clang-format off\nnamespace toroid {{\n\nusing ops::call;\nusing ops::call1;\nusing namespace ops::arguments;\n\n",
      kNotice);
  for (const Function& f : functions().all) out += definition(f);
  return out + "\n}  // namespace toroid\n// clang-format on\n";
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string operations_page() {
  std::string out = fmt::format(
      "# Operations\n\n{} Sorted by name; one row an overload; arguments that Toroid ignores (layout, memory format, generator) are left out. "
      "`toroid ops NAME` answers for any name, as `aten::add` or `torch.special.erfcx`, and says what gradients there are. *By*: how the row is "
      "defined. A formula, a view and a composite (in terms of other operations) are compiled and fuse; a kernel is a reduction, product or the "
      "like that lowering knows, or it runs as a call of its reference implementation. Forms in place (`add_`) write into their first argument "
      "and are not listed.\n\n"
      "| operation | call | by | what it computes |\n|---|---|---|---|\n",
      kNotice);
  std::multimap<std::string, const Op*> by_name;
  for (const Op& op : ops::table().rows())
    if (!op.inplace_of && !ops::description(base_of(op.name)).empty()) by_name.emplace(base_of(op.name), &op);
  for (auto& [name, op] : by_name)
    out += fmt::format("| `{}` | `{}` | {} | {} |\n", name, cell(ops::schema_text(*op)), ops::kind_text(*op), cell(ops::description(name)));
  out += "\n## Rows without a C++ function\n\n| operation | reason |\n|---|---|\n";
  std::map<std::string, std::string> without;
  for (auto& [name, reason] : functions().without)
    if (!ops::get(name).inplace_of && !reason.starts_with("served")) without.emplace(name, reason);
  for (auto& [name, reason] : without) out += fmt::format("| `{}` | {} |\n", name, reason);
  out +=
      "\n## Names that are not there\n\nWhat people look for beside. More in [limits.md](limits.md), \"exported programs\".\n\n| operation | instead |\n|---|---|\n";
  for (const ops::Refused& r : ops::refused())
    out += fmt::format("| `{}`{} | {} |\n", r.name, r.how == ops::Refusal::InPart ? ", in part" : "", r.reason);
  return out;
}

std::string options_page() {
  std::string out =
      "# Options\n\nGenerated from the option table by tests/ops/generate.cpp (scripts/generate.sh); do not edit. `set_option(name, value)` sets an "
      "option of the process. Scope *process*: one value; *compile*: one compile may have a value of its own; *compile only*: the process has none.\n\n"
      "| option | type | default | environment variable | scope | what it does |\n|---|---|---|---|---|---|\n";
  for (const OptionInfo& o : list_options())
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", o.name, o.type, o.default_value.empty() ? "" : "`" + cell(o.default_value) + "`",
                    o.environment.empty() ? "" : "`" + o.environment + "`", o.scope, cell(o.doc));
  return out;
}

}  // namespace

std::vector<File> files() {
  return {{"include/toroid/ops_table.h", header()},
          {"src/ops/functions_table.cpp", source()},
          {"docs/ops.md", operations_page()},
          {"docs/options.md", options_page()}};
}

std::vector<std::pair<std::string, std::string>> rows_without_function() { return functions().without; }

std::vector<std::string> names_by_hand() { return {by_hand().begin(), by_hand().end()}; }

}  // namespace toroid::generate
