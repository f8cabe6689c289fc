#include "graph/graph.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"

namespace toroid::graph {

Graph::Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::reserve(size_t node_count, size_t value_count) {
  nodes.reserve(node_count);
  values.reserve(value_count);
  make_room_for_names(value_count);
}

Value* Graph::new_value(TensorType type, std::string name_hint) {
  for (char& c : name_hint)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (name_hint.empty() || std::isdigit(static_cast<unsigned char>(name_hint[0]))) name_hint = "v" + name_hint;
  return add_value(std::move(type), name_hint);
}

void Graph::make_room_for_names(size_t count) {
  if (2 * count <= names_.size()) return;
  size_t places = 16;
  while (places < 2 * count) places *= 2;
  std::vector<Name> before = std::exchange(names_, std::vector<Name>(places));
  for (auto& n : before)
    if (n.value) *find_name(n.value->name, n.hash) = n;
}

Graph::Name* Graph::find_name(const std::string& name, size_t hash) {
  size_t at = hash & (names_.size() - 1);
  for (; names_[at].value; at = (at + 1) & (names_.size() - 1))
    if (names_[at].hash == hash && names_[at].value->name == name) break;
  return &names_[at];
}

Value* Graph::add_value(TensorType type, const std::string& name) {
  make_room_for_names(names_used_ + 1);
  Value& v = *values.emplace_back(std::make_unique<Value>());
  v.id = static_cast<int>(values.size()) - 1;
  v.type = std::move(type);
  v.name = name;
  const std::hash<std::string> hash_of;
  size_t hash = hash_of(v.name);
  Name* place = find_name(v.name, hash);
  for (int* suffix = &place->suffix; place->value;) {
    v.name = name + "_" + std::to_string((*suffix)++);
    hash = hash_of(v.name);
    place = find_name(v.name, hash);
  }
  *place = {&v, hash, 1};
  ++names_used_;
  return &v;
}

Value* Graph::add_input(TensorType type, InputKind kind, std::string name, Tensor data) {
  bool starts_well = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  Value* v = new_value(std::move(type), starts_well ? name : "arg" + name);
  inputs.push_back({v, kind, std::move(name), std::move(data), 0});
  return v;
}

Node* Graph::add_node(const ops::Op& op, std::vector<NodeArg> args, std::vector<TensorType> types, std::string where,
                      const std::vector<std::string>& names) {
  auto n = std::make_unique<Node>();
  n->op = &op;
  n->args = std::move(args);
  n->where = std::move(where);
  std::string hint = op.name.substr(0, op.name.find('.'));
  for (size_t i = 0; i < types.size(); ++i) {
    Value* v = new_value(std::move(types[i]), i < names.size() ? names[i] : hint);
    v->producer = n.get();
    v->result = i;
    n->results.push_back(v);
  }
  nodes.push_back(std::move(n));
  return nodes.back().get();
}

Node* Graph::add_copy(const Node& other, std::vector<NodeArg> args) {
  auto n = std::make_unique<Node>();
  n->op = other.op;
  n->args = std::move(args);
  n->regions = other.regions;
  n->where = other.where;
  n->checkpoint = other.checkpoint;
  n->pass = other.pass;
  n->results.reserve(other.results.size());
  for (const Value* r : other.results) {
    Value* v = add_value(r->type, r->name);
    v->producer = n.get();
    v->result = r->result;
    n->results.push_back(v);
  }
  nodes.push_back(std::move(n));
  return nodes.back().get();
}

void Graph::keep_values(const std::set<const Value*>& kept) {
  std::vector<Name> names;
  for (auto& n : names_)
    if (n.value && kept.count(n.value)) names.push_back(n);
  std::erase_if(values, [&](auto& v) { return !kept.count(v.get()); });
  for (size_t i = 0; i < values.size(); ++i) values[i]->id = static_cast<int>(i);
  std::fill(names_.begin(), names_.end(), Name());
  for (auto& n : names) *find_name(n.value->name, n.hash) = n;
  names_used_ = names.size();
}

const Symbol* Graph::find_symbol(const std::string& name) const {
  for (auto& s : symbols)
    if (s.expr.node()->name == name) return &s;
  return nullptr;
}

int64_t usual_value(const Expr& e, std::span<const Symbol> symbols) {
  if (const auto c = e.maybe_constant()) return *c;
  constexpr int64_t kTypical = 64;
  return sym::evaluate(e, [&](const sym::Node& s) {
    for (auto& known : symbols)
      if (known.hint && sym::same_symbol(*known.expr.node(), s)) return *known.hint;
    return std::clamp<int64_t>(kTypical, s.lo, s.hi);
  });
}

namespace {
bool declares(const Graph& g, const std::string& name) {
  auto in_region = [&](auto& n) {
    return std::any_of(n->regions.begin(), n->regions.end(), [&](auto& region) { return declares(*region, name); });
  };
  return g.find_symbol(name) || std::any_of(g.nodes.begin(), g.nodes.end(), in_region);
}
}  // namespace

Expr Graph::new_symbol(const std::string& prefix, int64_t lo, int64_t hi, bool unbacked) {
  int i = 0;
  while (declares(*this, prefix + std::to_string(i))) ++i;
  Expr e = sym::symbol(prefix + std::to_string(i), lo, hi);
  symbols.push_back({e, unbacked});
  return e;
}

std::vector<Arg<const TensorType*>> type_args(const Node& n) {
  std::vector<Arg<const TensorType*>> out;
  for (auto& a : n.args) out.push_back(map_arg<const TensorType*>(a, [](Value* v) -> const TensorType* { return v ? &v->type : nullptr; }));
  return out;
}

std::unique_ptr<Graph> clone(const Graph& g) {
  auto out = std::make_unique<Graph>();
  out->name = g.name;
  out->symbols = g.symbols;
  out->guards = g.guards;
  out->reserve(g.nodes.size(), g.values.size());
  std::vector<Value*> map(g.values.size(), nullptr);  // by number
  const auto at = [&](const Value* v) -> Value*& { return map[static_cast<size_t>(v->id)]; };
  for (auto& in : g.inputs) {
    Value* v = out->new_value(in.value->type, in.value->name);
    out->inputs.push_back({v, in.kind, in.name, in.data, in.draws});
    at(in.value) = v;
  }
  auto arg = [&](const NodeArg& a) { return map_arg<Value*>(a, [&](Value* v) { return v ? at(v) : nullptr; }); };
  for (auto& n : g.nodes) {
    std::vector<NodeArg> args;
    args.reserve(n->args.size());
    for (auto& a : n->args) args.push_back(arg(a));
    Node* c = out->add_copy(*n, std::move(args));
    for (auto& r : c->regions) r = clone(*r);
    for (size_t i = 0; i < c->results.size(); ++i) at(n->results[i]) = c->results[i];
  }
  for (auto& o : g.outputs) out->outputs.push_back({o.value ? at(o.value) : nullptr, o.literal, o.mutates});
  return out;
}

}  // namespace toroid::graph
