#include "ops/schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/check.h"

namespace toroid::ops {
namespace {

struct TypeName {
  std::string_view name;
  ParamType type;
};
constexpr TypeName kTypes[] = {
    {"Tensor", ParamType::Tensor},
    {"Scalar", ParamType::Scalar},
    {"int", ParamType::Int},
    {"SymInt", ParamType::Int},
    {"float", ParamType::Float},
    {"bool", ParamType::Bool},
    {"str", ParamType::Str},
    {"ScalarType", ParamType::DType},
    {"complex", ParamType::Complex},
    {"Graph", ParamType::Graph},
    {"Layout", ParamType::Ignored},
    {"Device", ParamType::Ignored},
    {"MemoryFormat", ParamType::Ignored},
    {"Generator", ParamType::Ignored},
};

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Reads a schema from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Schema schema() {
    Schema s;
    const size_t open = text_.find('(');
    if (open == std::string_view::npos) wrong("a parameter list in parentheses is missing");
    s.name = name(open);
    at_ = open + 1;
    parameters(s);
    expect("->");
    returns(s);
    if (!done()) wrong("nothing should follow");
    return s;
  }

 private:
  // Of what stands where the parser is.
  template <class... A>
  [[noreturn]] void wrong(fmt::format_string<A...> f, A&&... a) const {
    fail<UserError>("the schema \"{}\" is malformed at character {}: {}", text_, std::min(at_, text_.size()) + 1,
                    fmt::format(f, std::forward<A>(a)...));
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool done() {
    skip();
    return at_ == text_.size();
  }
  bool takes(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!takes(token)) wrong("expected \"{}\"{}", token, at_ < text_.size() ? fmt::format(", found \"{}\"", text_[at_]) : "");
  }
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string name(size_t end) {
    skip();
    std::string_view out = text_.substr(at_, end - at_);
    while (!out.empty() && out.back() == ' ') out.remove_suffix(1);
    const bool is_plain = std::all_of(out.begin(), out.end(), [](char c) { return is_word_character(c) || c == ':' || c == '.'; });
    if (out.empty() || !is_plain) wrong("a name of letters, digits, _, :: and . should stand before \"(\"");
    if (out.ends_with(".default")) out.remove_suffix(8);
    return std::string(out);
  }

  void parameters(Schema& s) {
    if (takes(")")) return;
    bool keyword_only = false;
    do {
      skip();
      const size_t begin = at_;
      if (takes("*")) {
        if (std::exchange(keyword_only, true)) at_ = begin, wrong("there is one \"*\" at most");
        continue;
      }
      Param p;
      p.keyword_only = keyword_only;
      type(p);
      skip();
      const size_t of_name = at_;
      p.name = std::string(word());
      if (p.name.empty() || std::isdigit(static_cast<unsigned char>(p.name[0]))) at_ = of_name, wrong("a parameter's name is expected");
      if (s.find(p.name) >= 0) at_ = of_name, wrong("there is a parameter \"{}\" before", p.name);
      if (takes("=")) {
        p.has_default = true;
        p.default_value = default_value(p);
      }
      s.params.push_back(std::move(p));
    } while (takes(","));
    expect(")");
  }

  void returns(Schema& s) {
    const auto one = [&] {
      Param p;
      type(p);
      word();  // results may have names
      s.returns.push_back({p.type, p.list});
    };
    if (!takes("(")) return one();
    if (takes(")")) return;
    do one();
    while (takes(","));
    expect(")");
  }

