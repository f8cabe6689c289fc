#include "autograd/partition_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <random>

#include "autograd/differentiate.h"
#include "autograd/partition/divide.h"
#include "autograd/partition/keeping.h"
#include "autograd/partition/min_cut.h"
#include "base/check.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "graph/verifier.h"
#include "ops/table.h"
#include "toroid/error.h"

namespace toroid::autograd {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr double kShares[] = {0, 0.25, 0.5, 0.75, 1};  // of what is kept by default, that is computed again

// A forward pass of matrices of 1 MiB and more, and nodes behind a seed that read some of its values.
class RandomPasses {
 public:
  explicit RandomPasses(uint64_t seed) : random_(seed), recorder_(graph_), scope_(recorder_) {
    for (int i = 0; i < 2; ++i) keep(input());
    const size_t forward = 3 + random_() % 6, backward = 1 + random_() % 3;
    for (size_t i = 0; i < forward; ++i) keep(next());
    const Tensor loss = values_.back();
    graph_.outputs.push_back({recorder_.value_of(loss), {}, -1});
    if (random_() % 3 == 0) graph_.outputs.push_back({recorder_.value_of(any()), {}, -1});
    Tensor seed_value = ops::call1("prims.gradient_seed", {loss, std::monostate{}});
    for (size_t i = 0; i < backward; ++i) {
      seed_value = ops::call1("mul.Tensor", {seed_value, any()});
      graph_.outputs.push_back({recorder_.value_of(seed_value), {}, -1});
    }
  }
  const Graph& graph() const { return graph_; }

 private:
  static constexpr int64_t kSize = 512;

  Tensor input() {
    const std::vector<Expr> sizes = {kSize, kSize};
    return recorder_.proxy(graph_.add_input({DType::F32, sizes, {}}, graph::InputKind::User, "x"));
  }
  void keep(const Tensor& t) { values_.push_back(t); }
  const Tensor& any() { return values_[random_() % values_.size()]; }
  Tensor next() {
    switch (random_() % 9) {
      case 0:
        return ops::call1("mm", {wide(any()), wide(any())});
      case 1:
        return ops::call1("sum.dim_IntList", {any(), std::vector<Expr>{1}, true});
      case 2:
        return ops::call1("t", {any()});
      case 3:
        return ops::call1("_to_copy", {any(), DType::F64});
      case 4:
        return ops::call1("_to_copy", {any(), DType::BF16});
      case 5:
      case 6:
        return ops::call1("exp", {any()});
      default:
        return ops::call1("add.Tensor", {any(), any()});
    }
  }
  // As a matrix of f32, which products take.
  Tensor wide(const Tensor& t) {
    const bool fits = t.dtype() == DType::F32 && t.size(0).expr() == Expr(kSize) && t.size(1).expr() == Expr(kSize);
    return fits ? t : values_[0];
  }

  std::mt19937_64 random_;
  Graph graph_;
  graph::Recorder recorder_;
  DispatchScope scope_;
  std::vector<Tensor> values_;
};

bool is_output(const Graph& g, const Value* v) {
  return std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.value == v; });
}

// The cheapest values from which all that follows the seed can be computed, by looking at every set of them.
class EverySet {
 public:
  explicit EverySet(const Graph& g) : g_(g), sizes_(g) {
    std::unordered_set<const Value*> behind;
    for (auto& n : g.nodes) {
      bool is_behind = n->op->name == "prims.gradient_seed";
      graph::for_each_operand(*n, [&](const Value* v) { is_behind = is_behind || behind.count(v) > 0; });
      if (is_behind) {
        behind.insert(n->results[0]);
        if (n->op->name != "prims.gradient_seed") readers_.push_back(n.get());
      } else {
        forward_.push_back(n.get());
      }
    }
    std::unordered_set<const Value*> live;
    for (auto& o : g.outputs)
      if (!behind.count(o.value)) live.insert(o.value);
    for (size_t i = forward_.size(); i-- > 0;)
      if (live.count(forward_[i]->results[0])) {
        needed_.insert(forward_[i]);
        graph::for_each_operand(*forward_[i], [&](const Value* v) { live.insert(v); });
      }
    keep_ = what_to_keep(g, forward_, needed_, {}, sizes_);
    in_memory_ = in_memory_anyway(forward_, needed_);
  }

