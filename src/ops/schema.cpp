#include "ops/schema.h"

#include <charconv>

#include "base/check.h"

namespace toroid::ops {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Splits at top-level commas (outside of brackets and parentheses).
std::vector<std::string_view> split_commas(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    char c = i < s.size() ? s[i] : ',';
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (c == ',' && (depth == 0 || i == s.size())) {
      if (auto part = trim(s.substr(start, i - start)); !part.empty()) out.push_back(part);
      start = i + 1;
    }
  }
  return out;
}

ParamType type_from_name(std::string_view name, std::string_view schema) {
  if (name == "Tensor") return ParamType::Tensor;
  if (name == "Scalar") return ParamType::Scalar;
  if (name == "int" || name == "SymInt") return ParamType::Int;
  if (name == "float") return ParamType::Float;
  if (name == "bool") return ParamType::Bool;
  if (name == "str") return ParamType::Str;
  if (name == "ScalarType") return ParamType::DType;
  if (name == "complex") return ParamType::Complex;
  if (name == "Graph") return ParamType::Graph;
  if (name == "Layout" || name == "Device" || name == "MemoryFormat" || name == "Generator") return ParamType::Ignored;
  fail<InternalError>("unknown type {} in schema {}", name, schema);
}

// "Tensor(a!)?[]" and the like; what is left of `text` after the type is the name and default.
void parse_type(std::string_view& text, Param& p, std::string_view schema) {
  size_t end = 0;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])))) ++end;
  p.type = type_from_name(text.substr(0, end), schema);
  text.remove_prefix(end);
  bool optional = false;
  while (!text.empty()) {
    if (text[0] == '(') {
      size_t close = text.find(')');
      p.alias = true;
      p.mutated = text.substr(0, close).find('!') != std::string_view::npos;
      text.remove_prefix(close + 1);
    } else if (text[0] == '?') {
      optional = true;
      text.remove_prefix(1);
    } else if (text[0] == '[') {
      size_t close = text.find(']');
      p.list = true;
      p.optional_items = optional;
      optional = false;
      auto digits = text.substr(1, close - 1);
      std::from_chars(digits.data(), digits.data() + digits.size(), p.list_size);
      text.remove_prefix(close + 1);
    } else {
      break;
    }
  }
  p.optional = optional;
  text = trim(text);
}

Arg<Tensor> parse_default(std::string_view text, const Param& p, std::string_view schema) {
  if (text == "None") return std::monostate{};
  if (text == "True" || text == "False") return text == "True";
  if (p.type == ParamType::Str) return std::string(text.substr(1, text.size() - 2));
  if (p.type == ParamType::Ignored) return std::monostate{};
  auto number = [&](std::string_view t) {
    double v = 0;
    auto r = std::from_chars(t.data(), t.data() + t.size(), v);
    TOROID_CHECK(r.ec == std::errc(), "bad default {} in schema {}", t, schema);
    return v;
  };
  if (text.front() == '[') {
    std::vector<Expr> ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    for (auto item : split_commas(text.substr(1, text.size() - 2))) {
      if (p.type == ParamType::Bool)
        bools.push_back(item == "True");
      else if (p.type == ParamType::Float)
        floats.push_back(number(item));
      else
        ints.push_back(static_cast<int64_t>(number(item)));
    }
    if (p.type == ParamType::Bool) return bools;
    if (p.type == ParamType::Float) return floats;
    return ints;
  }
  double v = number(text);
  bool integral = text.find_first_of(".e") == std::string_view::npos;
  if (p.type == ParamType::Float || !integral) return v;
  Expr e(static_cast<int64_t>(v));
  if (p.list) return std::vector<Expr>(static_cast<size_t>(std::max<int64_t>(p.list_size, 1)), e);
  return e;
}

}  // namespace

int Schema::find(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

Schema parse_schema(std::string_view text) {
  Schema s;
  size_t open = text.find('(');
  size_t arrow = text.rfind("->");
  TOROID_CHECK(open != std::string_view::npos && arrow != std::string_view::npos, "malformed schema {}", text);
  s.name = std::string(trim(text.substr(0, open)));
  if (s.name.ends_with(".default")) s.name.resize(s.name.size() - 8);
  auto inner = trim(text.substr(open + 1, arrow - open - 1));
  TOROID_CHECK(!inner.empty() && inner.back() == ')', "malformed schema {}", text);
  inner.remove_suffix(1);
  bool keyword_only = false;
  for (auto part : split_commas(inner)) {
    if (part == "*") {
      keyword_only = true;
      continue;
    }
    Param p;
    p.keyword_only = keyword_only;
    auto rest = part;
    parse_type(rest, p, text);
    size_t eq = rest.find('=');
    p.name = std::string(trim(rest.substr(0, eq)));
    if (eq != std::string_view::npos) {
      p.has_default = true;
      p.default_value = parse_default(trim(rest.substr(eq + 1)), p, text);
    }
    s.params.push_back(std::move(p));
  }
  auto result = trim(text.substr(arrow + 2));
  if (!result.empty() && result.front() == '(') result = result.substr(1, result.size() - 2);
  for (auto part : split_commas(result)) {
    Param p;
    auto rest = part;
    parse_type(rest, p, text);
    s.returns.push_back({p.type, p.list});
  }
  return s;
}

}  // namespace toroid::ops
