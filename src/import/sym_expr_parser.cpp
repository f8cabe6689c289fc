#include "import/sym_expr_parser.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace toroid::import {
namespace {

constexpr int kMaxDepth = 200;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

SymAst integer(int64_t value) {
  SymAst out;
  out.value = value;
  return out;
}

SymAst call(std::string_view head, std::vector<SymAst> args) {
  SymAst out;
  out.kind = SymAstKind::Call;
  out.name = head;
  out.args = std::move(args);
  for (const SymAst& arg : out.args) out.height = std::max(out.height, arg.height + 1);
  return out;
}

template <class... A>
SymAst call_of(std::string_view head, A... args) {
  std::vector<SymAst> list;
  (list.push_back(std::move(args)), ...);
  return call(head, std::move(list));
}

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {{"Eq", "Equality"},       {"Ne", "Unequality"},
                                                                      {"Le", "LessThan"},       {"Ge", "GreaterThan"},
                                                                      {"Lt", "StrictLessThan"}, {"Gt", "StrictGreaterThan"}};

// Binary operators by rising binding strength. Those of one level associate to the left.
struct Infix {
  std::string_view token, head;
  int level;
};
constexpr Infix kInfix[] = {{"|", "Or", 1},
                            {"&", "And", 2},
                            {"==", "Equality", 4},
                            {"!=", "Unequality", 4},
                            {"<=", "LessThan", 4},
                            {">=", "GreaterThan", 4},
                            {"<<", "LShift", 5},
                            {">>", "RShift", 5},
                            {"<", "StrictLessThan", 4},
                            {">", "StrictGreaterThan", 4},
                            {"+", "Add", 6},
                            {"-", "-", 6},
                            {"//", "FloorDiv", 7},
                            {"**", "Pow", 9},
                            {"*", "Mul", 7},
                            {"/", "/", 7},
                            {"%", "Mod", 7}};
constexpr int kUnaryLevel = 8, kPowerLevel = 9;

// Both forms share one grammar: infix operators over atoms, where an atom may be a call with keyword arguments.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  SymAst run() {
    SymAst out = expression(1);
    skip_space();
    if (at_ != text_.size()) refuse("expected the end");
    return out;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail<UserError>("symbolic expression \"{}{}\": {} at position {}", text_.substr(0, 300), text_.size() > 300 ? "..." : "", what, at_);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool take(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) refuse(fmt::format("expected '{}'", token));
  }

  const Infix* peek_infix(int level) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    for (const Infix& op : kInfix)
      if (rest.starts_with(op.token)) return op.level >= level ? &op : nullptr;
    return nullptr;
  }

  SymAst expression(int level) {
    const Depth guard(*this);
    SymAst left = unary();
    while (const Infix* op = peek_infix(level)) {
      at_ += op->token.size();
      // A power binds to the right.
      SymAst right = expression(op->level == kPowerLevel ? kUnaryLevel : op->level + 1);
      left = combine(*op, std::move(left), std::move(right));
      check_height(left);
    }
    return left;
  }

  SymAst combine(const Infix& op, SymAst left, SymAst right) {
    if (op.token == "-") {
      const bool literal = right.kind == SymAstKind::Integer && right.value > 0;
      return join("Add", std::move(left), literal ? integer(-right.value) : call_of("Mul", integer(-1), std::move(right)));
    }
    if (op.token == "/") return join("Mul", std::move(left), call_of("Pow", std::move(right), integer(-1)));
    if (op.token == "+" || op.token == "*" || op.token == "&" || op.token == "|") return join(op.head, std::move(left), std::move(right));
    return call_of(op.head, std::move(left), std::move(right));
  }

  // a + b + c is one Add of three: long sums must not make deep trees.
  static SymAst join(std::string_view head, SymAst left, SymAst right) {
    if (!left.is_call(head)) return call_of(head, std::move(left), std::move(right));
    left.height = std::max(left.height, right.height + 1);
    left.args.push_back(std::move(right));
    return left;
  }

  SymAst unary() {
    if (take("-")) {
      // "-9223372036854775808" is one literal, but the power in "-2**2" comes before the sign.
      if (const size_t start = at_; at_ < text_.size() && is_digit(text_[at_])) {
        SymAst literal = number(true);
        if (!take("**")) return literal;
        at_ = start;
      }
      SymAst inner = expression(kUnaryLevel);
      if (inner.kind == SymAstKind::Infinity) {
        inner.value = -inner.value;
        return inner;
      }
      return call_of("Mul", integer(-1), std::move(inner));
    }
    if (take("~")) return call_of("Not", expression(kUnaryLevel));
    if (take("(")) {
      SymAst inner = expression(1);
      expect(")");
      return inner;
    }
    skip_space();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (is_digit(c) || c == '.') return number(false);
    if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') return named();
    refuse("expected an expression");
  }

  // `negative`: a minus stands right before the digits.
  SymAst number(bool negative) {
    const size_t start = at_;
    bool whole = true;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool sign = (c == '+' || c == '-') && at_ > start && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      if (is_digit(c)) continue;
      if (c != '.' && c != 'e' && c != 'E' && !sign) break;
      whole = false;
    }
    const std::string_view digits = text_.substr(start - negative, at_ - start + negative);
    return whole ? integer(parse_integer(digits)) : real(digits);
  }

  int64_t parse_integer(std::string_view digits) const {
    int64_t value = 0;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size()) refuse("expected an integer of 64 bits");
    return value;
  }

  SymAst real(std::string_view digits) const {
    SymAst out;
    out.kind = SymAstKind::Float;
    const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), out.real);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size()) refuse("expected a number");
    return out;
  }

  std::string_view identifier() {
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    if (at_ == start) refuse("expected a name");
    return text_.substr(start, at_ - start);
  }

  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') refuse("expected a name in quotes");
    const size_t start = at_ + 1, stop = text_.find(quote, start);
    if (stop == text_.npos) refuse("expected the end of the name in quotes");
    at_ = stop + 1;
    return text_.substr(start, stop - start);
  }

  SymAst named() {
    const std::string_view name = identifier();
    if (take("(")) return called(name);
    SymAst out;
    if (name == "oo" || name == "int_oo") {
      out.kind = SymAstKind::Infinity;
      out.value = 1;
    } else if (name == "true" || name == "True" || name == "false" || name == "False") {
      out.kind = SymAstKind::Bool;
      out.value = name == "true" || name == "True";
    } else {
      out.kind = SymAstKind::Symbol;
      out.name = name;
    }
    return out;
  }

  // After the opening parenthesis.
  SymAst called(std::string_view head) {
    if (head == "Symbol" || head == "Dummy") return symbol();
    if (head == "Float") return float_literal();
    std::vector<SymAst> args;
    if (!take(")")) {
      do {
        args.push_back(expression(1));
      } while (take(","));
      expect(")");
    }
    if (head == "Integer") {
      if (args.size() != 1 || args[0].kind != SymAstKind::Integer) refuse("expected Integer of one number");
      return std::move(args[0]);
    }
    if (head == "Rational") return rational(args);
    for (const auto& [from, to] : kAliases)
      if (head == from) head = to;
    SymAst out = call(head, std::move(args));
    check_height(out);
    return out;
  }

  SymAst rational(const std::vector<SymAst>& args) const {
    if (args.size() != 2 || args[0].kind != SymAstKind::Integer || args[1].kind != SymAstKind::Integer || args[1].value <= 0)
      refuse("expected Rational of two integers, the second positive");
    SymAst out;
    out.kind = SymAstKind::Rational;
    out.value = args[0].value;
    out.denominator = args[1].value;
    return out;
  }

  SymAst symbol() {
    SymAst out;
    out.kind = SymAstKind::Symbol;
    out.name = quoted();
    while (take(",")) {
      const std::string_view key = identifier();
      expect("=");
      if (identifier() == "True" && key == "positive") out.positive = true;
    }
    expect(")");
    return out;
  }

  SymAst float_literal() {
    SymAst out = real(quoted());
    while (take(",")) {
      identifier();
      expect("=");
      identifier();
    }
    expect(")");
    return out;
  }

  void check_height(const SymAst& e) const {
    if (e.height > kMaxDepth) refuse("more than 200 levels of nesting");
  }

  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.refuse("more than 200 levels of nesting");
    }
    ~Depth() { --parser.depth_; }
    Parser& parser;
  };

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

SymAst parse_sym_expr(std::string_view text) { return Parser(text).run(); }

std::string to_string(const SymAst& e) {
  switch (e.kind) {
    case SymAstKind::Integer:
      return std::to_string(e.value);
    case SymAstKind::Rational:
      return fmt::format("{}/{}", e.value, e.denominator);
    case SymAstKind::Float:
      return fmt::format("{:#}", e.real);
    case SymAstKind::Bool:
      return e.value ? "true" : "false";
    case SymAstKind::Infinity:
      return e.value < 0 ? "-oo" : "oo";
    case SymAstKind::Symbol:
      return e.name;
    case SymAstKind::Call:
      break;
  }
  std::string out = e.name + "(";
  for (size_t i = 0; i < e.args.size(); ++i) out += (i ? ", " : "") + to_string(e.args[i]);
  return out + ")";
}

}  // namespace toroid::import