  int64_t cheapest(bool by_default) const {
    int64_t best = Network::kInfinite;
    for (uint64_t set = 0; set < uint64_t{1} << forward_.size(); ++set) best = std::min(best, cost_of(set, by_default).value_or(best));
    return best;
  }
  int64_t cost_of(const Value* v) const {
    const int64_t bytes = sizes_.bytes(*v);
    return in_memory_.count(v) ? bytes : bytes + bytes / 8;
  }

 private:
  std::optional<int64_t> cost_of(uint64_t set, bool by_default) const {
    int64_t cost = 0;
    std::unordered_map<const Value*, bool> is_there;
    const auto known = [&](const Value* v) { return !v->producer || is_there.at(v); };
    for (size_t i = 0; i < forward_.size(); ++i) {
      const Node& n = *forward_[i];
      const Value* v = n.results[0];
      const bool kept = by_default && keep_.at(&n) != Keep::No, saved = set >> i & 1;
      if (saved && !kept && is_view(n) && !is_output(g_, v)) return std::nullopt;  // what it shows is saved
      bool computed = !kept;
      graph::for_each_operand(n, [&](const Value* o) { computed = computed && known(o); });
      if (saved && !is_output(g_, v)) cost += cost_of(v);
      is_there[v] = saved || computed || is_output(g_, v);
    }
    bool enough = true;
    for (const Node* n : readers_)
      graph::for_each_operand(*n, [&](const Value* v) { enough = enough && (!is_there.count(v) || is_there.at(v)); });
    return enough ? std::optional(cost) : std::nullopt;
  }

  const Graph& g_;
  const UsualSizes sizes_;
  std::vector<const Node*> forward_, readers_;
  std::unordered_set<const Node*> needed_;
  std::unordered_map<const Node*, Keep> keep_;
  std::unordered_set<const Value*> in_memory_;
};

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.dtype() == y.dtype() && x.sizes() == y.sizes() &&
         std::memcmp(x.raw_data(), y.raw_data(), static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

std::string wrong_marks(const Graph& g, const Graph& after, const Partition& p) {
  size_t forward_count = 0;
  std::unordered_set<const Value*> again;
  for (auto& n : after.nodes) {
    if (n->pass == graph::Pass::Again) again.insert(n->results.begin(), n->results.end());
    bool is_made_of_gradients = n->op->name == "prims.gradient_seed";
    graph::for_each_operand(*n, [&](const Value* v) {
      is_made_of_gradients = is_made_of_gradients || (v->producer && v->producer->pass == graph::Pass::Backward);
    });
    if (is_made_of_gradients != (n->pass == graph::Pass::Backward)) return fmt::format("{} is of the wrong pass", n->op->name);
    forward_count += n->pass == graph::Pass::Forward;
  }
  if (forward_count != p.forward.size()) return fmt::format("{} nodes are forward, {} are marked so", p.forward.size(), forward_count);
  const std::unordered_set<const Node*> forward(p.forward.begin(), p.forward.end());
  for (size_t i = 0; i < g.outputs.size(); ++i)
    if (const Value* v = g.outputs[i].value; v && v->producer && forward.count(v->producer) && again.count(after.outputs[i].value))
      return fmt::format("output {} is computed again", i);
  return "";
}

std::unique_ptr<Graph> differentiable_graph(uint64_t seed) {
  graph::RandomGraphOptions options;
  options.nodes = 3 + static_cast<int>(seed % 10);
  options.dynamic_sizes = seed % 3 == 0;
  options.in_place = options.data_dependent = options.special_values = options.mixed_dtypes = false;
  return graph::random_graph(seed, options);
}

// As a compile sees it; null where there is no gradient.
std::unique_ptr<Graph> joint_of(const Graph& g, const Request& request) {
  try {
    return graph::run_passes(differentiate(g, request), graph::pipeline(graph::kLoops));
  } catch (const UserError&) {
    return nullptr;
  }
}

}  // namespace

