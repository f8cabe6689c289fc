#include "autograd/tape/reverse.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <unordered_map>

#include "autograd/differentiate.h"
#include "autograd/rule.h"
#include "base/check.h"
#include "graph/bind.h"
#include "graph/pass.h"
#include "graph/recorder.h"
#include "graph/region_call.h"
#include "ops/call_errors.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Value;

namespace {

constexpr size_t kMaxKept = 4096;  // calls that differ: the oldest go, all at once

template <class T>
void put(std::string& key, const T& v) {
  key.append(reinterpret_cast<const char*>(&v), sizeof v);
}

// Everything of a call that its reverse depends on.
std::string key_of(const ops::Op& op, const CallArgs& args, const std::vector<bool>& wanted) {
  std::string key;
  key.reserve(128);
  put(key, &op);
  size_t next = 0;
  const auto item = [&](const auto& v) {
    using V = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<V, Tensor>) {
      key += v.defined() ? (wanted[next++] ? 'W' : 'T') : '-';
      if (!v.defined()) return;
      put(key, v.dtype());
      put(key, v.sizes().size());
      for (int64_t s : v.sizes()) put(key, s);
    } else if constexpr (std::is_same_v<V, Expr>) {
      put(key, v.constant());
    } else if constexpr (!std::is_same_v<V, std::monostate>) {
      put(key, v);
    }
  };
  for (auto& a : args) {
    key += static_cast<char>('a' + a.index());
    std::visit(
        [&](const auto& v) {
          using V = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<V, std::string> || std::is_same_v<V, std::vector<bool>>) {
            put(key, v.size());
            for (auto c : v) key += static_cast<char>(c);
          } else if constexpr (std::is_same_v<V, std::vector<Tensor>> || std::is_same_v<V, std::vector<Expr>> ||
                               std::is_same_v<V, std::vector<double>>) {
            put(key, v.size());
            for (auto& x : v) item(x);
          } else {
            item(v);
          }
        },
        a);
  }
  return key;
}

// The call as a graph of one node, whose outputs are all its results.
std::unique_ptr<Graph> graph_of(const ops::Op& op, const CallArgs& args) {
  auto g = std::make_unique<Graph>();
  g->name = "reverse of " + op.name;
  graph::Recorder recorder(*g);
  recorder.set_where("the call");
  size_t next = 0;
  CallArgs stand_ins;
  for (auto& a : args)
    stand_ins.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      const TensorType type{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}};
      return recorder.proxy(g->add_input(type, graph::InputKind::User, fmt::format("operand_{}", next++)));
    }));
  for (auto& r : recorder.call(op, std::move(stand_ins), std::source_location::current()))
    g->outputs.push_back({recorder.value_of(r), {}, -1});
  return g;
}

// Lets what is behind `old`'s producer read `by` in its place.
void replace(Graph& g, const Value* old, Value* by) {
  const auto swap = [&](Value* v) { return v == old ? by : v; };
  for (auto& n : g.nodes)
    if (n.get() != old->producer)
      for (auto& a : n->args) a = map_arg<Value*>(a, swap);
  for (auto& o : g.outputs) o.value = swap(o.value);
}

// What the name of an input says, "operand_3".
Reverse::Source source_of(const graph::Input& in) {
  constexpr std::pair<std::string_view, Reverse::Kind> kNames[] = {
      {"operand_", Reverse::Kind::Operand}, {"result_", Reverse::Kind::Result}, {"cotangent_", Reverse::Kind::Cotangent}};
  for (auto& [name, kind] : kNames) {
    if (in.data.defined() || !in.name.starts_with(name)) continue;
    Reverse::Source s{kind, 0};
    std::from_chars(in.name.data() + name.size(), in.name.data() + in.name.size(), s.index);
    return s;
  }
  TOROID_CHECK(in.data.defined(), "the input \"{}\" of the reverse of a call has no source", in.name);
  return {};
}

std::unique_ptr<Graph> gradients_alone(const ops::Op& op, const Graph& call, const Request& request) {
  auto joint = differentiate(call, request);
  const size_t results = call.outputs.size();
  // Where a rule gives the gradient it may read the results. What is made of parts is computed again from the operands.
  for (size_t r = 0; find_rule(op) && r < results; ++r) {
    Value* v = joint->outputs[r].value;
    if (v && v->producer) replace(*joint, v, joint->add_input(v->type, graph::InputKind::User, fmt::format("result_{}", r)));
  }
  joint->outputs.erase(joint->outputs.begin(), joint->outputs.begin() + static_cast<std::ptrdiff_t>(results));
  for (const char* pass : {"dce", "simplify", "cse"}) {
    const graph::PassRow row = graph::find_pass(pass);
    joint = graph::run_passes(std::move(joint), std::span(&row, 1));
  }
  const graph::PassRow last = graph::find_pass("dce");
  return graph::run_passes(std::move(joint), std::span(&last, 1));
}

