// Text form of expressions: "2*s0*i + floordiv(i, 4) + 1".
#include <cctype>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

class Parser {
 public:
  Parser(const std::string& text, const std::function<Expr(const std::string&)>& resolve) : text_(text), resolve_(resolve) {}

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
      if (at_ - start > 18) error("number too large");
      return std::stoll(text_.substr(start, at_ - start));
    }
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    if (at_ == start) error("expected a number, a name or (");
    std::string name = text_.substr(start, at_ - start);
    if (!take('(')) return resolve_(name);
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
  const std::function<Expr(const std::string&)>& resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string to_string(const Expr& e) {
  if (e.is_const()) return std::to_string(e.constant());
  const Node& n = *e.node();
  auto call = [&](const char* f) { return fmt::format("{}({}, {})", f, to_string(n.args[0]), to_string(n.args[1])); };
  switch (n.kind) {
    case Kind::Symbol:
      return n.name;
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
    for (size_t i = 0; i < t.factors.size(); ++i) out += (i || number ? "*" : "") + to_string(t.factors[i]);
  }
  return out;
}

Expr parse(const std::string& text, const std::function<Expr(const std::string&)>& resolve) { return Parser(text, resolve).whole(); }

std::string to_string(const Relation& r) {
  constexpr const char* kText[] = {"==", "!=", "<", "<=", ">", ">="};
  return fmt::format("{} {} {}", to_string(r.a), kText[static_cast<int>(r.rel)], to_string(r.b));
}

}  // namespace toroid::sym
