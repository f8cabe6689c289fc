#include "exec/plan_text.h"

#include <fmt/ranges.h>

#include "base/check.h"
#include "exec/fields.h"
#include "exec/steps.h"
#include "graph/text.h"

namespace toroid::exec {
namespace {

constexpr int kMaxDepth = 64;  // of blocks within blocks

std::vector<graph::Symbol> graph_symbols(const std::vector<std::pair<Expr, bool>>& symbols) {
  std::vector<graph::Symbol> out;
  for (auto& [e, unbacked] : symbols) out.push_back({e, unbacked});
  return out;
}

template <class T>
concept Record = std::is_class_v<T> && !std::is_same_v<T, Expr> && !std::is_same_v<T, Arg<int>>;

class Writer {
 public:
  // One field. Without a default it is always there, but for what may be absent and for empty lists of records.
  template <class T>
  void operator()(const char* name, const T& v) {
    field(name), value(v);
  }
  template <class T>
  void operator()(const char* name, const T& v, const T& usual) {
    if (!(v == usual)) field(name), value(v);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& v) {
    if (v) field(name), value(*v);
  }
  template <Record T>
  void operator()(const char* name, const std::vector<T>& v) {
    if (!v.empty()) field(name), value(v);
  }
  void symbols(const std::vector<std::pair<Expr, bool>>& list) {
    if (list.empty()) return;
    const std::string text = graph::symbols_text(graph_symbols(list));  // " symbols(...)"
    field("symbols"), out += text.substr(text.find('('));
  }

  template <class T>
  void lines(const char* tag, const std::vector<T>& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      line();
      out += std::is_same_v<T, BufferPlan> ? fmt::format("{} {}", tag, i) : std::string(tag);
      record(list[i]);
    }
  }
  void steps(const std::vector<StepPlan>& list) {
    for (auto& step : list) {
      line();
      out += kStepNames[step.index()];
      std::visit([&](auto& s) { record(s); }, step);
    }
  }
  void plan(const std::shared_ptr<const Plan>& p) {
    line();
    out += "plan";
    record(*p);
  }

  template <class T>
  void record(const T& r) {
    out += '(';
    first_ = true;
    fields(*this, r);
    out += ')';
    if constexpr (kHasChildren<T>) {
      out += " {";
      ++depth_;
      children(*this, r);
      --depth_;
      line();
      out += '}';
    }
  }

  std::string out;

 private:
  void line() { out += '\n' + std::string(2 * static_cast<size_t>(depth_), ' '); }
  void field(const char* name) {
    if (!first_) out += ", ";
    first_ = false;
    (out += name) += '=';
  }

  void value(bool v) { out += v ? "true" : "false"; }
  void value(int v) { out += std::to_string(v); }
  void value(int64_t v) { out += std::to_string(v); }
  void value(const std::string& v) { out += sym::in_quotes(v); }
  void value(const Expr& v) { out += sym::to_string(v); }
  void value(DType v) { out += name_of(v); }
  void value(const Device& v) { out += sym::in_quotes(to_string(v)); }
  void value(const CompileOptions& v) { out += sym::in_quotes(v.text()); }
  void value(const ops::Op* v) { out += sym::in_quotes(v->name); }
  void value(const TensorType& v) { out += graph::type_text(v); }
  void value(const sym::Relation& v) { out += sym::to_string(v); }
  void value(const sym::Guard& v) { out += sym::to_string(v) + (v.is_requirement() ? " " + sym::in_quotes(v.error) : ""); }
  void value(const Arg<int>& a) {
    out += graph::argument_text<int>(a, [](int i) { return fmt::format("%{}", i); });
  }
  template <class E>
  requires std::is_enum_v<E>
  void value(E v) { out += kNames<E>.at(static_cast<size_t>(v)); }
  void value(const LibraryProblem& v) {
    out += kProblemNames[v.index()];
    std::visit([&](auto& p) { nested(p); }, v);
  }
  template <class T>
  void value(const std::vector<T>& v) {
    items(v);
  }
  template <class T, size_t N>
  void value(const T (&v)[N]) {
    items(v);
  }
  template <class T>
  requires std::is_class_v<T>
  void value(const T& v) { nested(v); }

  template <class T>
  void nested(const T& v) {
    record(v);
    first_ = false;
  }
  template <class L>
  void items(const L& list) {
    out += '[';
    bool first = true;
    for (const auto& x : list) {
      if (!first) out += ", ";
      first = false;
      value(x);
    }
    out += ']';
  }

  int depth_ = 0;
  bool first_ = true;
};

class Reader : public graph::TextReader {
 public:
  explicit Reader(const std::string& text) : graph::TextReader(text, "plan text") {}

  Plan whole() {
    Plan p;
    expect("plan");
    record(p);
    if (peek() != '\0') error("expected the end of the text");
    return p;
  }

  template <class T>
  void operator()(const char* name, T& v) {
    if (!has(name)) error(fmt::format("expected {}=", name));
    value(v), take(",");
  }
  template <class T>
  void operator()(const char* name, T& v, const T& usual) {
    if (has(name))
      value(v), take(",");
    else
      v = usual;
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& v) {
    if (has(name)) value(v.emplace(T{})), take(",");
  }
  template <Record T>
  void operator()(const char* name, std::vector<T>& v) {
    if (has(name)) value(v), take(",");
  }
  void symbols(std::vector<std::pair<Expr, bool>>& list) {
    if (!has("symbols")) return;
    graph::TextReader::symbols([&](graph::Symbol s) {
      auto& known = scopes_.back();
      const bool fresh = known.emplace(s.expr.node()->name, s.expr).second;
      TOROID_USER_CHECK(fresh, "the symbol {} is declared twice", sym::to_string(s.expr));
      list.emplace_back(s.expr, s.unbacked);
    });
    take(",");
  }