std::string wrong_cut(uint64_t seed) {
  std::mt19937_64 random(seed);
  const int vertices = 2 + static_cast<int>(random() % 9);
  Network network;
  for (int i = 0; i < vertices; ++i) network.add_vertex();
  struct Edge {
    int from, to;
    int64_t capacity;
    size_t number;
  };
  std::vector<Edge> edges;
  for (uint64_t i = 0, count = random() % 24; i < count; ++i) {
    Edge e{static_cast<int>(random() % static_cast<uint64_t>(vertices)), static_cast<int>(random() % static_cast<uint64_t>(vertices)),
           random() % 6 == 0 ? Network::kInfinite : static_cast<int64_t>(random() % 10), 0};
    e.number = network.add_edge(e.from, e.to, e.capacity);
    edges.push_back(e);
  }
  int64_t fewest = Network::kInfinite;
  for (uint64_t set = 0; set < uint64_t{1} << vertices; ++set) {  // those beside the source, which is vertex 0; the sink is 1
    if (!(set & 1) || (set & 2)) continue;
    int64_t capacity = 0;
    for (auto& e : edges)
      if ((set >> e.from & 1) && !(set >> e.to & 1)) capacity = std::min(Network::kInfinite, capacity + e.capacity);
    fewest = std::min(fewest, capacity);
  }
  const int64_t found = network.cut(0, 1);
  if (found != fewest) return fmt::format("seed {}: the cut has {}, the smallest {}", seed, found, fewest);
  if (found == Network::kInfinite) return "";
  int64_t sum = 0;
  for (auto& e : edges)
    if (network.is_cut(e.number)) sum += e.capacity;
  return sum == found ? "" : fmt::format("seed {}: the edges of the cut have {}, the cut {}", seed, sum, found);
}

std::string wrong_partition(uint64_t seed) {
  const RandomPasses passes(seed);
  const Graph& g = passes.graph();
  const EverySet sets(g);
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const double again : kShares) {
    const Partition p = partition(g, {.again = again});
    if (p.backward.empty()) return "";  // nothing before the seed
    const auto wrong = [&](const char* what, int64_t is, int64_t expected) {
      return fmt::format("seed {}, share {}: {} {}, expected {}\n{}", seed, again, what, is, expected, graph::to_string(g));
    };
    if (again == 0 || again == 1) {
      int64_t cost = 0;
      for (auto& s : p.saved) cost += sets.cost_of(s.value);
      if (cost != sets.cheapest(again == 0)) return wrong("cost", cost, sets.cheapest(again == 0));
      const int64_t expected = again == 0 ? p.saved_by_default : p.saved_at_least;
      if (p.saved_bytes != expected) return wrong("saved", p.saved_bytes, expected);
    }
    if (p.saved_bytes > before) return wrong("more than where less is computed again:", p.saved_bytes, before);
    before = p.saved_bytes;
    int64_t sum = 0;
    for (auto& s : p.saved) sum += s.bytes;
    if (sum != p.saved_bytes) return wrong("the saved values have", sum, p.saved_bytes);
    if (const auto after = recompute(g, p)) {
      graph::verify(*after, "recompute");
      if (std::string marks = wrong_marks(g, *after, p); !marks.empty()) return fmt::format("seed {}: {}", seed, marks);
    }
  }
  return "";
}

std::string wrong_recomputation(uint64_t seed) {
  const auto g = differentiable_graph(seed);
  Request request{.inputs = {}, .takes_cotangents = true};
  for (size_t i = 0; i < g->inputs.size(); ++i)
    if (is_float(g->inputs[i].value->type.dtype)) request.inputs.push_back(i);
  const auto joint = joint_of(*g, request);
  if (!joint) return "";
  const auto inputs = graph::random_inputs(*joint, seed);
  const auto expected = graph::interpret(*joint, inputs);
  for (const double again : kShares)
    for (const bool dear : {false, true}) {
      const Partition p = partition(*joint, {.again = again, .arithmetic_is_dear = dear});
      if (p.forward.size() + p.backward.size() != joint->nodes.size()) return fmt::format("seed {}: nodes are lost", seed);
      const auto after = recompute(*joint, p);
      if (!after) continue;
      graph::verify(*after, "recompute");
      if (std::string marks = wrong_marks(*joint, *after, p); !marks.empty()) return fmt::format("seed {}: {}", seed, marks);
      const auto found = graph::interpret(*after, inputs);
      for (size_t i = 0; i < expected.size(); ++i)
        if (!same_bits(found[i], expected[i])) return fmt::format("seed {}, share {}: result {} differs", seed, again, i);
    }
  return "";
}

