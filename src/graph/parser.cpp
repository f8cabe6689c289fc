// Reads the text form of graphs.
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "graph/control_flow.h"
#include "graph/verifier.h"

namespace toroid::graph {
namespace {

constexpr int kMaxDepth = 16;             // of regions
constexpr size_t kMaxExpression = 10000;  // characters of one size expression
constexpr int64_t kMaxBound = sym::kInf - 1;

// Names and types by which a region sees what is around it.
struct Scope {
  const Scope* outer = nullptr;
  Graph* graph = nullptr;
  std::unordered_map<std::string, Value*> values;

  const Symbol* find_symbol(const std::string& name) const {
    for (const Scope* s = this; s; s = s->outer)
      if (auto* found = s->graph->find_symbol(name)) return found;
    return nullptr;
  }
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  std::unique_ptr<Graph> whole() {
    auto g = graph(nullptr, 0);
    skip_space();
    if (at_ != text_.size()) error("expected the end of the text");
    return g;
  }

 private:
  [[noreturn]] void error(const std::string& what) const { error_at(at_, what); }
  [[noreturn]] void error_at(size_t at, const std::string& what) const {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, start = i + 1;
    fail<UserError>("graph text, line {}, column {}: {}", line, at - start + 1, what);
  }
  // Runs f and puts a position in front of its complaints.
  template <class F>
  auto located(size_t at, F&& f) {
    try {
      return f();
    } catch (const UserError& e) {
      error_at(at, e.what());
    }
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    if (is_word(token[0]) && at_ + token.size() < text_.size() && is_word(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) error(fmt::format("expected \"{}\"", token));
  }
  // Calls item() for each of a comma-separated list up to `close`.
  template <class F>
  void items(std::string_view close, F&& item) {
    if (take(close)) return;
    do item();
    while (take(","));
    expect(close);
  }

  std::string word(const char* what) {
    skip_space();
    size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) error(fmt::format("expected {}", what));
    return text_.substr(start, at_ - start);
  }
  std::string op_name() {
    skip_space();
    size_t start = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.' || text_[at_] == ':')) ++at_;
    if (at_ == start) error("expected the name of an operation, \"return\" or a value");
    return text_.substr(start, at_ - start);
  }
  std::string quoted() {
    expect("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\n') error("a string ends in the same line");
      if (c == '\\') {
        char e = at_ < text_.size() ? text_[at_++] : '\0';
        if (e == 'n')
          c = '\n';
        else if (e == 'x')
          c = static_cast<char>(hex_digit() * 16 + hex_digit());
        else if (e == '"' || e == '\\')
          c = e;
        else
          error("expected \\n, \\xHH, \\\" or \\\\");
      }
      out += c;
    }
    if (at_ == text_.size()) error("expected \"");
    ++at_;
    return out;
  }
  int hex_digit() {
    char c = at_ < text_.size() ? text_[at_++] : '\0';
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    error("expected a hexadecimal digit");
  }

  // Where the quoted name of a symbol that begins here ends.
  size_t behind_quotes() {
    const auto end = sym::end_of_quoted(text_, at_);
    if (!end) error("expected another '");
    return *end;
  }

  // The text up to a ',' or a closing bracket (or a comparison, for guards) outside of parentheses.
  std::string raw(const char* stops, const char* what) {
    skip_space();
    size_t start = at_;
    int depth = 0;
    for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      char c = text_[at_];
      if (c == '\'') {
        at_ = behind_quotes() - 1;
        continue;
      }
      if (depth == 0 && std::string_view(stops).find(c) != std::string_view::npos) break;
      if (c == '(' && (at_ == start || !is_word(text_[at_ - 1]))) error("parentheses belong only to functions; write sums multiplied out");
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if (at_ - start > kMaxExpression) error("the expression is too long");
    }
    size_t end = at_;
    while (end > start && text_[end - 1] == ' ') --end;
    if (end == start) error(fmt::format("expected {}", what));
    return text_.substr(start, end - start);
  }
  Expr expression(const char* stops) {
    size_t at = (skip_space(), at_);
    return to_expr(raw(stops, "a size"), at);
  }
  Expr to_expr(const std::string& text, size_t at) {
    return located(at, [&] {
      return sym::parse(text, [&](const std::string& name, bool) {
        auto* s = scope_->find_symbol(name);
        TOROID_USER_CHECK(s, "the symbol \"{}\" is not declared in symbols(...)", name);
        return s->expr;
      });
    });
  }
  int64_t integer() {
    skip_space();
    int64_t v = 0;
    auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (r.ec != std::errc()) error("expected an integer");
    at_ = static_cast<size_t>(r.ptr - text_.data());
    return v;
  }

