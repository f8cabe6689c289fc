// Reads the text form of loop nodes.
#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "loop/node.h"
#include "sym/text_reader.h"

namespace toroid::loop {
namespace {

constexpr std::string_view kModes[] = {"set", "add", "mul", "max", "min", "sum"};

class Parser : private sym::TextReader {
 public:
  Parser(const std::string& text, size_t at, const SizeOf& size_of) : TextReader(text, "loop text", at), size_of_(size_of) {}

  Nest run(size_t& at) {
    expect("loop");
    domain();
    expect("{");
    while (!take("}")) statement();
    at = at_;
    return std::move(out_);
  }
  Nest whole() {
    takes_sums_ = true;
    size_t at = 0;
    Nest out = run(at);
    if (skip_space() != text_.size()) error("expected the end of the text");
    return out;
  }

 private:
  // --- numbers ---
  int small_number() { return number_of(word("a number")); }
  int number_of(const std::string& w) {
    if (w.size() > 8 || w.find_first_not_of("0123456789") != std::string::npos) error("expected a number, found \"" + w + "\"");
    return std::stoi(w);
  }
  int value() {
    if (peek() != 'v') error("expected a value such as v0");
    ++at_;
    return earlier(small_number());
  }
  int earlier(int k) {
    if (k >= static_cast<int>(out_.body.steps.size())) error("v" + std::to_string(k) + " is used before it is defined");
    return k;
  }
  Number number(DType dtype) {
    if (take("true")) return convert(Number::of(true), dtype);
    if (take("false")) return convert(Number::of(false), dtype);
    return convert(is_float(dtype) ? Number::of(real()) : Number::of(integer()), dtype);
  }
  DType dtype() {
    const size_t at = skip_space();
    const std::string name = word("a dtype such as f32");
    const DType t = located(at, [&] { return dtype_from_name(name); });
    if (is_complex(t)) error_at(at, "loops compute no complex numbers");
    return t;
  }

  // --- symbols ---
  Expr resolve(const std::string& name, bool quoted) override {
    if (auto it = variables_.find(name); it != variables_.end() && !quoted) return it->second;
    const bool is_value = !quoted && name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
    if (!is_value) return size_of_(name);
    const int k = earlier(number_of(name.substr(1)));
    const auto known = ranges_.find(k);
    return known == ranges_.end() ? value_symbol(k, -sym::kInf, sym::kInf) : value_symbol(k, known->second.lo, known->second.hi);
  }
  int64_t bound() {
    if (take("-inf")) return -sym::kInf;
    return take("inf") ? sym::kInf : integer();
  }
  void range() {
    const size_t at = skip_space();
    const int k = value();
    expect("in");
    const int64_t lo = bound();
    expect("..");
    const int64_t hi = bound();
    if (lo > hi || lo < -sym::kInf || hi > sym::kInf) error_at(at, "the range is empty or too large");
    ranges_[k] = {lo, hi};
  }
  // "[16*v3 + i0] where v3 in 0..383".
  Expr address() {
    expect("[");
    const size_t at = skip_space();
    const std::string text = raw("]", "an address");
    expect("]");
    ranges_.clear();
    if (take("where")) do
        range();
      while (take(","));
    return to_expr(text, at);
  }

  // --- the domain ---
  struct Listed {
    std::string name;
    Expr extent;
    bool reduction;
  };
  void domain() {
    std::vector<Listed> listed;
    std::vector<std::string> order;
    expect("(");
    items(")", [&] {
      const bool reduction = take("r");
      const size_t at = skip_space();
      std::string name = word("the name of a variable");
      if (std::any_of(listed.begin(), listed.end(), [&](auto& v) { return v.name == name; }))
        error_at(at, "two variables are named " + name);
      expect(":");
      Expr extent = expression(",)");
      order.push_back(name);
      listed.push_back({std::move(name), std::move(extent), reduction});
    });
    const size_t at = skip_space();
    if (take("order")) {
      const auto variables = std::exchange(order, {});
      expect("(");
      items(")", [&] { order.push_back(word("the name of a variable")); });
      if (!std::is_permutation(order.begin(), order.end(), variables.begin(), variables.end()))
        error_at(at, "the order must list each variable once");
    }
    for (auto& name : order) {
      const auto& v = *std::find_if(listed.begin(), listed.end(), [&](auto& l) { return l.name == name; });
      variables_.emplace(name, sym::loop_symbol(name, v.extent));
    }
    for (auto& v : listed) out_.domain.vars.push_back({variables_.at(v.name), v.reduction});
  }

  // --- the body ---
  void mask(Statement& s) {
    if (take("if")) s.mask = value();
  }
  int buffer() {
    expect("%");
    return small_number();
  }
  void statement() {
    Statement s;
    if (take("store")) {
      s.step = Step::Store;
      s.buffer = buffer();
      s.index = address();
      s.args[0] = value();
      s.dtype = out_.body.steps[static_cast<size_t>(s.args[0])].dtype;
      for (size_t i = 1; i < std::size(kModes); ++i)
        if (take(kModes[i])) s.mode = static_cast<StoreMode>(i);
      mask(s);
    } else {
      const size_t at = skip_space();
      const std::string name = word("a step such as v0, \"store\" or \"}\""), own = "v" + std::to_string(out_.body.steps.size());
      if (name != own) error_at(at, "expected " + own + ", found " + name);
      expect(":");
      s.dtype = dtype();
      expect("=");
      operation(s);
    }
    out_.body.steps.push_back(std::move(s));
  }
  void operation(Statement& s) {
    const size_t at = skip_space();
    const std::string op = word("an operation");
    if (op == "load") {
      s.step = Step::Load;
      s.buffer = buffer();
      s.index = address();
      mask(s);
    } else if (op == "index") {
      s.step = Step::Index;
      s.index = address();
    } else if (op == "check") {
      s.step = Step::Check;
      s.buffer = buffer();
      s.args[0] = value();
      expect("below");
      s.index = address();
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
      s.reduction = reduction();
      s.args[0] = value();
    } else {
      s.op = located(at, [&] { return scalar_op_from_name(op); });
      for (int i = 0; i < arity_of(s.op); ++i) s.args[i] = value();
    }
  }
  Reduction reduction() {
    const size_t at = skip_space();
    const std::string kind = word("a reduction");
    constexpr int kLast = static_cast<int>(Reduction::LogSumExp);
    for (int i = 0; i <= kLast; ++i)
      if (name_of(static_cast<Reduction>(i)) == kind) return static_cast<Reduction>(i);
    error_at(at, "there is no reduction \"" + kind + "\"");
  }

  const SizeOf& size_of_;
  Nest out_;
  std::map<std::string, Expr> variables_;
  std::map<int, sym::Bounds> ranges_;  // of the values in the address that is read
};

}  // namespace

Nest parse_at(const std::string& text, size_t& at, const SizeOf& size_of) { return Parser(text, at, size_of).run(at); }

Nest parse(const std::string& text) {
  const SizeOf any = [](const std::string& name) { return sym::symbol(name, 0, sym::kInf); };
  return Parser(text, 0, any).whole();
}

}  // namespace toroid::loop
