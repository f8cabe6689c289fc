#include "fuzz_compiled/custom_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "base/check.h"
#include "toroid/custom_op.h"
#include "toroid/ops.h"

namespace toroid::fuzz {

using graph::Graph;
using graph::Node;
using graph::NodeArg;
using graph::Value;

namespace {

using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

// Two operations that compute the same: the second one's variant is chosen by the first size of the first argument.
struct Twins {
  const ops::Op *at_once, *by_size;
};

template <class F>
Twins twins(const std::string& name, const std::string& schema, F own, std::vector<CustomOpConfig> ways, const std::string& first) {
  auto op = custom_op("fuzz::" + name + schema, own), sized = custom_op("fuzz::" + name + "_by_size" + schema, own);
  register_custom_op_autotuning(op, ways);
  CustomTuning by_size;
  if (!first.empty()) by_size = {.dispatch_on = CustomDispatch{.tensor = first, .dim = 0}, .split_points = {3, 5, 8}};
  register_custom_op_autotuning(sized, ways, by_size);
  return {&op.op(), &sized.op()};
}

Tensor head(const Tensor& x) { return slice(x, 0, 0, 1); }
Tensor tail(const Tensor& x) { return slice(x, 0, 1); }

const CustomOp<Tensor>& copied() {
  static const auto op = [] {
    auto own = custom_op("fuzz::copied(Tensor x) -> Tensor", [](const Tensor& x) { return clone(x); });
    register_custom_op_autotuning(
        own, {{.name = "turned", .decomposition = [](const Tensor& x) { return transpose(contiguous(transpose(x, 0, -1)), 0, -1); }}});
    return own;
  }();
  return op;
}

// Ways to do the same to every element.
std::vector<CustomOpConfig> ways_of(const Unary& f) {
  return {{.name = "flat",
           .decomposition =
               [f](const Tensor& x) {
                 const std::vector<SymInt> sizes = x.sym_sizes();
                 return reshape(f(reshape(x, {-1})), sizes);
               }},
          {.name = "pieces",
           .decomposition =
               [f](const Tensor& x) {
                 return cat({f(head(x)), f(tail(x))}, 0);
               }},
          {.name = "turned", .decomposition = [f](const Tensor& x) { return transpose(f(transpose(x, 0, -1)), 0, -1); }},
          {.name = "laid out anew", .decomposition = [f](const Tensor& x) { return transpose(f(contiguous(transpose(x, 0, -1))), 0, -1); }},
          {.name = "flipped", .decomposition = [f](const Tensor& x) { return flip(f(flip(x, {0})), {0}); }},
          {.name = "written",
           .decomposition =
               [f](const Tensor& x) {
                 Tensor y = clone(x);
                 copy_(y, f(y));
                 return y;
               }},
          {.name = "written in parts",
           .decomposition =
               [f](const Tensor& x) {
                 Tensor y = clone(x), first = head(y), rest = tail(y);
                 copy_(rest, f(tail(y)));
                 copy_(first, f(first));
                 return y;
               }},
          {.name = "by others", .decomposition = [f](const Tensor& x) { return copied()(f(copied()(x))); }},
          {.name = "with options", .decomposition = [f](const Tensor& x) { return f(x); }, .options = {{"gemm_backends", "template"}}}};
}

std::vector<CustomOpConfig> ways_of(const Binary& f) {
  std::vector<CustomOpConfig> out = {
      {.name = "of copies", .decomposition = [f](const Tensor& x, const Tensor& y) { return f(clone(x), contiguous(y)); }}};
  for (auto& way : ways_of(Unary([](const Tensor& x) { return clone(x); })))
    if (way.name != "with options")
      out.push_back({.name = way.name,
                     .decomposition = [f, run = way.decomposition.run](const Tensor& x, const Tensor& y) { return run({f(x, y)}).at(0); }});
  return out;
}

// The results of ways_of(f), or those of f with `more`, by a function that writes them to its first argument.
std::vector<CustomOpConfig> writing(const std::vector<CustomOpConfig>& ways) {
  std::vector<CustomOpConfig> out;
  for (auto& way : ways) {
    const auto run = way.decomposition.run;
    if (way.decomposition.params.size() == 1)
      out.push_back({.name = way.name, .decomposition = [run](Tensor& x) { copy_(x, run({x}).at(0)); }, .options = way.options});
    else
      out.push_back({.name = way.name,
                     .decomposition =
                         [run](Tensor& x, const Tensor& y) {
                           copy_(x, run({x, y}).at(0));
                         },
                     .options = way.options});
  }
  return out;
}

Tensor product(const Tensor& a, const Tensor& b) { return matmul(a, b); }

std::vector<CustomOpConfig> products() {
  std::vector<CustomOpConfig> out = ways_of(Binary(product));
  const auto turned = [](const Tensor& x) { return transpose(x, -1, -2); };
  out.push_back({.name = "both turned",
                 .decomposition = [turned](const Tensor& a, const Tensor& b) { return turned(matmul(turned(b), turned(a))); }});
  out.push_back({.name = "twice as wide", .decomposition = [](const Tensor& a, const Tensor& b) {
                   return matmul(a, cat({b, b}, -1));  // other sizes: refused
                 }});
  out.push_back({.name = "columns apart", .decomposition = [](const Tensor& a, const Tensor& b) {
                   return cat({matmul(a, slice(b, -1, 0, 1)), matmul(a, slice(b, -1, 1))}, -1);
                 }});
  return out;
}

using Pair = std::pair<Tensor, Tensor>;

struct Ops {
  std::map<std::string, Twins> by_name;  // by the name of the node that they take the place of
  Twins relu_and_old, relu_then_copy, copies, into;
};

Ops make_ops() {
  Ops out;
  const std::map<std::string, Unary> unary = {
      {"relu", [](const Tensor& x) { return relu(x); }},       {"neg", [](const Tensor& x) { return neg(x); }},
      {"abs", [](const Tensor& x) { return abs(x); }},         {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }}, {"clone", [](const Tensor& x) { return clone(x); }}};
  for (auto& [name, f] : unary) out.by_name[name] = twins(name, "(Tensor self) -> Tensor", f, ways_of(f), "self");
  for (auto& name : {"relu", "tanh", "sigmoid"}) {
    const Unary f = unary.at(name);
    out.by_name[name + std::string("_")] = twins(
        name + std::string("_"), "(Tensor(a!) self) -> ()", [f](Tensor& x) { copy_(x, f(x)); }, writing(ways_of(f)), "self");
  }
  const std::map<std::string, Binary> binary = {{"add.Tensor", [](const Tensor& x, const Tensor& y) { return x + y; }},
                                                {"mul.Tensor", [](const Tensor& x, const Tensor& y) { return x * y; }},
                                                {"maximum", [](const Tensor& x, const Tensor& y) { return maximum(x, y); }}};
  for (auto& [name, f] : binary)
    out.by_name[name] = twins(name.substr(0, name.find('.')), "(Tensor self, Tensor other) -> Tensor", f, ways_of(f), "self");
  const Binary plus = binary.at("add.Tensor"), second = [](const Tensor&, const Tensor&y) { return y; };
  out.by_name["add_.Tensor"] = twins(
      "add_", "(Tensor(a!) self, Tensor other) -> ()", [](Tensor& x, const Tensor& y) { add_(x, y); }, writing(ways_of(plus)), "self");
  out.by_name["copy_"] = twins(
      "copy_", "(Tensor(a!) self, Tensor other) -> ()", [](Tensor& x, const Tensor& y) { copy_(x, y); },
      {{.name = "zeros first",
        .decomposition =
            [](Tensor& x, const Tensor& y) {
              Tensor from = clone(y);
              mul_(x, 0.0);
              copy_(x, from);
            }}},
      "self");
  out.into = twins(
      "into", "(Tensor other, Tensor(a!) self) -> ()", [](const Tensor& y, Tensor& x) { copy_(x, y); },
      {{.name = "copied", .decomposition = [](const Tensor& y, Tensor& x) { copy_(x, copied()(y)); }}}, "self");
  out.by_name["mm"] = twins("mm", "(Tensor self, Tensor other) -> Tensor", product, products(), "self");
  out.by_name["bmm"] = twins("bmm", "(Tensor self, Tensor other) -> Tensor", product, products(), "self");
  out.by_name["cat"] = twins(
      "cat", "(Tensor[] tensors, int dim=0, int unused=0) -> Tensor",
      [](const std::vector<Tensor>& list, int64_t dim, int64_t) { return cat(list, dim); },
      {{.name = "one by one",
        .decomposition =
            [](const std::vector<Tensor>& list, int64_t dim, int64_t) {
              Tensor all = list.at(0);
              for (size_t i = 1; i < list.size(); ++i) all = cat({all, list[i]}, dim);
              return list.size() < 2 ? clone(all) : all;
            }},
       {.name = "other", .params = {{"unused", 1}}}},
      "");
  out.by_name["sort"] = twins(
      "sort", "(Tensor self, int dim=-1, bool descending=False) -> (Tensor, Tensor)",
      [](const Tensor& x, int64_t dim, bool descending) { return sort(x, dim, descending); },
      {{.name = "all of them",
        .decomposition = [](const Tensor& x, int64_t dim, bool descending) { return topk(x, x.size(dim), dim, descending); }},
       {.name = "turned",
        .decomposition =
            [](const Tensor& x, int64_t dim, bool descending) {
              auto [values, at] = sort(transpose(x, dim, 0), 0, descending);
              return Pair(transpose(values, dim, 0), transpose(at, dim, 0));
            }},
       {.name = "values by places",
        .decomposition =
            [](const Tensor& x, int64_t dim, bool descending) {
              Tensor at = sort(x, dim, descending).second;
              return Pair(gather(x, dim, at), at);
            }}},
      "self");
  out.copies = twins(
      "copies", "(Tensor x, Tensor y) -> (Tensor, Tensor)", [](const Tensor& x, const Tensor& y) { return Pair(clone(x), clone(y)); },
      {{.name = "other order",
        .decomposition =
            [](const Tensor& x, const Tensor& y) {
              Tensor b = copied()(y), a = clone(x);
              return Pair(a, b);
            }},
       {.name = "one in pieces",
        .decomposition =
            [](const Tensor& x, const Tensor& y) {
              return Pair(cat({head(x), tail(x)}, 0), clone(y));
            }}},
      "x");
  out.relu_and_old = twins(
      "relu_and_old", "(Tensor(a!) self) -> Tensor",
      [](Tensor& x) {
        Tensor old = clone(x);
        relu_(x);
        return old;
      },
      {{.name = "through views",
        .decomposition =
            [](Tensor& x) {
              Tensor old = cat({head(x), tail(x)}, 0), rest = tail(x);
              relu_(rest);
              Tensor first = head(x);
              relu_(first);
              return old;
            }},
       {.name = "from a copy",
        .decomposition =
            [](Tensor& x) {
              Tensor old = copied()(x);
              copy_(x, relu(old));
              return old;
            }}},
      "self");
  out.relu_then_copy = twins(
      "relu_then_copy", "(Tensor(a!) self, Tensor other) -> Tensor",
      [](Tensor& x, const Tensor& y) {
        relu_(x);
        return clone(y);
      },
      {{.name = "in a row",
        .decomposition =
            [](Tensor& x, const Tensor& y) {
              copy_(x, relu(x));
              return copied()(y);
            }}},
      "self");
  return out;
}

const Ops& all_ops() {
  static const Ops& ops = *new Ops(make_ops());
  return ops;
}

// Rewrites both graphs, which begin equal, node by node.
class Customiser {
 public:
  Customiser(std::unique_ptr<Graph> g, uint64_t seed) : random_(seed * 7919 + 5), plain_(std::move(g)) {}

