// The graph as text, one node a line.
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "graph/graph.h"

namespace toroid::graph {
namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (byte < 32 || byte == 127)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

std::string text_of(double v) {
  if (std::isnan(v)) return "nan";
  std::string s = fmt::format("{}", v);
  return s.find_first_of(".ein") == std::string::npos ? s + ".0" : s;
}

template <class T, class F>
std::string list(const char* empty, const std::vector<T>& items, F&& text) {
  if (items.empty()) return empty;
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out += (i ? ", " : "") + text(items[i]);
  return out + "]";
}

bool is_keyword(std::string_view word) {
  for (std::string_view own : {"none", "true", "false", "inf", "nan", "complex", "tensors", "floats", "bools"})
    if (word == own) return true;
  for (int t = 0; t < kDTypeCount; ++t)
    if (word == name_of(static_cast<DType>(t))) return true;
  return false;
}

// An expression among arguments, where words such as "none" and "f32" mean something else than symbols.
std::string text_of(const Expr& e) {
  return sym::to_string(
      e, [](const sym::Node& n) { return sym::is_identifier(n.name) && !is_keyword(n.name) ? n.name : sym::quoted(n.name); });
}

std::string text_of(const Value* v) { return v ? "%" + v->name : "none"; }
std::string text_of(bool b) { return b ? "true" : "false"; }

std::string text_of(const NodeArg& a) {
  return std::visit(
      [](const auto& v) -> std::string {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, std::monostate>)
          return "none";
        else if constexpr (std::is_same_v<V, Expr>)
          return text_of(v);
        else if constexpr (std::is_same_v<V, std::string>)
          return quoted(v);
        else if constexpr (std::is_same_v<V, DType>)
          return std::string(name_of(v));
        else if constexpr (std::is_same_v<V, std::complex<double>>)
          return fmt::format("complex({}, {})", text_of(v.real()), text_of(v.imag()));
        else if constexpr (std::is_same_v<V, std::vector<Value*>>)
          return list("tensors[]", v, [](const Value* x) { return text_of(x); });
        else if constexpr (std::is_same_v<V, std::vector<Expr>>)
          return list("[]", v, [](const Expr& x) { return text_of(x); });
        else if constexpr (std::is_same_v<V, std::vector<double>>)
          return list("floats[]", v, [](double x) { return text_of(x); });
        else if constexpr (std::is_same_v<V, std::vector<bool>>)
          return list("bools[]", v, [](bool x) { return text_of(x); });
        else
          return text_of(v);
      },
      a);
}

// The argument is what the schema fills in when it is left out.
bool is_default(const NodeArg& a, const ops::Param& p) {
  NodeArg d = map_arg<Value*>(p.default_value, [](const Tensor&) -> Value* { return nullptr; });
  if (!p.has_default) d = std::monostate{};
  return a.index() == d.index() && text_of(a) == text_of(d);
}

std::string text_of(const TensorType& t) {
  std::string out = to_string(t);
  if (t.strides.empty()) return out;
  out += " strides(";
  for (size_t d = 0; d < t.strides.size(); ++d) out += (d ? ", " : "") + sym::to_string(t.strides[d]);
  return out + ")";
}

std::string print(const Graph& g, const std::string& indent);

std::string print(const Node& n, const std::string& indent) {
  std::string out;
  for (size_t i = 0; i < n.results.size(); ++i)
    out += fmt::format("{}%{}: {}", i ? ", " : "", n.results[i]->name, text_of(n.results[i]->type));
  out += (n.results.empty() ? "" : " = ") + n.op->name + "(";
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
    if (!positional) out += p.name + "=";
    out += text_of(n.args[i]);
  }
  out += ")";
  for (auto& r : n.regions) out += " {\n" + indent + "  " + print(*r, indent + "  ") + indent + "}";
  if (!n.where.empty()) out += "  @ " + quoted(n.where);
  return out;
}

std::string print(const Graph& g, const std::string& indent) {
  std::string out = "graph " + quoted(g.name) + "(";
  constexpr const char* kKinds[] = {"", "param ", "buffer ", "constant ", "random"};
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Input& in = g.inputs[i];
    std::string draws = in.kind == InputKind::Random ? fmt::format("({}) ", sym::to_string(in.draws)) : "";
    out += fmt::format("{}{}{}%{}", i ? ", " : "", kKinds[static_cast<int>(in.kind)], draws, in.value->name);
    if (in.name != in.value->name) out += " " + quoted(in.name);
    out += ": " + text_of(in.value->type);
  }
  out += ")";
  if (!g.symbols.empty()) {
    out += " symbols(";
    for (size_t i = 0; i < g.symbols.size(); ++i) {
      const sym::Node& s = *g.symbols[i].expr.node();
      std::string hi = s.hi == sym::kInf - 1 ? "inf" : std::to_string(s.hi);
      out += fmt::format("{}{}{} in {}..{}", i ? ", " : "", sym::to_string(g.symbols[i].expr), g.symbols[i].unbacked ? " unbacked" : "",
                         s.lo, hi);
    }
    out += ")";
  }
  if (!g.guards.empty()) {
    out += " guards(";
    for (size_t i = 0; i < g.guards.size(); ++i) out += (i ? ", " : "") + sym::to_string(g.guards[i]);
    out += ")";
  }
  out += " {\n";
  for (auto& n : g.nodes) out += indent + "  " + print(*n, indent + "  ") + "\n";
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
