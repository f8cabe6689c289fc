// The graph as text, one node a line.
#include <bit>
#include <cmath>

#include "graph/text.h"

namespace toroid::graph {
namespace {

std::string text_of(const Value* v) { return v ? "%" + v->name : "none"; }
std::string text_of(const NodeArg& a) {
  return argument_text(a, [](const Value* v) { return text_of(v); });
}

// The argument is what the schema fills in when it is left out.
bool is_default(const NodeArg& a, const ops::Param& p) {
  if (a.index() != (p.has_default ? p.default_value.index() : 0)) return false;
  if (std::holds_alternative<std::monostate>(a)) return true;
  if (auto* v = std::get_if<Value*>(&a)) return *v == nullptr;
  if (auto* b = std::get_if<bool>(&a)) return *b == std::get<bool>(p.default_value);
  if (auto* t = std::get_if<DType>(&a)) return *t == std::get<DType>(p.default_value);
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return *e == std::get<Expr>(p.default_value);
  if (auto* d = std::get_if<double>(&a); d && !std::isnan(*d))
    return std::bit_cast<int64_t>(*d) == std::bit_cast<int64_t>(std::get<double>(p.default_value));
  NodeArg d = map_arg<Value*>(p.default_value, [](const Tensor&) -> Value* { return nullptr; });
  return text_of(a) == text_of(d);
}

std::string print(const Graph& g, const std::string& indent);

void append(const Value& v, std::string& out) { (out += '%') += v.name; }

void append(const NodeArg& a, std::string& out) {
  if (auto* v = std::get_if<Value*>(&a); v && *v)
    append(**v, out);
  else
    out += text_of(a);
}

// Long graphs have many nodes: what each takes is what their text takes.
void print(const Node& n, const std::string& indent, std::string& out) {
  for (size_t i = 0; i < n.results.size(); ++i) {
    out += i ? ", " : "";
    append(*n.results[i], out);
    (out += ": ") += type_text(n.results[i]->type);
  }
  out += n.results.empty() ? "" : " = ";
  (out += n.op->name) += '(';
  bool positional = true, first = true;
  for (size_t i = 0; i < n.args.size(); ++i) {
    const ops::Param& p = n.op->schema.params[i];
    if (p.type == ops::ParamType::Graph) continue;
    positional = positional && p.type == ops::ParamType::Tensor && !p.keyword_only;
    if (is_default(n.args[i], p)) {
      positional = false;
      continue;
    }
    out += first ? "" : ", ";
    first = false;
    if (!positional) (out += p.name) += '=';
    append(n.args[i], out);
  }
  out += ')';
  for (auto& r : n.regions) out += " {\n" + indent + "  " + print(*r, indent + "  ") + indent + "}";
  if (n.checkpoint) out += fmt::format(" checkpoint {}", n.checkpoint);
  if (n.pass != Pass::Forward) (out += ' ') += kPassNames[static_cast<size_t>(n.pass)];
  if (!n.where.empty()) (out += "  @ ") += sym::in_quotes(n.where);
}

std::string print(const Graph& g, const std::string& indent) {
  std::string out = "graph " + sym::in_quotes(g.name) + "(";
  constexpr const char* kKinds[] = {"", "param ", "buffer ", "constant ", "random"};
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Input& in = g.inputs[i];
    std::string draws = in.kind == InputKind::Random ? fmt::format("({}) ", sym::to_string(in.draws)) : "";
    out += fmt::format("{}{}{}%{}", i ? ", " : "", kKinds[static_cast<int>(in.kind)], draws, in.value->name);
    if (in.name != in.value->name) out += " " + sym::in_quotes(in.name);
    out += ": " + type_text(in.value->type);
  }
  out += ")" + symbols_text(g.symbols) + guards_text(g.guards) + " {\n";
  const std::string inner = indent + "  ";
  for (auto& n : g.nodes) {
    out += inner;
    print(*n, inner, out);
    out += '\n';
  }
  out += indent + "  return";
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Output& o = g.outputs[i];
    std::string text = o.value ? text_of(o.value) : text_of(o.literal);
    if (o.mutates >= 0) text = fmt::format("(input {} <- {})", o.mutates, text);
    out += (i ? ", " : " ") + text;
  }
  return out + "\n" + indent + "}\n";
}

}  // namespace

std::string to_string(const NodeArg& a) { return text_of(a); }
std::string to_string(const Graph& g) { return print(g, ""); }

}  // namespace toroid::graph