  Customised run() {
    for (int i = 0; i < 2 && !plain_->nodes.empty(); ++i) insert_copies();
    for (size_t i = 0; i < plain_->nodes.size(); ++i) {
      Node& n = *plain_->nodes[i];
      static const std::set<std::string_view> other_unary = {"tanh_", "sigmoid_", "sin_", "zero_"};
      if (other_unary.count(n.op->name) && pick(2)) n.op = &ops::get("relu_");
      if (n.op->name == "relu_" && pick(4)) i += insert_copy_beside(i);
    }
    custom_ = graph::clone(*plain_);
    for (size_t i = 0; i < custom_->nodes.size(); ++i) swap(i);
    drop_merged();
    graph::verify(*custom_, "a random graph with custom operations");
    return {std::move(plain_), std::move(custom_), calls_};
  }

 private:
  static constexpr const char* kCopy = "copy";
  size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }

  // A node before the one at `at`.
  Value* insert_clone(size_t at, Value* of) {
    Node* n = plain_->add_node(ops::get("clone"), {of, std::monostate{}}, {{of->type.dtype, of->type.sizes, {}}}, kCopy);
    std::rotate(plain_->nodes.begin() + static_cast<long>(at), plain_->nodes.end() - 1, plain_->nodes.end());
    return n->results[0];
  }