  DType dtype() {
    skip_space();
    size_t at = at_;
    std::string name = word("a dtype such as f32");
    return located(at, [&] { return dtype_from_name(name); });
  }
  TensorType type() {
    TensorType t;
    t.dtype = dtype();
    expect("[");
    items("]", [&] { t.sizes.push_back(expression(",]")); });
    if (take("strides")) {
      size_t at = at_;
      expect("(");
      items(")", [&] { t.strides.push_back(expression(",)")); });
      if (t.strides.size() != t.sizes.size()) error_at(at, "as many strides as sizes are expected");
    }
    return t;
  }

  std::string value_name() {
    expect("%");
    return word("the name of a value");
  }
  Value* value() {
    skip_space();
    size_t at = at_;
    std::string name = value_name();
    auto it = scope_->values.find(name);
    if (it == scope_->values.end()) error_at(at, fmt::format("the value %{} is not defined before its use", name));
    return it->second;
  }
  void define(const std::string& name, Value* v, size_t at) {
    if (v->name != name || !scope_->values.emplace(name, v).second)
      error_at(at, fmt::format("the value %{} is defined twice, or is no name of letters, digits and _", name));
  }

  std::optional<double> as_float(const std::string& s) {
    double v = 0;
    if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (s == "inf" || s == "-inf") return s[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    if (s.find_first_of(".e") == std::string::npos) return std::nullopt;
    auto r = std::from_chars(s.data(), s.data() + s.size(), v);
    return r.ec == std::errc() && r.ptr == s.data() + s.size() ? std::optional(v) : std::nullopt;
  }

  NodeArg argument() {
    char c = peek();
    if (c == '%') return value();
    if (c == '"') return quoted();
    if (take("tensors[]")) return std::vector<Value*>{};
    if (take("floats[]")) return std::vector<double>{};
    if (take("bools[]")) return std::vector<bool>{};
    if (take("[")) return list();
    if (take("none")) return std::monostate{};
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("complex")) {
      expect("(");
      double re = number(","), im = (expect(","), number(")"));
      expect(")");
      return std::complex<double>(re, im);
    }
    size_t at = at_;
    std::string text = raw(",)]}@", "an argument");
    if (auto v = as_float(text)) return *v;
    for (int t = 0; t < kDTypeCount; ++t)
      if (text == name_of(static_cast<DType>(t))) return static_cast<DType>(t);
    return to_expr(text, at);
  }
  double number(const char* stop) {
    skip_space();
    size_t at = at_;
    auto v = as_float(raw(stop, "a number"));
    if (!v) error_at(at, "expected a number such as 1.0");
    return *v;
  }
  // Items of one kind; "none" is a hole in a list of tensors.
  NodeArg list() {
    size_t at = at_;
    std::vector<NodeArg> all;
    items("]", [&] {
      if (peek() == '[') error("lists do not nest");
      all.push_back(argument());
    });
    auto collect = [&](auto kind) -> std::optional<NodeArg> {
      using T = decltype(kind);
      std::vector<T> out;
      for (auto& a : all) {
        if (auto* v = std::get_if<T>(&a))
          out.push_back(*v);
        else if (std::is_same_v<T, Value*> && std::holds_alternative<std::monostate>(a))
          out.push_back(T{});
        else
          return std::nullopt;
      }
      return NodeArg(std::move(out));
    };
    if (auto v = collect(Expr{})) return *v;
    if (auto v = collect(static_cast<Value*>(nullptr))) return *v;
    if (auto v = collect(double{})) return *v;
    if (auto v = collect(bool{})) return *v;
    error_at(at, "the items of a list must be of one kind: tensors, integers, floats or bools");
  }

