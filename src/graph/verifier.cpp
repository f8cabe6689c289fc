#include "graph/verifier.h"

#include <set>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/recorder.h"

namespace toroid::graph {
namespace {

// Infers types again, with the symbols and guards of the graph and of those around it.
class TypeChecker {
 public:
  TypeChecker(const Graph& g, const std::vector<const Graph*>& around) {
    auto add = [&](const Graph& from) {
      scratch_.symbols.insert(scratch_.symbols.end(), from.symbols.begin(), from.symbols.end());
      scratch_.guards.insert(scratch_.guards.end(), from.guards.begin(), from.guards.end());
      for (auto& s : from.symbols) declared_.insert(s.expr.node()->name);
    };
    add(g);
    for (auto* outer : around) add(*outer);
  }

  void check(const Node& n) {
    const auto& params = n.op->schema.params;
    TOROID_USER_CHECK(n.args.size() == params.size(), "{} has {} arguments where its schema has {}", n.op->name, n.args.size(),
                      params.size());
    size_t graphs = 0;
    for (auto& p : params) graphs += p.type == ops::ParamType::Graph;
    TOROID_USER_CHECK(n.regions.size() == graphs, "{} has {} regions where its schema has {}", n.op->name, n.regions.size(), graphs);
    std::vector<TensorType> expected;
    if (is_control_flow(*n.op)) {
      expected = region_result_types(*n.op, n.args, n.regions);
    } else {
      CallArgs args;
      for (auto& a : n.args) args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? recorder_.proxy(v) : Tensor(); }));
      args = ops::complete(*n.op, std::move(args));
      for (auto& t : recorder_.call(*n.op, std::move(args), std::source_location::current()))
        expected.push_back(recorder_.value_of(t)->type);
      scratch_.nodes.clear();
    }
    TOROID_USER_CHECK(expected.size() == n.results.size(), "{} has {} results, {} are written", n.op->name, expected.size(),
                      n.results.size());
    std::vector<std::pair<Expr, Expr>> fresh;
    for (size_t i = 0; i < expected.size(); ++i)
      TOROID_USER_CHECK(fits(expected[i], n.results[i]->type, fresh), "result %{} of {} has the type {}, it should be {}",
                        n.results[i]->name, n.op->name, to_string(n.results[i]->type), to_string(expected[i]));
  }

 private:
  // Sizes that only the run tells get new symbols at each inference: they stand for whatever the graph calls them.
  bool fits(const TensorType& expected, const TensorType& found, std::vector<std::pair<Expr, Expr>>& fresh) {
    if (expected.dtype != found.dtype || expected.sizes.size() != found.sizes.size()) return false;
    for (size_t d = 0; d < found.sizes.size(); ++d) {
      const Expr &e = expected.sizes[d], &f = found.sizes[d];
      if (e.kind() == sym::Kind::Symbol && !declared_.count(e.node()->name)) {
        bool renamed = false;
        for (auto& [from, to] : fresh) renamed = renamed || (from == e && to == f);
        if (!renamed) fresh.emplace_back(e, f);
        continue;
      }
      Expr same = sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
        for (auto& [from, to] : fresh)
          if (from.node()->name == s.name) return to;
        return std::nullopt;
      });
      if (!(same == f) && !recorder_.decide({sym::Rel::Eq, same, f})) return false;
    }
    return true;
  }
  Graph scratch_;
  Recorder recorder_{scratch_};
  std::set<std::string> declared_;
};

struct Context {
  const Graph& g;
  const std::vector<const Graph*>& around;
};

void defined_before_use(const Context& c) {
  std::set<const Value*> defined;
  for (auto& in : c.g.inputs) defined.insert(in.value);
  for (auto& n : c.g.nodes) {
    for_each_operand(
        *n, [&](const Value* v) { TOROID_USER_CHECK(defined.count(v), "{} reads %{} before it is defined", n->op->name, v->name); });
    for (size_t i = 0; i < n->results.size(); ++i) {
      TOROID_USER_CHECK(n->results[i]->producer == n.get() && n->results[i]->result == i, "%{} does not point to the node that makes it",
                        n->results[i]->name);
      TOROID_USER_CHECK(defined.insert(n->results[i]).second, "%{} is defined twice", n->results[i]->name);
    }
  }
  for (auto& o : c.g.outputs) TOROID_USER_CHECK(!o.value || defined.count(o.value), "the output %{} is not defined", o.value->name);
}