  std::vector<Value*> known_before(size_t at) const {
    std::vector<Value*> out;
    for (auto& in : plain_->inputs) out.push_back(in.value);
    for (size_t i = 0; i < at; ++i) out.insert(out.end(), plain_->nodes[i]->results.begin(), plain_->nodes[i]->results.end());
    return out;
  }

  // Two copies, one of which an operand of a node is, where it only reads it; both are results.
  void insert_copies() {
    const size_t at = pick(plain_->nodes.size());
    Node& reader = *plain_->nodes[at];
    if (reader.where == kCopy) return;
    const auto known = known_before(at);
    Value* other = known[pick(known.size())];
    for (size_t a = graph::is_mutating(*reader.op) ? 1 : 0; a < reader.args.size(); ++a) {
      auto* v = std::get_if<Value*>(&reader.args[a]);
      if (!v || !*v) continue;
      Value *first = insert_clone(at, *v), *second = insert_clone(at + 1, other);
      *v = first;
      pairs_[first] = second;
      plain_->outputs.push_back({second, {}, -1});
      return;
    }
  }

  // What a value is a view of.
  static const Value* owner_of(const Value* v) {
    while (v->producer && (graph::is_mutating(*v->producer->op) || (v->producer->op->index_map && v->producer->op->schema.params[0].alias)))
      v = std::get<Value*>(v->producer->args[0]);
    return v;
  }