  template <class T>
  void lines(const char* tag, std::vector<T>& list) {
    while (take(tag)) {
      if constexpr (std::is_same_v<T, BufferPlan>) {
        const size_t at = skip_space();
        if (integer() != static_cast<int64_t>(list.size())) error_at(at, fmt::format("buffer number {} is expected", list.size()));
      }
      record(list.emplace_back());
    }
  }
  void steps(std::vector<StepPlan>& list) {
    for (bool more = true; more;)
      more = take("launch")       ? step<Launch>(list)
             : take("call")       ? step<HostCall>(list)
             : take("library")    ? step<LibraryCall>(list)
             : take("branch")     ? step<Branch>(list)
             : take("loop")       ? step<Loop>(list)
             : take("collective") ? step<CollectiveCall>(list)
                                  : false;
  }
  void plan(std::shared_ptr<const Plan>& p) {
    expect("plan");
    auto made = std::make_shared<Plan>();
    record(*made);
    p = std::move(made);
  }

 protected:
  Expr resolve(const std::string& name, bool) override {
    const auto it = scopes_.back().find(name);
    TOROID_USER_CHECK(it != scopes_.back().end(), "the symbol {} is not declared", sym::is_identifier(name) ? name : sym::quoted(name));
    return it->second;
  }

 private:
  template <class T>
  bool step(std::vector<StepPlan>& list) {
    T s;
    record(s);
    list.push_back(std::move(s));
    return true;
  }

  template <class T>
  void record(T& r) {
    if constexpr (Is<T, Plan>) {
      if (scopes_.size() >= kMaxDepth) error("blocks are nested too deeply");
      scopes_.emplace_back();
    }
    expect("(");
    fields(*this, r);
    expect(")");
    if constexpr (kHasChildren<T>) {
      expect("{");
      children(*this, r);
      expect("}");
    }
    if constexpr (Is<T, Plan>) scopes_.pop_back();
  }

  // Takes "name=".
  bool has(const char* name) {
    const size_t at = skip_space();
    if (take(name) && at_ < text_.size() && text_[at_] == '=') {
      ++at_;
      return true;
    }
    at_ = at;
    return false;
  }

  void value(bool& v) {
    v = take("true");
    if (!v) expect("false");
  }
  void value(int& v) {
    const size_t at = skip_space();
    const int64_t n = integer();
    v = static_cast<int>(n);
    if (v != n) error_at(at, "the number is too large");
  }
  void value(int64_t& v) { v = integer(); }
  void value(std::string& v) { v = quoted(); }
  void value(Expr& v) { v = expression(",)]"); }
  void value(DType& v) { v = dtype(); }
  void value(Device& v) {
    named([&](const std::string& s) { v = device_from_name(s); });
  }
  void value(CompileOptions& v) {
    named([&](const std::string& s) { v = CompileOptions::parse(s); });
  }
  void value(const ops::Op*& v) {
    named([&](const std::string& s) { v = &operation_named(s); });
  }
  void value(TensorType& v) { v = type(); }
  void value(sym::Relation& v) { v = relation(",]"); }
  void value(sym::Guard& v) {
    v = relation(",]\"");
    if (peek() == '"') v.error = quoted();
  }
  void value(Arg<int>& v) {
    v = argument<int>('%', -1, [&] {
      int i = -1;
      expect("%"), value(i);
      return i;
    });
  }
  template <class E>
  requires std::is_enum_v<E>
  void value(E& v) {
    const size_t at = skip_space();
    const std::string name = word("a name");
    const auto it = std::find(kNames<E>.begin(), kNames<E>.end(), name);
    if (it == kNames<E>.end()) error_at(at, fmt::format("expected one of {}", fmt::join(kNames<E>, ", ")));
    v = static_cast<E>(it - kNames<E>.begin());
  }
  void value(LibraryProblem& v) { one_of(v, std::make_index_sequence<std::variant_size_v<LibraryProblem>>()); }
  template <size_t... I>
  void one_of(LibraryProblem& v, std::index_sequence<I...>) {
    const bool known = ((take(kProblemNames[I]) && (record(v.emplace<I>()), true)) || ...);
    if (!known) error(fmt::format("expected one of {}", fmt::join(kProblemNames, ", ")));
  }
  template <class T>
  void value(std::vector<T>& v) {
    expect("[");
    items("]", [&] {
      T x{};
      value(x);
      v.push_back(std::move(x));
    });
  }
  template <class T, size_t N>
  void value(T (&v)[N]) {
    expect("[");
    for (size_t i = 0; i < N; ++i) {
      if (i) expect(",");
      value(v[i]);
    }
    expect("]");
  }
  template <class T>
  requires std::is_class_v<T>
  void value(T& v) { record(v); }

  // A quoted value, whose complaints get its place.
  template <class F>
  void named(F&& take_it) {
    const size_t at = skip_space();
    const std::string s = quoted();
    located(at, [&] { take_it(s); });
  }

  std::vector<std::map<std::string, Expr>> scopes_;  // symbols of the plan, and of those around it
};

}  // namespace

std::string to_string(const Plan& plan) {
  Writer w;
  w.out = "plan";
  w.record(plan);
  return w.out + "\n";
}

Plan parse_plan(const std::string& text) { return Reader(text).whole(); }

}  // namespace toroid::exec