void unique_names(const Context& c) {
  std::set<std::string> names;
  for (auto& v : c.g.values) TOROID_USER_CHECK(names.insert(v->name).second, "two values are named %{}", v->name);
}

void declared_symbols(const Context& c) {
  std::set<std::string> names;
  for (auto& s : c.g.symbols)
    TOROID_USER_CHECK(names.insert(s.expr.node()->name).second, "the symbol {} is declared twice", s.expr.node()->name);
  for (auto* outer : c.around)
    for (auto& s : outer->symbols) names.insert(s.expr.node()->name);
  auto check = [&](const Expr& e, const std::string& where) {
    sym::for_each_symbol(e, [&](const Expr& s) {
      TOROID_USER_CHECK(sym::is_size(*s.node()) && names.count(s.node()->name), "{} uses the symbol {}, which is not declared", where,
                        s.node()->name);
    });
  };
  for (auto& in : c.g.inputs) check(in.draws, "%" + in.value->name);
  for (auto& v : c.g.values)
    for (auto& e : v->type.sizes) check(e, "%" + v->name);
  for (auto& n : c.g.nodes)
    for (auto& a : n->args) {
      if (auto* e = std::get_if<Expr>(&a)) check(*e, n->op->name);
      if (auto* list = std::get_if<std::vector<Expr>>(&a))
        for (auto& e : *list) check(e, n->op->name);
    }
}

void well_typed(const Context& c) {
  TypeChecker checker(c.g, c.around);
  for (auto& n : c.g.nodes) {
    try {
      checker.check(*n);
    } catch (const UserError& e) {
      fail<UserError>("node %{} ({}): {}", n->results.empty() ? n->op->name : n->results[0]->name, n->where, e.what());
    }
  }
}

void good_outputs(const Context& c) {
  std::set<int> written;
  for (auto& o : c.g.outputs) {
    if (o.mutates < 0) continue;
    TOROID_USER_CHECK(o.mutates < static_cast<int>(c.g.inputs.size()) && o.value, "an output writes input {}, of which there are {}",
                      o.mutates, c.g.inputs.size());
    TOROID_USER_CHECK(written.insert(o.mutates).second, "two outputs write the input {}", o.mutates);
    const TensorType& in = c.g.inputs[static_cast<size_t>(o.mutates)].value->type;
    TOROID_USER_CHECK(in.dtype == o.value->type.dtype && in.sizes.size() == o.value->type.sizes.size(),
                      "the output {} cannot be written to an input {}", to_string(o.value->type), to_string(in));
  }
}

void good_data(const Context& c) {
  for (auto& in : c.g.inputs) {
    TOROID_USER_CHECK(in.kind != InputKind::Random || is_random_state(in.value->type), "the state of random numbers \"{}\" is {}", in.name,
                      to_string(in.value->type));
    if (!in.data.defined()) continue;
    const TensorType& t = in.value->type;
    TOROID_USER_CHECK(in.data.dtype() == t.dtype && in.data.dim() == t.dim(), "the data of the input \"{}\" is {}, its type {}", in.name,
                      to_string(in.data), to_string(t));
  }
}

constexpr std::pair<const char*, void (*)(const Context&)> kRules[] = {
    {"values are defined once and before their use", defined_before_use},
    {"names are unique", unique_names},
    {"symbols are declared", declared_symbols},
    {"types are what the operations say", well_typed},
    {"outputs exist and fit what they write", good_outputs},
    {"data has the type of its input", good_data},
};

void verify_in(const Graph& g, const std::string& stage, const std::vector<const Graph*>& around) {
  for (auto& [rule, check] : kRules) {
    try {
      check({g, around});
    } catch (const Error& e) {
      fail<InternalError>("graph \"{}\" {}: rule \"{}\" is broken: {}", g.name, stage, rule, e.what());
    }
  }
  auto inner = around;
  inner.push_back(&g);
  for (auto& n : g.nodes)
    for (auto& r : n->regions) verify_in(*r, stage, inner);
}

}  // namespace

void check_node(const Graph& g, const Node& n, const std::vector<const Graph*>& around) { TypeChecker(g, around).check(n); }

void verify(const Graph& g, const std::string& stage) { verify_in(g, stage, {}); }

}  // namespace toroid::graph