  // A copy of what a node is about to write, or, behind it, of any value, often of one in the same memory. How many nodes to go on.
  size_t insert_copy_beside(size_t at) {
    Value* written = std::get<Value*>(plain_->nodes[at]->args[0]);
    const bool before = pick(3) == 0;
    auto known = known_before(at);
    if (pick(2)) std::erase_if(known, [&](Value* v) { return owner_of(v) != owner_of(written); });
    Value* v = insert_clone(before ? at : at + 1, before ? written : known[pick(known.size())]);
    plain_->outputs.push_back({v, {}, -1});
    (before ? old_ : beside_)[plain_->nodes[before ? at + 1 : at]->results[0]] = v;
    return 1;
  }

  Value* here(const Value* in_plain) const {
    return std::find_if(custom_->values.begin(), custom_->values.end(), [&](auto& v) { return v->name == in_plain->name; })->get();
  }
  Value* partner(const std::map<Value*, Value*>& of, const Value* v) const {
    for (auto& [a, b] : of)
      if (a->name == v->name) return here(b);
    return nullptr;
  }

  const ops::Op* one_of(const Twins& t, const Value* by) {
    ++calls_;
    return !by->type.sizes.empty() && pick(3) == 0 ? t.by_size : t.at_once;
  }

  void swap(size_t at) {
    Node& n = *custom_->nodes[at];
    auto* first = n.args.empty() ? nullptr : std::get_if<Value*>(&n.args[0]);
    const Ops& all = all_ops();
    if (first && n.op->name == "clone")
      if (Value* second = partner(pairs_, n.results[0])) {
        merge(n, {*first, std::get<Value*>(second->producer->args[0])}, {n.results[0], second}, one_of(all.copies, *first));
        return;
      }
    if (first && n.op->name == "relu_") {
      Value *old = partner(old_, n.results[0]), *beside = partner(beside_, n.results[0]);
      if (old || beside) {
        std::vector<NodeArg> args = {*first};
        if (beside) args.push_back(std::get<Value*>(beside->producer->args[0]));
        replace_uses(n.results[0], *first);
        merge(n, args, {old ? old : beside}, one_of(old ? all.relu_and_old : all.relu_then_copy, *first));
        return;
      }
    }
    const auto it = all.by_name.find(n.op->name);
    if (it == all.by_name.end() || pick(4) == 0 || merged_.count(&n)) return;
    auto args = fitting(n, it->second.at_once->schema);
    if (!args) return;
    const bool writes = graph::is_mutating(*n.op);
    if (writes) {
      replace_uses(n.results[0], *first);
      merged_values_.insert(n.results[0]);
      n.results.clear();
    }
    if (writes && n.op->name == "copy_" && pick(2)) {
      std::swap(args->at(0), args->at(1));
      n.op = one_of(all.into, *first);
    } else {
      n.op = first ? one_of(it->second, *first) : it->second.at_once;
      calls_ += !first;
    }
    n.args = *args;
  }