  // "Tensor(a!)?[]" and the like.
  void type(Param& p) {
    skip();
    const size_t begin = at_;
    const std::string_view type_name = word();
    const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.name == type_name; });
    if (known == std::end(kTypes)) {
      std::vector<std::string_view> names;
      for (auto& t : kTypes) names.push_back(t.name);
      at_ = begin;
      wrong("a type is expected{}: {}", type_name.empty() ? "" : fmt::format(", \"{}\" is none", type_name), fmt::join(names, ", "));
    }
    p.type = known->type;
    for (bool more = true; more;) {
      if (takes("(")) {
        alias(p);
      } else if (takes("?")) {
        if (std::exchange(p.optional, true)) --at_, wrong("\"?\" stands twice");
      } else if (takes("[")) {
        if (std::exchange(p.list, true)) --at_, wrong("a list of lists is no type");
        p.optional_items = std::exchange(p.optional, false);
        const std::string_view digits = word();
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), p.list_size);
        const bool is_size = digits.empty() || (error == std::errc() && end == digits.data() + digits.size() && p.list_size <= kMostItems);
        if (!is_size) wrong("\"{}\" is no number of items", digits);
        expect("]");
      } else {
        more = false;
      }
    }
  }

  // "a!)", "a)", "a -> *)", "a|b)": what follows the parenthesis.
  void alias(Param& p) {
    const size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) wrong("the parenthesis behind a type does not end");
    const std::string_view set = text_.substr(at_, close - at_);
    const bool is_plain = std::all_of(set.begin(), set.end(), [](char c) {
      return is_word_character(c) || c == '!' || c == ' ' || c == '|' || c == '-' || c == '>' || c == '*';
    });
    if (set.empty() || !std::isalpha(static_cast<unsigned char>(set[0])) || !is_plain)
      wrong("(a) or (a!) is expected: the memory that is shared or written");
    p.alias = true;
    p.mutated = set.find('!') != std::string_view::npos;
    at_ = close + 1;
  }

  Arg<Tensor> default_value(const Param& p) {
    skip();
    if (p.list && takes("[")) return list(p);
    const size_t begin = at_;
    if (p.type == ParamType::Str && at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return string();
    const std::string_view token = value();
    if (token == "None") return std::monostate{};
    const bool takes_bool = p.type == ParamType::Bool || p.type == ParamType::Scalar;
    if (takes_bool && (token == "True" || token == "False")) return token == "True";
    if (p.type == ParamType::Ignored) return std::monostate{};
    at_ = begin;
    if (p.type != ParamType::Int && p.type != ParamType::Float && p.type != ParamType::Scalar && p.type != ParamType::Bool)
      wrong("\"{}\" is no default of this type", token);
    const bool is_integral = token.find_first_of(".einfa") == std::string_view::npos;
    if (p.type == ParamType::Float || (!is_integral && p.type == ParamType::Scalar)) return real();
    const int64_t v = integer();
    if (p.type == ParamType::Scalar || !p.list) return Expr(v);
    return std::vector<Expr>(static_cast<size_t>(std::max<int64_t>(p.list_size, 1)), Expr(v));
  }

  // Up to the next comma, bracket or parenthesis.
  std::string_view value() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ')' && text_[at_] != ']' && text_[at_] != ' ') ++at_;
    if (at_ == begin) wrong("a value is expected");
    return text_.substr(begin, at_ - begin);
  }

  std::string string() {
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) wrong("the quotes do not end");
    const std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  template <class T>
  T number(const char* what) {
    skip();
    const size_t begin = at_;
    const std::string_view token = value();
    T v = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), v);
    if (error != std::errc() || end != token.data() + token.size()) at_ = begin, wrong("\"{}\" is no {}", token, what);
    return v;
  }
  double real() { return number<double>("number"); }
  int64_t integer() { return number<int64_t>("integer"); }

  Arg<Tensor> list(const Param& p) {
    std::vector<Expr> ints;
    std::vector<double> floats;
    std::vector<bool> bools;
    if (!takes("]")) {
      do {
        if (p.type == ParamType::Bool) {
          skip();
          const size_t begin = at_;
          const std::string_view item = value();
          if (item != "True" && item != "False") at_ = begin, wrong("True or False is expected");
          bools.push_back(item == "True");
        } else if (p.type == ParamType::Float) {
          floats.push_back(real());
        } else if (p.type == ParamType::Int) {
          ints.push_back(integer());
        } else {
          wrong("a list of this type has the default [] alone");
        }
      } while (takes(","));
      expect("]");
    }
    if (p.type == ParamType::Bool) return bools;
    if (p.type == ParamType::Float) return floats;
    return ints;
  }

  static constexpr int64_t kMostItems = 64;

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

int Schema::find(std::string_view param) const {
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == param) return static_cast<int>(i);
  return -1;
}

Schema parse_schema(std::string_view text) { return Parser(text).schema(); }

}  // namespace toroid::ops