// Inputs whose elements nobody reads, and which tell no open sizes.
void drop_unread(Graph& g) {
  std::set<const Value*> read;
  for (auto& n : g.nodes) graph::for_each_operand(*n, [&](const Value* v) { read.insert(v); });
  for (auto& o : g.outputs) read.insert(o.value);
  std::erase_if(g.inputs, [&](const graph::Input& in) {
    const auto& sizes = in.value->type.sizes;
    return !read.count(in.value) && std::all_of(sizes.begin(), sizes.end(), [](auto& s) { return s.is_const(); });
  });
}

std::shared_ptr<const Reverse> make(const ops::Op& op, const CallArgs& args, const std::vector<bool>& wanted) {
  auto out = std::make_shared<Reverse>();
  const auto call = graph_of(op, args);
  Request request{.inputs = {}, .takes_cotangents = true, .seeds = false, .extends = false};
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) request.inputs.push_back(i);
  out->graph = gradients_alone(op, *call, request);
  drop_unread(*out->graph);
  for (auto& in : out->graph->inputs) out->inputs.push_back(source_of(in));
  std::map<const Value*, size_t> last;
  for (size_t i = 0; i < out->graph->nodes.size(); ++i) {
    graph::for_each_operand(*out->graph->nodes[i], [&](const Value* v) { last[v] = i; });
    for (const Value* r : out->graph->nodes[i]->results) last.emplace(r, i);
  }
  for (auto& o : out->graph->outputs) last.erase(o.value);
  out->retired.resize(out->graph->nodes.size());
  for (auto& [v, i] : last) out->retired[i].push_back(static_cast<size_t>(v->id));
  return out;
}

}  // namespace

std::vector<Tensor> operands_of(const CallArgs& args) {
  std::vector<Tensor> out;
  for (auto& a : args) {
    if (auto* t = std::get_if<Tensor>(&a); t && t->defined()) out.push_back(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&a))
      for (auto& t : *list)
        if (t.defined()) out.push_back(t);
  }
  return out;
}

std::shared_ptr<const Reverse> reverse_of(const ops::Op& op, const CallArgs& args, const std::vector<bool>& wanted,
                                          const std::string& place) {
  static auto& mutex = *new std::shared_mutex;  // never destroyed: threads may outlive main
  static auto& kept = *new std::unordered_map<std::string, std::shared_ptr<const Reverse>>;
  const std::string key = key_of(op, args, wanted);
  {
    std::shared_lock lock(mutex);
    if (const auto it = kept.find(key); it != kept.end()) return it->second;
  }
  std::shared_ptr<const Reverse> made;
  try {
    made = make(op, args, wanted);
  } catch (const UserError& e) {
    fail<UserError>("{}", ops::call_error(e.what(), op, place));
  }
  std::unique_lock lock(mutex);
  if (kept.size() >= kMaxKept) kept.clear();
  return kept.emplace(key, std::move(made)).first->second;
}

std::vector<Tensor> run(const Reverse& r, std::vector<Tensor> inputs) {
  const Graph& g = *r.graph;
  const bool open = !g.symbols.empty();
  graph::BoundSymbols symbols;
  std::vector<Tensor> values(g.values.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    Tensor& t = values[static_cast<size_t>(g.inputs[i].value->id)];
    t = g.inputs[i].data.defined() ? g.inputs[i].data : std::move(inputs[i]);
    if (open) graph::bind_sizes(symbols, g.inputs[i].value->type, t.sizes());
  }
  inputs.clear();
  const auto number = [&](const Expr& e) { return open ? Expr(symbols.value(e)) : e; };
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const graph::Node& n = *g.nodes[i];
    CallArgs args;
    for (auto& a : n.args) {
      args.push_back(map_arg<Tensor>(a, [&](const Value* v) { return v ? values[static_cast<size_t>(v->id)] : Tensor(); }));
      if (auto* e = std::get_if<Expr>(&args.back())) *e = number(*e);
      if (auto* list = std::get_if<std::vector<Expr>>(&args.back()))
        for (auto& e : *list) e = number(e);
    }
    const auto results = graph::call_again(n, std::move(args));
    for (size_t k = 0; k < n.results.size(); ++k) {
      if (open) graph::bind_sizes(symbols, n.results[k]->type, results.at(k).sizes());
      values[static_cast<size_t>(n.results[k]->id)] = results.at(k);
    }
    for (size_t v : r.retired[i]) values[v] = Tensor();
  }
  std::vector<Tensor> out;
  for (auto& o : g.outputs) out.push_back(values[static_cast<size_t>(o.value->id)]);
  return out;
}

}  // namespace toroid::autograd