  // `n` computes these results, some of which are other nodes' until now.
  void merge(Node& n, std::vector<NodeArg> args, std::vector<Value*> results, const ops::Op* op) {
    for (Value* r : n.results)
      if (std::find(results.begin(), results.end(), r) == results.end()) merged_values_.insert(r);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i]->producer != &n) merged_.insert(results[i]->producer);
      results[i]->producer = &n;
      results[i]->result = i;
    }
    n.op = op, n.args = std::move(args), n.results = std::move(results);
  }

  void replace_uses(const Value* old, Value* by) {
    const auto replace = [&](Value*& v) {
      if (v == old) v = by;
    };
    for (auto& n : custom_->nodes)
      for (auto& a : n->args) {
        if (auto* v = std::get_if<Value*>(&a)) replace(*v);
        if (auto* list = std::get_if<std::vector<Value*>>(&a))
          for (auto& v : *list) replace(v);
      }
    for (auto& o : custom_->outputs)
      if (o.value) replace(o.value);
  }

  // The node's arguments for a schema that may have fewer; none where those that it has not say something.
  static std::optional<std::vector<NodeArg>> fitting(const Node& n, const ops::Schema& schema) {
    std::vector<NodeArg> out;
    for (size_t i = 0; i < n.args.size(); ++i) {
      const NodeArg& a = n.args[i];
      if (i >= schema.params.size()) {
        auto* e = std::get_if<Expr>(&a);
        auto* d = std::get_if<double>(&a);
        auto* b = std::get_if<bool>(&a);
        if (!std::holds_alternative<std::monostate>(a) && !(e && *e == Expr(1)) && !(d && *d == 1) && !(b && !*b)) return std::nullopt;
        continue;
      }
      const bool list = schema.params[i].list, tensor = schema.params[i].type == ops::ParamType::Tensor;
      auto* v = std::get_if<Value*>(&a);
      if (tensor && !list && !(v && *v)) return std::nullopt;
      if (tensor && list && !std::holds_alternative<std::vector<Value*>>(a)) return std::nullopt;
      out.push_back(a);
    }
    for (size_t i = out.size(); i < schema.params.size(); ++i) out.push_back(Expr(0));
    return out;
  }

  void drop_merged() {
    std::erase_if(custom_->nodes, [&](auto& n) { return merged_.count(n.get()) > 0; });
    std::erase_if(custom_->values, [&](auto& v) { return merged_values_.count(v.get()) > 0; });
    for (size_t i = 0; i < custom_->values.size(); ++i) custom_->values[i]->id = static_cast<int>(i);
  }

  std::mt19937_64 random_;
  std::unique_ptr<Graph> plain_, custom_;
  std::map<Value*, Value*> pairs_, old_, beside_;  // of the plain graph
  std::set<const Node*> merged_;
  std::set<const Value*> merged_values_;
  int calls_ = 0;
};

}  // namespace

Customised customised(std::unique_ptr<Graph> g, uint64_t seed) { return Customiser(std::move(g), seed).run(); }

}  // namespace toroid::fuzz
