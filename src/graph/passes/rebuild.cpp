#include "graph/passes/rebuild.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace toroid::graph {
namespace {

void collect_symbols(const Graph& g, std::set<std::string>& names) {
  auto add = [&](const Expr& e) { sym::for_each_symbol(e, [&](const Expr& s) { names.insert(s.node()->name); }); };
  auto add_arg = [&](const NodeArg& a) {
    if (auto* e = std::get_if<Expr>(&a)) add(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (auto& e : *list) add(e);
  };
  for (auto& v : g.values) {
    for (auto& e : v->type.sizes) add(e);
    for (auto& e : v->type.strides) add(e);
  }
  for (auto& r : g.guards) {
    add(r.a);
    add(r.b);
  }
  for (auto& n : g.nodes) {
    for (auto& a : n->args) add_arg(a);
    for (auto& r : n->regions) collect_symbols(*r, names);
  }
  for (auto& o : g.outputs) add_arg(o.literal);
}

void declared_in_regions(const Graph& g, const std::function<void(const Symbol&)>& fn) {
  for (auto& n : g.nodes)
    for (auto& r : n->regions) {
      for (auto& s : r->symbols) fn(s);
      declared_in_regions(*r, fn);
    }
}

}  // namespace

Rebuild::Rebuild(const Graph& old)
    : old_(old), graph_(std::make_unique<Graph>()), recorder_(*graph_), scope_(recorder_), map_(old.values.size()) {
  graph_->reserve(old.nodes.size(), old.values.size());
  graph_->name = old.name;
  graph_->symbols = old.symbols;
  graph_->guards = old.guards;
  declared_in_regions(old, [&](const Symbol& s) {
    if (!graph_->find_symbol(s.expr.node()->name) && reserved_.insert(s.expr.node()->name).second) graph_->symbols.push_back(s);
  });
  for (auto& in : old.inputs) {
    Value* v = graph_->new_value(in.value->type, in.value->name);
    graph_->inputs.push_back({v, in.kind, in.name, in.data, in.draws});
    set_value(in.value, v);
  }
}

const Rebuild::Entry& Rebuild::entry(const Value* old) const {
  const Entry& e = map_[static_cast<size_t>(old->id)];
  TOROID_CHECK(e.is_set, "the value {} was not rebuilt", old->name);
  return e;
}

Tensor Rebuild::at(const Value* old) const {
  const Entry& e = entry(old);
  if (e.value && !e.tensor.defined()) e.tensor = Recorder::proxy(e.value);
  return e.tensor;
}

Value* Rebuild::value_at(const Value* old) {
  const Entry& e = entry(old);
  return e.value ? e.value : recorder_.value_of(e.tensor);
}

void Rebuild::set_value(const Value* old, Value* value) {
  map_[static_cast<size_t>(old->id)] = {true, value};
  note_renamed(old, value->type.sizes);
}

void Rebuild::set(const Value* old, const Tensor& t) {
  map_[static_cast<size_t>(old->id)] = {true, nullptr, t};
  if (is_proxy(t)) note_renamed(old, t.impl()->sym_sizes);
}

void Rebuild::note_renamed(const Value* old, const std::vector<Expr>& sizes) {
  for (size_t d = 0; d < sizes.size() && d < old->type.sizes.size(); ++d) {
    const Expr& before = old->type.sizes[d];
    if (before.kind() != sym::Kind::Symbol || before == sizes[d] || renamed_.count(before.node()->name)) continue;
    const Symbol* s = old_.find_symbol(before.node()->name);
    if (s && s->unbacked) renamed_.emplace(before.node()->name, sizes[d]);
  }
}

Expr Rebuild::renamed(const Expr& e) const {
  if (e.is_const() || renamed_.empty()) return e;
  return sym::substitute(e, [&](const sym::Node& s) -> std::optional<Expr> {
    auto it = renamed_.find(s.name);
    return it == renamed_.end() ? std::nullopt : std::optional(it->second);
  });
}

// A region may use the sizes of the graph around it.
std::shared_ptr<Graph> Rebuild::renamed(std::shared_ptr<Graph> region) const {
  if (renamed_.empty()) return region;
  std::shared_ptr<Graph> out = clone(*region);
  auto change = [&](NodeArg& a) {
    if (auto* e = std::get_if<Expr>(&a)) *e = renamed(*e);
    if (auto* list = std::get_if<std::vector<Expr>>(&a))
      for (auto& e : *list) e = renamed(e);
  };
  std::erase_if(out->symbols, [&](const Symbol& s) { return renamed_.count(s.expr.node()->name) > 0; });
  for (auto& v : out->values) {
    for (auto& e : v->type.sizes) e = renamed(e);
    for (auto& e : v->type.strides) e = renamed(e);
  }
  for (auto& r : out->guards) r = sym::with_sides(r, renamed(r.a), renamed(r.b));
  for (auto& n : out->nodes) {
    for (auto& a : n->args) change(a);
    for (auto& r : n->regions) r = renamed(r);
  }
  for (auto& o : out->outputs) change(o.literal);
  return out;
}

template <class T>
void Rebuild::rename(Arg<T>& a) const {
  if (renamed_.empty()) return;
  if (auto* e = std::get_if<Expr>(&a)) *e = renamed(*e);
  if (auto* list = std::get_if<std::vector<Expr>>(&a))
    for (auto& e : *list) e = renamed(e);
}

CallArgs Rebuild::args(const Node& n) const {
  CallArgs out;
  out.reserve(n.args.size());
  for (auto& a : n.args) {
    out.push_back(map_arg<Tensor>(a, [&](Value* v) { return at_or_undefined(v); }));
    rename(out.back());
  }
  return out;
}

std::vector<NodeArg> Rebuild::node_args(const Node& n) {
  std::vector<NodeArg> out;
  out.reserve(n.args.size());
  for (auto& a : n.args) {
    out.push_back(map_arg<Value*>(a, [&](Value* v) { return v ? value_at(v) : nullptr; }));
    rename(out.back());
  }
  return out;
}

void Rebuild::copy(const Node& n) {
  Node* made = graph_->add_copy(n, node_args(n));
  if (!renamed_.empty()) {
    for (auto* r : made->results)
      for (auto& e : r->type.sizes) e = renamed(e);
    for (auto& r : made->regions) r = renamed(r);
  }
  for (size_t i = 0; i < n.results.size(); ++i) set_value(n.results[i], made->results[i]);
}

std::unique_ptr<Graph> Rebuild::finish() {
  for (auto& o : old_.outputs) graph_->outputs.push_back({o.value ? value_at(o.value) : nullptr, o.literal, o.mutates});
  return finish_without_outputs();
}

std::unique_ptr<Graph> Rebuild::finish_without_outputs() {
  std::set<std::string> used;
  if (std::any_of(graph_->symbols.begin(), graph_->symbols.end(), [](auto& s) { return s.unbacked; })) collect_symbols(*graph_, used);
  std::erase_if(graph_->symbols, [&](const Symbol& s) { return reserved_.count(s.expr.node()->name) > 0; });
  std::erase_if(graph_->symbols, [&](const Symbol& s) { return s.unbacked && !used.count(s.expr.node()->name); });
  return std::move(graph_);
}

}  // namespace toroid::graph
