// Reads the text form of graphs.
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "graph/control_flow.h"
#include "graph/text.h"
#include "graph/verifier.h"

namespace toroid::graph {
namespace {

constexpr int kMaxDepth = 16;  // of regions

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

class Parser : private TextReader {
 public:
  explicit Parser(const std::string& text, size_t at = 0) : TextReader(text, "graph text", at) {}

  std::unique_ptr<Graph> whole() {
    auto g = graph(nullptr, 0);
    if (skip_space() != text_.size()) error("expected the end of the text");
    return g;
  }
  std::unique_ptr<Graph> part(size_t& at) {
    auto g = graph(nullptr, 0);
    at = at_;
    return g;
  }

 private:
  Expr resolve(const std::string& name, bool) override {
    const auto* s = scope_->find_symbol(name);
    TOROID_USER_CHECK(s, "the symbol \"{}\" is not declared in symbols(...)", name);
    return s->expr;
  }
  void symbols() {
    TextReader::symbols([&](Symbol s) {
      const std::string& name = s.expr.node()->name;
      TOROID_USER_CHECK(!scope_->find_symbol(name), "the symbol {} is declared twice", name);
      scope_->graph->symbols.push_back(std::move(s));
    });
  }
  NodeArg argument() {
    return TextReader::argument<Value*>('%', nullptr, [&] { return value(); });
  }

  std::string value_name() {
    expect("%");
    return word("the name of a value");
  }
  Value* value() {
    const size_t at = skip_space();
    std::string name = value_name();
    auto it = scope_->values.find(name);
    if (it == scope_->values.end()) error_at(at, fmt::format("the value %{} is not defined before its use", name));
    return it->second;
  }
  void define(const std::string& name, Value* v, size_t at) {
    if (v->name != name || !scope_->values.emplace(name, v).second)
      error_at(at, fmt::format("the value %{} is defined twice, or is no name of letters, digits and _", name));
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
    size_t at = skip_space();
    std::string name = value_name();
    std::string full = peek() == '"' ? quoted() : name;
    expect(":");
    pending_.push_back({at, kind, name, full, skip_space(), draws_at});
    skip_type();
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
    if (take("guards")) g->guards = guards();
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
    size_t at = skip_space();
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
    size_t at = skip_space();
    std::vector<std::string> names;
    std::vector<TensorType> types;
    std::vector<size_t> places;
    if (peek() == '%') {
      do {
        places.push_back(skip_space());
        names.push_back(value_name());
        expect(":");
        types.push_back(type());
      } while (take(","));
      expect("=");
    }
    size_t op_at = skip_space();
    std::string name = word("the name of an operation, \"return\" or a value", ".:");
    const ops::Op* op = find_op(name);
    if (!op) error_at(op_at, fmt::format("there is no operation \"{}\"{}", name, suggestions(name)));
    auto args = arguments(*op);
    std::vector<std::shared_ptr<Graph>> regions;
    while (take("{")) {
      regions.push_back(graph(scope_, depth + 1));
      expect("}");
    }
    const int64_t checkpoint = take("checkpoint") ? integer() : 0;
    const Pass pass = take("again") ? Pass::Again : take("backward") ? Pass::Backward : Pass::Forward;
    std::string where = take("@") ? quoted() : "";
    Node* n = scope_->graph->add_node(*op, std::move(args), std::move(types), std::move(where), names);
    n->checkpoint = static_cast<int>(checkpoint);
    n->pass = pass;
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
      size_t at = skip_space(), index = params.size();
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

  Scope* scope_ = nullptr;
  std::vector<PendingInput> pending_;
};

}  // namespace

std::unique_ptr<Graph> parse(const std::string& text) { return Parser(text).whole(); }
std::unique_ptr<Graph> parse_at(const std::string& text, size_t& at) { return Parser(text, at).part(at); }

}  // namespace toroid::graph
