#include "program/parse.h"

#include <limits>
#include <tuple>

#include "graph/control_flow.h"
#include "graph/text.h"
#include "program/fields.h"

namespace toroid::program {
namespace {

constexpr int kMaxDepth = 16;  // of programs within programs

class Parser : private graph::TextReader {
 public:
  Parser(const std::string& text, size_t at, int depth) : TextReader(text, "program text", at), depth_(depth) {}

  Program run(size_t& at) {
    if (depth_ > kMaxDepth) error("programs are nested too deeply");
    expect("program");
    p_.name = quoted();
    if (take("symbols"))
      symbols([&](graph::Symbol s) {
        const std::string& name = s.expr.node()->name;
        TOROID_USER_CHECK(!find(name), "the symbol {} is declared twice", name);
        p_.symbols.push_back(std::move(s));
      });
    if (take("guards")) p_.guards = guards();
    expect("{");
    while (!take("}")) line();
    at = at_;
    return std::move(p_);
  }

  Program whole() {
    size_t at = 0;
    Program p = run(at);
    if (skip_space() != text_.size()) error("expected the end of the text");
    return p;
  }

 private:
  const graph::Symbol* find(const std::string& name) const {
    for (auto& s : p_.symbols)
      if (s.expr.node()->name == name) return &s;
    return nullptr;
  }
  Expr resolve(const std::string& name, bool) override {
    const auto* s = find(name);
    TOROID_USER_CHECK(s, "the symbol \"{}\" is not declared in symbols(...)", name);
    return s->expr;
  }

  void line() {
    const size_t at = skip_space();
    if (take("buffer")) return buffer();
    if (take("constant")) return rearranged();
    if (take("in")) return input();
    if (take("out")) return output();
    if (take("site")) return site();
    if (take("apart")) return apart();
    Node n;
    n.problem = problem(at);
    node(n);
    p_.nodes.push_back(std::move(n));
  }

  bool next_is(std::string_view token) {
    const size_t at = at_;
    const bool is = take(token);
    at_ = at;
    return is;
  }
  int number() {
    const size_t at = skip_space();
    const int64_t v = integer();
    if (v < std::numeric_limits<int>::min() || v > std::numeric_limits<int>::max()) error_at(at, "the number is too large");
    return static_cast<int>(v);
  }
  int buffer_number() {
    expect("%");
    return number();
  }
  std::vector<Expr> sizes() {
    std::vector<Expr> out;
    expect("[");
    items("]", [&] { out.push_back(expression(",]")); });
    return out;
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> out;
    expect("[");
    items("]", [&] { out.push_back(integer()); });
    return out;
  }
  std::vector<int> numbers() {
    std::vector<int> out;
    expect("[");
    items("]", [&] { out.push_back(number()); });
    return out;
  }
  // Exactly so many sizes.
  std::vector<Expr> sizes(size_t count) {
    const size_t at = skip_space();
    auto out = sizes();
    if (out.size() != count) error_at(at, fmt::format("{} sizes are expected", count));
    return out;
  }
  int64_t constant(const Expr& e) {
    if (!e.is_const()) error("a size without symbols is expected");
    return e.constant();
  }
  Operand operand() {
    Operand o;
    if (take("none")) return o;
    o.buffer = buffer_number();
    o.dtype = dtype();
    const size_t at = skip_space();
    auto all = sizes();
    if (all.empty()) error_at(at, "an offset and strides are expected");
    o.offset = all.front();
    o.strides.assign(all.begin() + 1, all.end());
    return o;
  }
  Operand operand(std::string_view name) {
    expect(name);
    expect("=");
    return operand();
  }
  std::vector<Extern::View> views() {
    std::vector<Extern::View> out;
    expect("(");
    items(")", [&] {
      Extern::View v;
      v.memory = operand();
      expect("of");
      v.sizes = sizes();
      out.push_back(std::move(v));
    });
    return out;
  }
  OptionValues options() {
    OptionValues out;
    expect("options");
    expect("(");
    items(")", [&] {
      std::string name = quoted();
      expect("=");
      out.emplace_back(std::move(name), quoted());
    });
    return out;
  }
  std::pair<int64_t, int64_t> pair(std::string_view name) {
    expect(name);
    const int64_t first = integer();
    if (peek() != 'x') error("expected two numbers such as 3x3");
    ++at_;
    return {first, integer()};
  }
  // The element of a list of names that comes next.
  template <class T>
  T one_of(std::initializer_list<std::pair<std::string_view, T>> names, const char* what) {
    for (auto& [name, value] : names)
      if (take(name)) return value;
    error(fmt::format("expected {}", what));
  }
  loop::Nest nest() {
    return loop::parse_at(text_, at_, [&](const std::string& name) { return resolve(name, true); });
  }