std::string wrong_checkpoint() {
  const auto g = graph::parse(R"(graph "g"(%x: f32[1024, 1024], %w: f32[1024, 1024]) {
  %y: f32[1024, 1024] = mm(%x, %w)
  %n: bf16[1024, 1024] = _to_copy(%y, dtype=bf16) checkpoint 1
  %a: f32[1024, 1024] = _to_copy(%n, dtype=f32) checkpoint 1
  %b: f32[1024, 1024] = exp(%a) checkpoint 1
  %c: f32[1024, 1024] = mm(%b, %w) checkpoint 1
  %d: f32[1024, 1024] = mm(%c, %w)
  %s: f32[1024, 1024] = prims.gradient_seed(%d)
  %e: f32[1024, 1024] = mm(%s, %b)
  %f: f32[1024, 1024] = mm(%e, %c)
  %h: f32[1024, 1024] = mm(%f, %d)
  return %d, %h
}
)");
  const Partition p = partition(*g, {});
  std::string saved;
  for (auto& s : p.saved) saved += s.value->name + " ";
  if (saved != "y c ") return "saved: " + saved + "; expected y c, which enter and leave the checkpoint";
  const auto after = recompute(*g, p);
  if (!after) return "nothing is computed again";
  return wrong_marks(*g, *after, p);
}

