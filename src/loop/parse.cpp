// Reads the text form of loop nodes.
#include <cctype>
#include <cmath>
#include <map>

#include "base/check.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

constexpr std::string_view kModes[] = {"set", "add", "mul", "max", "min"};

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Nest run() {
    expect("loop");
    expect("(");
    while (!take(")")) {
      if (!out_.domain.vars.empty()) expect(",");
      variable();
    }
    expect("{");
    while (!take("}")) statement();
    if (peek() != '\0') error("expected the end");
    return std::move(out_);
  }

 private:
  [[noreturn]] void error(const std::string& what) {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    fail<UserError>("loop text: {} in line {}", what, line);
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  // Takes a symbol or a whole word.
  bool take(std::string_view what) {
    peek();
    if (text_.compare(at_, what.size(), what) != 0) return false;
    if (is_word(what.back()) && at_ + what.size() < text_.size() && is_word(text_[at_ + what.size()])) return false;
    at_ += what.size();
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) error("expected " + std::string(what));
  }
  std::string word() {
    peek();
    size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (start == at_) error("expected a name");
    return text_.substr(start, at_ - start);
  }
  int small_number() { return number_of(word()); }
  int number_of(const std::string& w) {
    if (w.size() > 8 || w.find_first_not_of("0123456789") != std::string::npos) error("expected a number, found \"" + w + "\"");
    return std::stoi(w);
  }
  int value() {
    peek();
    if (at_ >= text_.size() || text_[at_] != 'v') error("expected a value");
    ++at_;
    return earlier(small_number());
  }
  int earlier(int k) {
    if (k >= static_cast<int>(out_.body.steps.size())) error("v" + std::to_string(k) + " is used before it is defined");
    return k;
  }
  Expr expression(const std::string& text) {
    return sym::parse(text, [&](const std::string& name, bool quoted) -> Expr {
      if (quoted) return sym::symbol(name, 0, sym::kInf);
      if (auto it = variables_.find(name); it != variables_.end()) return it->second;
      const bool is_value = name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
      return is_value ? value_symbol(earlier(number_of(name.substr(1))), -sym::kInf, sym::kInf) : sym::symbol(name, 0, sym::kInf);
    });
  }
  // Text up to one of `stops` outside of parentheses, which is left in place.
  std::string until(std::string_view stops) {
    peek();
    size_t start = at_;
    for (int depth = 0; at_ < text_.size(); ++at_) {
      if (depth == 0 && stops.find(text_[at_]) != std::string_view::npos) return text_.substr(start, at_ - start);
      if (text_[at_] == '\'') {
        const auto end = sym::end_of_quoted(text_, at_);
        if (!end) error("expected another '");
        at_ = *end - 1;
      }
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    }
    error("expected one of " + std::string(stops));
  }
  Expr index() {
    expect("[");
    Expr e = expression(until("]"));
    expect("]");
    return e;
  }
  // Text up to the word "site", which is left in place.
  Expr extent() {
    peek();
    const size_t end = text_.find(" site ", at_);
    if (end == std::string::npos) error("expected site");
    const std::string text = text_.substr(at_, end - at_);
    at_ = end;
    return expression(text);
  }
  void variable() {
    bool reduction = take("r");
    std::string name = word();
    expect(":");
    Expr extent = expression(until(",)"));
    if (variables_.count(name)) error("two variables are named " + name);
    Expr s = sym::loop_symbol(name, extent);
    variables_.emplace(name, s);
    out_.domain.vars.push_back({s, reduction});
  }
  void mask(Statement& s) {
    if (take("if")) s.mask = value();
  }
  int buffer() {
    expect("%");
    return small_number();
  }
  Number number(DType dtype) {
    if (take("true")) return convert(Number::of(true), dtype);
    if (take("false")) return convert(Number::of(false), dtype);
    peek();
    size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-' || text_[at_] == '+' || text_[at_] == '.')) ++at_;
    std::string w = text_.substr(start, at_ - start);
    char* end = nullptr;
    Number v = is_float(dtype) ? Number::of(std::strtod(w.c_str(), &end)) : Number::of(int64_t{std::strtoll(w.c_str(), &end, 10)});
    if (w.empty() || *end) error("expected a number, found \"" + w + "\"");
    return convert(v, dtype);
  }
  void statement() {
    Statement s;
    if (take("store")) {
      s.step = Step::Store;
      s.buffer = buffer();
      s.index = index();
      s.args[0] = value();
      s.dtype = out_.body.steps[static_cast<size_t>(s.args[0])].dtype;
      for (size_t i = 1; i < std::size(kModes); ++i)
        if (take(kModes[i])) s.mode = static_cast<StoreMode>(i);
      mask(s);
    } else {
      std::string name = word();
      if (name != "v" + std::to_string(out_.body.steps.size()))
        error("expected v" + std::to_string(out_.body.steps.size()) + ", found " + name);
      expect(":");
      s.dtype = dtype_from_name(word());
      expect("=");
      operation(s);
    }
    out_.body.steps.push_back(std::move(s));
  }
  void operation(Statement& s) {
    std::string op = word();
    if (op == "load") {
      s.step = Step::Load;
      s.buffer = buffer();
      s.index = index();
      mask(s);
    } else if (op == "index") {
      s.step = Step::Index;
      s.index = index();
    } else if (op == "check") {
      s.step = Step::Check;
      s.buffer = buffer();
      s.args[0] = value();
      expect("below");
      s.index = extent();
      expect("site");
      s.value = Number::of(int64_t{small_number()});
      mask(s);
    } else if (op == "accumulate") {
      s.step = Step::Accumulate;
      if (take("second")) s.value = Number::of(int64_t{1});
    } else if (op == "const") {
      s.value = number(s.dtype);
    } else if (op == "reduce" || op == "scan") {
      s.step = op == "scan" ? Step::Scan : Step::Reduce;
      std::string kind = word();
      constexpr int kLast = static_cast<int>(Reduction::LogSumExp);
      int i = 0;
      while (i <= kLast && name_of(static_cast<Reduction>(i)) != kind) ++i;
      if (i > kLast) error("unknown reduction \"" + kind + "\"");
      s.reduction = static_cast<Reduction>(i);
      s.args[0] = value();
    } else {
      s.op = scalar_op_from_name(op);
      for (int i = 0; i < arity_of(s.op); ++i) s.args[i] = value();
    }
  }

  const std::string& text_;
  size_t at_ = 0;
  Nest out_;
  std::map<std::string, Expr> variables_;
};

}  // namespace

Nest parse(const std::string& text) { return Parser(text).run(); }

}  // namespace toroid::loop
