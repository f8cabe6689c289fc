// The argument half of NodeImporter: what the file writes for an operation's parameters, in the form that the op table wants.
#include "base/check.h"
#include "import/pt2_nodes.h"
#include "import/sym_tensors.h"

namespace toroid::import {
namespace {

using ops::ParamType;

[[noreturn]] void refuse(const ops::Param& param, const Argument& arg) {
  fail<UserError>("argument \"{}\" is {}, which does not fit the parameter", param.name, arg.tag());
}

DType dtype_of(const ops::Param& param, int64_t number) {
  auto t = dtype_from_scalar_type(number);
  TOROID_USER_CHECK(t, "argument \"{}\" is the dtype {}, which Toroid does not have", param.name, scalar_type_name(number));
  return *t;
}

// What memory a result takes, not what it holds.
bool is_placement(const Argument& arg) { return arg.is<NoneArg>() || arg.is<DeviceRef>() || arg.is<LayoutArg>() || arg.is<MemoryFormat>(); }

}  // namespace

Tensor NodeImporter::tensor(const Scope& scope, const std::string& name) { return recorder_.proxy(find(scope, name)); }

Expr NodeImporter::size(const Scope& scope, const SymIntArg& arg) {
  if (!arg.is_name()) return arg.value;
  auto it = scope.graph->sym_int_values.find(arg.name);
  TOROID_USER_CHECK(it != scope.graph->sym_int_values.end(), "the number \"{}\" is not defined in the file", arg.name);
  Expr out = symbols_.expr(it->second);
  define_sizes(out);
  TOROID_USER_CHECK(are_defined(out),
                    "the number \"{}\" ({}) follows from the contents of tensors in a way that Toroid cannot use as a size or an index",
                    arg.name, sym::to_string(out));
  return out;
}

// A symbolic float or condition, or a number that was read from a tensor.
Arg<Tensor> NodeImporter::named_number(const Scope& scope, const ops::Param& param, const std::string& name) {
  const SymAst* ast = nullptr;
  if (auto it = scope.read_numbers.find(name); it != scope.read_numbers.end()) {
    TOROID_USER_CHECK(param.type == ParamType::Tensor,
                      "argument \"{}\" is a number that the program reads from a tensor; Toroid needs to know it before the run",
                      param.name);
    Tensor t = recorder_.proxy(it->second);
    return t.dim() == 0 ? t : ops::call1("reshape", {t, std::vector<Expr>{}});
  }
  if (auto it = scope.graph->sym_float_values.find(name); it != scope.graph->sym_float_values.end()) {
    if (!it->second.expr) return it->second.value;
    ast = it->second.expr.get();
  } else if (auto jt = scope.graph->sym_bool_values.find(name); jt != scope.graph->sym_bool_values.end()) {
    if (!jt->second.expr) return jt->second.value;
    ast = jt->second.expr.get();
    if (ast->kind == SymAstKind::Bool) return ast->value != 0;
  }
  TOROID_USER_CHECK(ast, "the number \"{}\" is not defined in the file", name);
  if (auto v = fold(*ast)) return *v;
  TOROID_USER_CHECK(param.type == ParamType::Tensor,
                    "argument \"{}\" is {}, a fraction that depends on the sizes of the inputs; only tensor operands may be that",
                    param.name, to_string(*ast));
  return number_tensor(*ast, symbols_);
}

Arg<Tensor> NodeImporter::convert_number(const Scope& scope, const ops::Param& param, const Argument& arg) {
  if (auto* i = arg.get<int64_t>()) {
    if (param.type == ParamType::Float) return static_cast<double>(*i);
    if (param.type == ParamType::Bool) return *i != 0;
    return Expr(*i);
  }
  if (auto* d = arg.get<double>()) return *d;
  if (auto* b = arg.get<bool>()) {
    if (param.type == ParamType::Int) return Expr(*b ? 1 : 0);
    return *b;
  }
  if (auto* c = arg.get<ComplexArg>()) return std::complex<double>(c->real, c->imag);
  if (auto* s = arg.get<SymIntArg>()) {
    if (s->is_name() && param.type == ParamType::Tensor && scope.read_numbers.count(s->name)) return named_number(scope, param, s->name);
    return size(scope, *s);
  }
  if (auto* s = arg.get<SymFloatArg>()) return s->is_name() ? named_number(scope, param, s->name) : Arg<Tensor>(s->value);
  if (auto* s = arg.get<SymBoolArg>()) return s->is_name() ? named_number(scope, param, s->name) : Arg<Tensor>(s->value);
  refuse(param, arg);
}

Arg<Tensor> NodeImporter::convert_list(const Scope& scope, const ops::Param& param, const Argument& arg) {
  if (auto* v = arg.get<std::vector<int64_t>>()) {
    if (param.type == ParamType::Float) return std::vector<double>(v->begin(), v->end());
    if (param.type == ParamType::Tensor && v->empty()) return std::vector<Tensor>();
    return std::vector<Expr>(v->begin(), v->end());
  }
  if (auto* v = arg.get<std::vector<SymIntArg>>()) {
    std::vector<Expr> out;
    for (auto& s : *v) out.push_back(size(scope, s));
    return out;
  }
  if (auto* v = arg.get<std::vector<double>>()) return *v;
  if (auto* v = arg.get<std::vector<bool>>()) return *v;
  if (auto* v = arg.get<TensorsArg>()) {
    std::vector<Tensor> out;
    for (auto& name : v->names) out.push_back(tensor(scope, name));
    if (param.type != ParamType::Tensor && out.empty()) return std::vector<Expr>();
    return out;
  }
  if (auto* v = arg.get<OptionalTensorsArg>()) {
    std::vector<Tensor> out;
    for (auto& name : v->names) out.push_back(name ? tensor(scope, *name) : Tensor());
    return out;
  }
  if (param.type == ParamType::Tensor) refuse(param, arg);
  return convert_number(scope, param, arg);  // one number for a list
}

Arg<Tensor> NodeImporter::convert(const Scope& scope, const ops::Param& param, const Argument& arg) {
  if (param.type == ParamType::Ignored || arg.is<NoneArg>()) return std::monostate{};
  if (param.list) return convert_list(scope, param, arg);
  if (auto* t = arg.get<TensorArg>()) {
    if (param.type != ParamType::Tensor) refuse(param, arg);
    return tensor(scope, t->name);
  }
  if (auto* t = arg.get<OptionalTensorArg>()) return t->name ? Arg<Tensor>(tensor(scope, *t->name)) : Arg<Tensor>(std::monostate{});
  if (auto* t = arg.get<ScalarTypeArg>()) return dtype_of(param, t->number);
  if (auto* s = arg.get<std::string>()) {
    if (param.type != ParamType::Str) refuse(param, arg);
    return *s;
  }
  return convert_number(scope, param, arg);
}

CallArgs NodeImporter::call_args(const Scope& scope, const ExportedNode& node, const ops::Op& op) {
  CallArgs out;
  std::vector<bool> given(op.schema.params.size(), false);
  for (auto& p : op.schema.params) out.push_back(p.default_value);
  size_t position = 0;
  for (auto& in : node.inputs) {
    int at = in.name.empty() ? static_cast<int>(position++) : op.schema.find(in.name);
    bool known = at >= 0 && static_cast<size_t>(at) < out.size();
    TOROID_USER_CHECK(known || is_placement(in.arg), "there is no parameter \"{}\" in Toroid's {}", in.name, op.name);
    if (!known) continue;
    out[static_cast<size_t>(at)] = convert(scope, op.schema.params[static_cast<size_t>(at)], in.arg);
    given[static_cast<size_t>(at)] = true;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const ops::Param& p = op.schema.params[i];
    TOROID_USER_CHECK(given[i] || p.has_default || p.optional || p.type == ParamType::Ignored, "argument \"{}\" is missing", p.name);
  }
  return out;
}

}  // namespace toroid::import