namespace {

// What the two programs give: the results, new contents of inputs, then the gradients (undefined: 0). cotangents: by result.
std::vector<Tensor> run_divided(const Divided& d, std::vector<Tensor> operands, const std::vector<Tensor>& cotangents) {
  const std::vector<Tensor> before = operands;
  std::vector<Tensor> out = graph::interpret(*d.forward, operands);
  const std::vector<Tensor> saved(out.begin() + static_cast<std::ptrdiff_t>(d.results), out.end());
  out.resize(d.results);
  std::vector<Tensor> gradients;
  if (d.backward) {
    std::vector<Tensor> given;
    for (auto& in : d.inputs) {
      if (in.kind == Divided::Kind::Operand) given.push_back(before[in.index]);
      if (in.kind == Divided::Kind::Result) given.push_back(out.at(in.index));
      if (in.kind == Divided::Kind::Saved) given.push_back(saved.at(in.index));
      if (in.kind == Divided::Kind::Cotangent) given.push_back(cotangents.at(in.index));
      if (in.kind != Divided::Kind::Sizes) continue;
      std::vector<int64_t> sizes;
      for (auto& s : d.sizes) sizes.push_back(before[s.operand].sizes()[s.dimension]);
      sizes.push_back(0);
      given.push_back(Tensor::empty(sizes, DType::U8));
    }
    gradients = graph::interpret(*d.backward, given);
  }
  for (auto& g : d.gradients) {
    TOROID_USER_CHECK(!g || *g < gradients.size(), "there is no gradient {}", *g);
    out.push_back(g ? gradients[*g] : Tensor());
  }
  return out;
}

// Undefined: 0.
bool same_or_zero(const Tensor& found, const Tensor& expected) {
  if (found.defined()) return same_bits(found, expected);
  const auto values = expected.to_vector();
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

PartitionPolicy policy_of(double budget, bool dear) {
  return {.saved_share = budget, .arithmetic_is_dear = dear, .recomputes = budget <= 1};
}
constexpr double kBudgetsAndOff[] = {0, 0.5, 1, 2};

}  // namespace

std::string wrong_division(uint64_t seed) {
  const auto g = differentiable_graph(seed);
  for (auto& in : g->inputs) in.kind = graph::InputKind::User;
  Request request{.inputs = {}, .takes_cotangents = true, .seeds = false};
  for (size_t i = 0; i < g->inputs.size(); ++i)
    if (is_float(g->inputs[i].value->type.dtype) && (request.inputs.empty() || (seed + i) % 4 != 0)) request.inputs.push_back(i);
  const auto joint = joint_of(*g, request);
  if (!joint) return "";
  const auto inputs = graph::random_inputs(*joint, seed);
  const std::vector<Tensor> operands(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(g->inputs.size()));
  std::vector<Tensor> cotangents(joint->outputs.size());
  for (size_t i = operands.size(); i < inputs.size(); ++i)
    cotangents.at(std::stoul(joint->inputs[i].name.substr(kCotangent.size()))) = inputs[i];
  const auto expected = graph::interpret(*joint, inputs);
  for (const double budget : kBudgetsAndOff)
    for (const bool dear : {false, true}) {
      const Divided d = divide(*joint, request.inputs.size(), policy_of(budget, dear));
      graph::verify(*d.forward, "divide");
      if (d.backward) graph::verify(*d.backward, "divide");
      const auto found = run_divided(d, operands, cotangents);
      if (found.size() != expected.size()) return fmt::format("seed {}: {} results of {}", seed, found.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i)
        if (!same_or_zero(found[i], expected[i])) return fmt::format("seed {}, budget {}: result {} differs", seed, budget, i);
    }
  return "";
}

std::string wrong_divided_effects() {
  // The first input gets no gradient that is other than 0; the second one's new contents are read by the gradient of the third.
  const auto g = graph::parse(R"(graph "g"(%w: f32[2, 3], %x: f32[2, 3], %y: f32[2, 3]) {
  %drawn: f32[2, 3] = rand_like(%x)
  %mask: bool[2, 3] = gt.Scalar(%drawn, other=0.5)
  %zero: f32[2, 3] = detach(%w)
  %kept: f32[2, 3] = where.ScalarOther(%mask, %y, other=0)
  %next: f32[2, 3] = add.Tensor(%x, %zero)
  %e: f32[2, 3] = exp(%next)
  %r: f32[2, 3] = mul.Tensor(%kept, %e)
  %q: f32[2, 3] = mul.Tensor(%drawn, %y)
  return %r, %q, %e
}
)");
  Request request{.inputs = {0, 1, 2}, .takes_cotangents = true, .seeds = false};
  auto joint = differentiate(*g, request);
  joint->outputs[2].mutates = 1;
  joint = graph::run_passes(std::move(joint), graph::pipeline(graph::kLoops));
  const Tensor w = Tensor::of({1, 1, 1, 1, 1, 1}, {2, 3}), x = Tensor::of({.1, .2, .3, .4, .5, .6}, {2, 3}),
               y = Tensor::of({6, 5, 4, 3, 2, 1}, {2, 3});
  const std::vector<Tensor> cotangents{Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3}), Tensor::of({.5, .25, 2, 4, 1, 3}, {2, 3}),
                                       Tensor::of({0, 0, 1, 0, 0, 0}, {2, 3})};
  for (const double budget : kBudgetsAndOff)
    for (const bool dear : {false, true}) {
      const Divided d = divide(*joint, 3, policy_of(budget, dear));
      if (d.gradients[0]) return "the gradient of a detached input is computed";
      for (auto& in : d.inputs)
        if (in.kind == Divided::Kind::Result && in.index == 2) return "new contents of an input are taken from its memory";
      if (budget == 0)  // f32 by default is less than what is kept without a question
        if (std::none_of(d.forward->outputs.begin() + 3, d.forward->outputs.end(), [](auto& o) { return !o.value->producer; }))
          return "the state of the random numbers is not saved by the smallest budget:\n" + graph::to_string(*d.forward);
      Divided plain = divide(*joint, 3, policy_of(budget, dear));
      for (auto& o : plain.forward->outputs) o.mutates = -1;  // so that the interpreter returns it
      const auto found = run_divided(plain, {w, x, y}, cotangents);
      const auto drawn = found[1].to_vector();
      for (size_t i = 0; i < 6; ++i) {
        const double r = drawn[i] / y.to_vector()[i], e = std::exp(x.to_vector()[i] + 1), kept = r > 0.5 ? 1 : 0;
        const double by_y = kept * e * cotangents[0].to_vector()[i] + r * cotangents[1].to_vector()[i];
        const double by_x = (kept * y.to_vector()[i] * cotangents[0].to_vector()[i] + cotangents[2].to_vector()[i]) * e;
        if (std::abs(found[5].to_vector()[i] - by_y) > 1e-3)
          return fmt::format("budget {}: by y {}, expected {}", budget, found[5].to_vector()[i], by_y);
        if (std::abs(found[4].to_vector()[i] - by_x) > 1e-3)
          return fmt::format("budget {}: by x {}, expected {}", budget, found[4].to_vector()[i], by_x);
      }
    }
  return "";
}

}  // namespace toroid::autograd