  std::string symbol_name() {
    if (peek() == '\'') {
      const size_t at = at_;
      at_ = behind_quotes();
      return located(at, [&] { return sym::unquoted(std::string_view(text_).substr(at, at_ - at)); });
    }
    const size_t at = at_;
    std::string name = word("the name of a symbol");
    if (!sym::is_identifier(name)) error_at(at, "a symbol's name starts with a letter, or stands in quotes: '" + name + "'");
    return name;
  }
  void symbols() {
    expect("(");
    items(")", [&] {
      size_t at = (skip_space(), at_);
      const std::string name = symbol_name();
      if (scope_->find_symbol(name)) error_at(at, fmt::format("the symbol {} is declared twice", name));
      bool unbacked = take("unbacked");
      expect("in");
      int64_t lo = integer();
      expect("..");
      int64_t hi = take("inf") ? kMaxBound : integer();
      if (lo > hi || lo < -kMaxBound || hi > sym::kInf) error_at(at, "the range is empty or too large");
      scope_->graph->symbols.push_back({sym::symbol(name, lo, hi), unbacked});
    });
  }
  void guards() {
    expect("(");
    items(")", [&] {
      Expr a = expression("=!<>,)");
      constexpr std::pair<const char*, sym::Rel> kRels[] = {{"==", sym::Rel::Eq}, {"!=", sym::Rel::Ne}, {"<=", sym::Rel::Le},
                                                            {">=", sym::Rel::Ge}, {"<", sym::Rel::Lt},  {">", sym::Rel::Gt}};
      for (auto& [text, rel] : kRels)
        if (take(text)) {
          scope_->graph->guards.push_back({rel, a, expression(",)")});
          return;
        }
      error("expected a comparison");
    });
  }

  void input() {
    InputKind kind = take("param")      ? InputKind::Parameter
                     : take("buffer")   ? InputKind::Buffer
                     : take("constant") ? InputKind::Constant
                     : take("random")   ? InputKind::Random
                                        : InputKind::User;
    size_t draws_at = 0;
    if (kind == InputKind::Random) {
      expect("(");
      draws_at = at_;
      skip_to(')');
    }
    size_t at = (skip_space(), at_);
    std::string name = value_name();
    std::string full = peek() == '"' ? quoted() : name;
    expect(":");
    pending_.push_back({at, kind, name, full, (skip_space(), at_), draws_at});
    type_text();
  }
  // Passes over a type: symbols are declared after the inputs that use them.
  void type_text() {
    word("a dtype such as f32");
    expect("[");
    skip_to(']');
    if (take("strides")) {
      expect("(");
      skip_to(')');
    }
  }
  void skip_to(char close) {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      char c = text_[at_];
      if (c == '\'') {
        at_ = behind_quotes() - 1;
        continue;
      }
      if (depth == 0 && c == close) {
        ++at_;
        return;
      }
      if (c == '(') ++depth;
      if (c == ')') --depth;
    }
    error(fmt::format("expected \"{}\"", close));
  }

  std::unique_ptr<Graph> graph(const Scope* outer, int depth) {
    if (depth > kMaxDepth) error("regions are nested too deeply");
    auto g = std::make_unique<Graph>();
    Scope scope{outer, g.get(), {}};
    Scope* before = std::exchange(scope_, &scope);
    pending_.clear();
    expect("graph");
    g->name = quoted();
    expect("(");
    items(")", [&] { input(); });
    auto inputs = std::exchange(pending_, {});
    if (take("symbols")) symbols();
    size_t after = at_;
    for (auto& in : inputs) {
      at_ = in.type_at;
      Value* v = g->new_value(type(), in.name);
      g->inputs.push_back({v, in.kind, in.full, Tensor()});
      define(in.name, v, in.at);
      if (in.kind != InputKind::Random) continue;
      if (!is_random_state(v->type)) error_at(in.type_at, "the state of random numbers is an i64[2]");
      at_ = in.draws_at;
      g->inputs.back().draws = expression(")");
    }
    at_ = after;
    if (take("guards")) guards();
    expect("{");
    while (!take("return")) node(depth);
    if (peek() != '}') do
        output();
      while (take(","));
    expect("}");
    scope_ = before;
    return g;
  }