  void buffer() {
    using enum loop::BufferKind;
    loop::Buffer b;
    b.id = buffer_number();
    b.name = quoted();
    expect(":");
    b.dtype = dtype();
    b.numel = sizes(1).front();
    b.kind = one_of<loop::BufferKind>(
        {{"input", Input}, {"constant", Constant}, {"temporary", Temporary}, {"output", Output}, {"faults", Faults}, {"peers", Peers}},
        "a kind of buffer");
    p_.buffers.push_back(std::move(b));
  }
  void rearranged() {
    const int buffer = buffer_number();
    Rearranged::Part part;
    expect(":");
    part.sizes = integers();
    expect("of");
    part.from = operand();
    expect("at");
    part.offset = integer();
    expect("strides");
    part.strides = integers();
    if (p_.rearranged.empty() || p_.rearranged.back().buffer != buffer) p_.rearranged.push_back({buffer, {}});
    p_.rearranged.back().parts.push_back(std::move(part));
  }

  void input() {
    using enum graph::InputKind;
    ProgramInput in;
    in.buffer = buffer_number();
    in.kind = one_of<graph::InputKind>(
        {{"user", User}, {"param", Parameter}, {"buffer", Buffer}, {"constant", Constant}, {"random", Random}}, "a kind of input");
    if (take("(")) {
      in.draws = expression(")");
      expect(")");
    }
    in.name = quoted();
    expect(":");
    in.type = type();
    p_.inputs.push_back(std::move(in));
  }

  void output() {
    ProgramOutput o;
    if (take("literal")) {
      o.literal = argument<graph::Value*>('\0', nullptr, [] { return nullptr; });
    } else {
      if (take("in")) {
        expect("place");
      } else {
        o.buffer = buffer_number();
      }
      expect(":");
      o.type = type();
    }
    if (take("->")) o.mutates = number();
    if (take("@")) o.where = quoted();
    p_.outputs.push_back(std::move(o));
  }

  void apart() {
    const int first = number();
    p_.apart.emplace_back(first, number());
  }
  void site() {
    IndexSite s;
    s.operation = quoted();
    expect("dim");
    s.dim = integer();
    s.wraps = take("wraps");
    if (take("@")) s.where = quoted();
    p_.sites.push_back(std::move(s));
  }

  Problem problem(size_t at) {
    if (take("loops")) return std::monostate{};
    if (take("call")) return call();
    if (take("choose")) return choose();
    if (Problem p; read_any(p, std::make_index_sequence<std::variant_size_v<Problem>>())) return p;
    error_at(at, "expected a buffer, an input, an output or a node");
  }

  // The fields of one kind, in the order of the text.
  struct FieldReader : NoFields {
    Parser& in;
    explicit FieldReader(Parser& in) : in(in) {}

    template <class... Size>
    void sizes(std::string_view least, Size&... into) {
      const size_t at = in.skip_space();
      if constexpr (sizeof...(Size) > 0 && std::same_as<std::tuple_element_t<0, std::tuple<Size...>>, std::vector<Expr>>) {
        auto all = in.sizes();
        constexpr size_t single = sizeof...(Size) - 1;
        if (all.size() < single) in.error_at(at, std::string(least));
        leading_ = all.size() - single;
        take_all(all, into...);
      } else {
        take_all(in.sizes(sizeof...(Size)), into...);
      }
    }
    void word(std::string_view text) { in.expect(text); }
    void number(std::string_view name, int64_t& value) {
      in.expect(name);
      value = in.integer();
    }
    void number(std::string_view name, double& value) {
      in.expect(name);
      value = in.real();
    }
    void pair(std::string_view name, int64_t& first, int64_t& second) { std::tie(first, second) = in.pair(name); }
    void dtype(std::string_view name, DType& t) {
      in.expect(name);
      t = in.dtype();
    }
    void text(std::string_view name, std::string& value) {
      in.expect(name);
      value = in.quoted();
    }
    void flag(std::string_view name, bool& set) { set = in.take(name); }
    template <class Inner>
    void presence(std::string_view name, std::optional<Inner>& inner) {
      if (in.take(name)) inner.emplace();
    }
    template <class Value>
    void choice(std::string_view name, Value& value, std::span<const std::string_view> names) {
      in.expect(name);
      for (size_t i = 0; i < names.size(); ++i)
        if (in.take(names[i])) return void(value = static_cast<Value>(i));
      std::string all;
      for (std::string_view n : names) all.append(all.empty() ? "" : ", ").append(n);
      in.error("expected one of " + all);
    }
    template <class Extents>
    void operand(std::string_view name, Operand& o, Use, std::string_view, const Extents&) {
      o = in.operand(name);
    }
    template <class Extents>
    void operand(std::string_view name, std::optional<Operand>& o, Use, std::string_view, const Extents&) {
      if (in.next_is(name)) o = in.operand(name);
    }

