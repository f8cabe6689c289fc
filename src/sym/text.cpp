// Text form of expressions: "2*s0*i + floordiv(i, 4) + 1", "2*'batch size'".
#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

using Resolve = std::function<Expr(const std::string& name, bool quoted)>;

class Parser {
 public:
  Parser(const std::string& text, const Resolve& resolve) : text_(text), resolve_(resolve) {}

  Expr whole() {
    Expr e = sum();
    if (at_ != text_.size()) error("expected the end");
    return e;
  }

 private:
  [[noreturn]] void error(const char* what) { fail<UserError>("size expression \"{}\": {} at column {}", text_, what, at_ + 1); }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) { return peek() == c ? (++at_, true) : false; }

  Expr sum() {
    if (++depth_ > 200) error("nested too deeply");
    Expr e = product();
    for (;;) {
      if (take('+'))
        e = e + product();
      else if (take('-'))
        e = e - product();
      else
        break;
    }
    --depth_;
    return e;
  }
  Expr product() {
    Expr e = unary();
    while (take('*')) e = e * unary();
    return e;
  }
  Expr unary() {
    bool negative = false;
    while (take('-')) negative = !negative;
    Expr e = atom();
    return negative ? -e : e;
  }
  Expr atom() {
    char c = peek();
    if (take('(')) {
      Expr e = sum();
      if (!take(')')) error("expected )");
      return e;
    }
    size_t start = at_;
    if (std::isdigit(static_cast<unsigned char>(c))) {
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) ++at_;
      int64_t value = 0;
      if (std::from_chars(text_.data() + start, text_.data() + at_, value).ec != std::errc()) error("number too large");
      return value;
    }
    if (c == '\'') {
      const auto end = end_of_quoted(text_, at_);
      if (!end) error("expected another '");
      at_ = *end;
      return resolve_(unquoted(std::string_view(text_).substr(start, at_ - start)), true);
    }
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) error("expected a number, a name or (");
    std::string name = text_.substr(start, at_ - start);
    if (!take('(')) return resolve_(name, false);
    Expr a = sum();
    if (!take(',')) error("expected ,");
    Expr b = sum();
    if (!take(')')) error("expected )");
    if (name == "floordiv") return floor_div(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    error("unknown function");
  }

  const std::string& text_;
  const Resolve& resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_identifier(std::string_view name) { return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), is_word); }

std::string quoted(std::string_view name) {
  std::string out = "'";
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\')
      (out += '\\') += c;
    else if (byte < 32 || byte == 127)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "'";
}

std::optional<size_t> end_of_quoted(std::string_view text, size_t begin) {
  for (size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\'') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return std::nullopt;
}

std::string unquoted(std::string_view text) {
  std::string out;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] != '\\') {
      out += text[at];
      continue;
    }
    const char e = text[++at];
    const int high = e == 'x' && at + 2 < text.size() ? hex_digit(text[at + 1]) : -1, low = high >= 0 ? hex_digit(text[at + 2]) : -1;
    TOROID_USER_CHECK(e == '\'' || e == '\\' || low >= 0, "the name {}: expected \\', \\\\ or \\xNN after the backslash", text);
    out += low >= 0 ? static_cast<char>(high * 16 + low) : e;
    if (low >= 0) at += 2;
  }
  return out;
}

std::string to_string(const Expr& e) {
  return to_string(e, [](const Node& n) { return is_size(n) && !is_identifier(n.name) ? quoted(n.name) : n.name; });
}

std::string to_string(const Expr& e, const std::function<std::string(const Node&)>& name) {
  if (e.is_const()) return std::to_string(e.constant());
  const Node& n = *e.node();
  auto call = [&](const char* f) { return fmt::format("{}({}, {})", f, to_string(n.args[0], name), to_string(n.args[1], name)); };
  switch (n.kind) {
    case Kind::Symbol:
      return name(n);
    case Kind::FloorDiv:
      return call("floordiv");
    case Kind::Mod:
      return call("mod");
    case Kind::Min:
      return call("min");
    case Kind::Max:
      return call("max");
    default:
      break;
  }
  std::string out;
  for (auto& t : n.terms) {
    int64_t c = t.coef;
    if (out.empty())
      out += c < 0 ? "-" : "";
    else
      out += c < 0 ? " - " : " + ";
    uint64_t m = c < 0 ? 0 - static_cast<uint64_t>(c) : static_cast<uint64_t>(c);
    bool number = t.factors.empty() || m != 1;
    if (number) out += std::to_string(m);
    for (size_t i = 0; i < t.factors.size(); ++i) out += (i || number ? "*" : "") + to_string(t.factors[i], name);
  }
  return out;
}

Expr parse(const std::string& text, const std::function<Expr(const std::string& name, bool quoted)>& resolve) {
  return Parser(text, resolve).whole();
}

std::string to_string(const Relation& r) {
  constexpr const char* kText[] = {"==", "!=", "<", "<=", ">", ">="};
  return fmt::format("{} {} {}", to_string(r.a), kText[static_cast<int>(r.rel)], to_string(r.b));
}

}  // namespace toroid::sym