  void output() {
    size_t at = (skip_space(), at_);
    Graph& g = *scope_->graph;
    if (!take("(")) {
      NodeArg a = argument();
      auto* v = std::get_if<Value*>(&a);
      if (std::holds_alternative<std::vector<Value*>>(a)) error_at(at, "an output is one tensor or a literal");
      g.outputs.push_back({v ? *v : nullptr, v ? NodeArg() : a, -1});
      return;
    }
    expect("input");
    int64_t index = integer();
    if (index < 0 || index >= static_cast<int64_t>(g.inputs.size())) error_at(at, "there is no input of this number");
    expect("<-");
    Value* v = value();
    expect(")");
    if (v->type.dtype != g.inputs[static_cast<size_t>(index)].value->type.dtype)
      error_at(at, "the new contents have another dtype than the input");
    g.outputs.push_back({v, {}, static_cast<int>(index)});
  }

  void node(int depth) {
    size_t at = (skip_space(), at_);
    std::vector<std::string> names;
    std::vector<TensorType> types;
    std::vector<size_t> places;
    if (peek() == '%') {
      do {
        places.push_back((skip_space(), at_));
        names.push_back(value_name());
        expect(":");
        types.push_back(type());
      } while (take(","));
      expect("=");
    }
    size_t op_at = (skip_space(), at_);
    std::string name = op_name();
    const ops::Op* op = find_op(name);
    if (!op) error_at(op_at, fmt::format("there is no operation \"{}\"{}", name, suggestions(name)));
    auto args = arguments(*op);
    std::vector<std::shared_ptr<Graph>> regions;
    while (take("{")) {
      regions.push_back(graph(scope_, depth + 1));
      expect("}");
    }
    std::string where = take("@") ? quoted() : "";
    Node* n = scope_->graph->add_node(*op, std::move(args), std::move(types), std::move(where), names);
    n->regions = std::move(regions);
    for (size_t i = 0; i < names.size(); ++i) define(names[i], n->results[i], places[i]);
    std::vector<const Graph*> around;
    for (const Scope* s = scope_->outer; s; s = s->outer) around.push_back(s->graph);
    located(at, [&] { check_node(*scope_->graph, *n, around); });
  }
  static std::string suggestions(const std::string& name) {
    std::string out;
    for (auto& n : ops::table().near(name)) out += (out.empty() ? "; near: " : ", ") + n;
    return out;
  }

  std::vector<NodeArg> arguments(const ops::Op& op) {
    const auto& params = op.schema.params;
    std::vector<NodeArg> args;
    std::vector<bool> given(params.size(), false);
    for (auto& p : params)
      args.push_back(p.has_default ? map_arg<Value*>(p.default_value, [](const Tensor&) -> Value* { return nullptr; }) : NodeArg());
    size_t next = 0;
    expect("(");
    items(")", [&] {
      size_t at = (skip_space(), at_), index = params.size();
      size_t end = at_;
      while (end < text_.size() && is_word(text_[end])) ++end;
      if (end > at_ && end < text_.size() && text_[end] == '=') {
        int found = op.schema.find(text_.substr(at_, end - at_));
        if (found < 0) error(fmt::format("{} has no parameter of this name", op.name));
        index = static_cast<size_t>(found);
        at_ = end + 1;
        next = params.size();
      } else {
        while (next < params.size() && params[next].type == ops::ParamType::Graph) ++next;
        index = next++;
      }
      if (index >= params.size()) error_at(at, fmt::format("{} takes no further argument without a name", op.name));
      if (given[index]) error_at(at, fmt::format("the parameter {} is given twice", params[index].name));
      given[index] = true;
      args[index] = argument();
    });
    return args;
  }

  struct PendingInput {
    size_t at;
    InputKind kind;
    std::string name, full;
    size_t type_at, draws_at;
  };

  const std::string& text_;
  size_t at_ = 0;
  Scope* scope_ = nullptr;
  std::vector<PendingInput> pending_;
};

}  // namespace

std::unique_ptr<Graph> parse(const std::string& text) { return Parser(text).whole(); }

}  // namespace toroid::graph