   private:
    template <class... Size>
    void take_all(const std::vector<Expr>& all, Size&... into) {
      size_t next = 0;
      (take_one(all, next, into), ...);
    }
    void take_one(const std::vector<Expr>& all, size_t& next, std::vector<Expr>& list) {
      list.assign(all.begin(), all.begin() + static_cast<long>(leading_));
      next = leading_;
    }
    void take_one(const std::vector<Expr>& all, size_t& next, Expr& size) { size = all[next++]; }
    void take_one(const std::vector<Expr>& all, size_t& next, int64_t& size) { size = in.constant(all[next++]); }

    size_t leading_ = 0;
  };

  // The problem of a kind whose keyword comes next; false where it does not.
  template <class Kind>
  bool read(Problem& into) {
    if constexpr (kKeyword<Kind>.empty()) {
      return false;
    } else {
      if (!take(kKeyword<Kind>)) return false;
      FieldReader reader(*this);
      fields(into.emplace<Kind>(), reader);
      return true;
    }
  }
  template <size_t... I>
  bool read_any(Problem& into, std::index_sequence<I...>) {
    return (read<std::variant_alternative_t<I, Problem>>(into) || ...);
  }

  const ops::Op* op() {
    const size_t at = skip_space();
    const std::string name = word("the name of an operation", ".:");
    const ops::Op* found = graph::find_op(name);
    if (!found) error_at(at, fmt::format("there is no operation \"{}\"", name));
    return found;
  }

  Extern call() {
    Extern e;
    e.op = op();
    expect("(");
    items(")", [&] {
      e.args.push_back(argument<int>('#', -1, [&] {
        expect("#");
        return number();
      }));
    });
    e.inputs = views();
    expect("->");
    e.outputs = views();
    if (take("fresh")) e.fresh_symbols = sizes();
    return e;
  }

  Open choose() {
    Open o;
    o.op = op();
    o.name = o.op->name;
    o.inputs = views();
    expect("->");
    o.outputs = views();
    if (!take("by")) return o;
    o.size = sizes(1).front();
    expect("at");
    o.split_points = integers();
    expect("top");
    o.top = integer();
    return o;
  }

  // What follows the problem.
  void node(Node& n) {
    using enum Implementation;
    if (take("by")) n.by = one_of<Implementation>({{"onednn", OneDnn}, {"cublaslt", CublasLt}, {"cudnn", CuDnn}}, "a library");
    if (take("as")) {
      const size_t at = skip_space();
      const std::string config = quoted();
      n.config = located(at, [&] { return parse_config(config); });
    }
    if (next_is("options")) n.options = std::make_shared<const OptionValues>(options());
    n.pass = take("again") ? graph::Pass::Again : take("backward") ? graph::Pass::Backward : graph::Pass::Forward;
    n.after_meeting = take("after_meeting");
    if (take("parts")) n.parts = numbers();
    expect("#");
    while (peek() == '"') n.origins.push_back(quoted());
    if (take("@")) n.where = quoted();
    if (take("rows")) n.producer = nest();
    if (auto* e = std::get_if<Extern>(&n.problem)) return blocks(*e);
    if (auto* o = std::get_if<Open>(&n.problem)) return alternatives(*o);
    if (!n.is_whole()) {
      loop::Nest own = nest();
      n.domain = std::move(own.domain);
      n.body = std::move(own.body);
    }
    while (take("beside")) n.beside.push_back(nest());
  }

  void blocks(Extern& e) {
    while (true) {
      const bool conditional = take("where");
      if (conditional) {
        expect("(");
        e.conditions.push_back(relation(")"));
        expect(")");
      }
      const bool has_options = next_is("options");
      if (has_options) e.options.push_back(options());
      if (!take("block")) {
        if (conditional || has_options) error("expected a block");
        return;
      }
      e.blocks.push_back(graph::parse_at(text_, at_));
    }
  }

  void alternatives(Open& o) {
    while (take("alternative")) {
      Alternative a;
      a.name = quoted();
      expect("key");
      a.key = quoted();
      a.options = options();
      skip_space();
      a.program = std::make_shared<const Program>(Parser(text_, at_, depth_ + 1).run(at_));
      if (take("from")) a.graph = graph::parse_at(text_, at_);
      o.alternatives.push_back(std::move(a));
    }
    while (take("refused")) {
      Refused r;
      r.name = quoted();
      expect(":");
      r.reason = quoted();
      o.refused.push_back(std::move(r));
    }
  }

  int depth_;
  Program p_;
};

}  // namespace

Program parse(const std::string& text) { return Parser(text, 0, 0).whole(); }

}  // namespace toroid::program
