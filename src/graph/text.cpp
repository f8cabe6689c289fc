// Pieces of the text form that graphs and lowered programs share.
#include "graph/text.h"

#include <fmt/ranges.h>

#include <cmath>

namespace toroid::graph {
namespace {

constexpr int64_t kMaxBound = sym::kInf - 1;

std::optional<DType> dtype_of(std::string_view word) {
  for (int t = 0; t < kDTypeCount; ++t)
    if (word == name_of(static_cast<DType>(t))) return static_cast<DType>(t);
  return std::nullopt;
}

bool is_keyword(std::string_view word) {
  for (std::string_view own : {"none", "true", "false", "inf", "nan", "complex", "tensors", "floats", "bools"})
    if (word == own) return true;
  return dtype_of(word).has_value();
}

std::string text_of(double v) {
  if (std::isnan(v)) return "nan";
  std::string s = fmt::format("{}", v);
  return s.find_first_of(".ein") == std::string::npos ? s + ".0" : s;
}

// An expression among arguments, where words such as "none" and "f32" mean something else than symbols.
std::string text_of(const Expr& e) {
  return sym::to_string(
      e, [](const sym::Node& n) { return sym::is_identifier(n.name) && !is_keyword(n.name) ? n.name : sym::quoted(n.name); });
}

std::string text_of(bool b) { return b ? "true" : "false"; }

template <class T>
std::string list(const char* empty, const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < items.size(); ++i) texts.push_back(text_of(static_cast<const T&>(items[i])));
  return list_text(empty, texts);
}

struct Text {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(NoTensor) const { return "none"; }
  std::string operator()(const std::vector<NoTensor>&) const { return "tensors[]"; }
  std::string operator()(const Expr& e) const { return text_of(e); }
  std::string operator()(double v) const { return text_of(v); }
  std::string operator()(bool v) const { return text_of(v); }
  std::string operator()(const std::string& s) const { return sym::in_quotes(s); }
  std::string operator()(DType t) const { return std::string(name_of(t)); }
  std::string operator()(std::complex<double> v) const { return fmt::format("complex({}, {})", text_of(v.real()), text_of(v.imag())); }
  std::string operator()(const std::vector<Expr>& v) const { return list("[]", v); }
  std::string operator()(const std::vector<double>& v) const { return list("floats[]", v); }
  std::string operator()(const std::vector<bool>& v) const { return list("bools[]", v); }
};

}  // namespace

std::string list_text(const char* empty, const std::vector<std::string>& items) {
  return items.empty() ? empty : fmt::format("[{}]", fmt::join(items, ", "));
}

std::string plain_text(const Arg<NoTensor>& a) { return std::visit(Text{}, a); }

std::string type_text(const TensorType& t) {
  std::string out = to_string(t);
  if (t.strides.empty()) return out;
  out += " strides(";
  for (size_t d = 0; d < t.strides.size(); ++d) out += (d ? ", " : "") + sym::to_string(t.strides[d]);
  return out + ")";
}

std::string symbols_text(const std::vector<Symbol>& symbols) {
  if (symbols.empty()) return "";
  std::string out;
  for (auto& s : symbols) {
    const sym::Node& n = *s.expr.node();
    const std::string hi = n.hi == kMaxBound ? "inf" : std::to_string(n.hi);
    out += fmt::format("{}{}{} in {}..{}", out.empty() ? "" : ", ", sym::to_string(s.expr), s.unbacked ? " unbacked" : "", n.lo, hi);
  }
  return " symbols(" + out + ")";
}

std::string guards_text(const std::vector<sym::Guard>& guards) {
  if (guards.empty()) return "";
  std::string out;
  for (auto& g : guards) out += (out.empty() ? "" : ", ") + sym::to_string(g) + (g.is_requirement() ? " " + sym::in_quotes(g.error) : "");
  return " guards(" + out + ")";
}

DType TextReader::dtype() {
  const size_t at = skip_space();
  const std::string name = word("a dtype such as f32");
  return located(at, [&] { return dtype_from_name(name); });
}

TensorType TextReader::type() {
  TensorType t;
  t.dtype = dtype();
  expect("[");
  items("]", [&] { t.sizes.push_back(expression(",]")); });
  if (take("strides")) {
    const size_t at = at_;
    expect("(");
    items(")", [&] { t.strides.push_back(expression(",)")); });
    if (t.strides.size() != t.sizes.size()) error_at(at, "as many strides as sizes are expected");
  }
  return t;
}

void TextReader::skip_type() {
  word("a dtype such as f32");
  expect("[");
  skip_to(']');
  if (take("strides")) {
    expect("(");
    skip_to(')');
  }
}

void TextReader::symbols(const std::function<void(Symbol)>& add) {
  expect("(");
  items(")", [&] {
    const size_t at = skip_space();
    const std::string name = symbol_name();
    const bool unbacked = take("unbacked");
    expect("in");
    const int64_t lo = integer();
    expect("..");
    const int64_t hi = take("inf") ? kMaxBound : integer();
    if (lo > hi || lo < -sym::kInf || hi > sym::kInf) error_at(at, "the range is empty or too large");
    located(at, [&] { add({sym::symbol(name, lo, hi), unbacked}); });
  });
}

std::vector<sym::Guard> TextReader::guards() {
  std::vector<sym::Guard> out;
  expect("(");
  items(")", [&] {
    out.push_back(relation(",)\""));
    if (peek() == '"') out.back().error = quoted();
  });
  return out;
}

std::variant<double, DType, Expr> TextReader::plain_argument() {
  const size_t at = skip_space();
  const std::string text = raw(",)]}@", "an argument");
  if (const auto v = sym::as_float(text)) return *v;
  if (const auto t = dtype_of(text)) return *t;
  return to_expr(text, at);
}

double TextReader::number(const char* stop) {
  const size_t at = skip_space();
  const auto v = sym::as_float(raw(stop, "a number"));
  if (!v) error_at(at, "expected a number such as 1.0");
  return *v;
}

}  // namespace toroid::graph
