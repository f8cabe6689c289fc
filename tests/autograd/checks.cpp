#include "autograd/checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "autograd/differentiate.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "ops/reference.h"
#include "ops/rows/attention.h"
#include "toroid/error.h"

namespace toroid::autograd {
namespace {

using graph::Graph;
using graph::InputKind;
using Values = std::vector<double>;
using Inputs = std::vector<Tensor>;  // one for each input of a graph, parameters included

Tensor of(const Tensor& like, const Values& values) { return Tensor::of(values, like.sizes(), like.dtype()); }

bool is_moved(const Tensor& t) { return t.dtype() == DType::F64; }

// What a graph gives, each input as given: what it writes is written to copies.
Inputs run(const Graph& g, const Inputs& inputs) {
  const auto own = graph::clone(g);
  Inputs user;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor copy = of(inputs[i], inputs[i].to_vector());
    if (own->inputs[i].kind == InputKind::User)
      user.push_back(copy);
    else
      own->inputs[i].data = copy;
  }
  return graph::interpret(*own, user);
}

class Check {
 public:
  Check(const Graph& g, Inputs inputs, uint64_t seed) : graph_(g), inputs_(std::move(inputs)), random_(seed) {
    request_.takes_cotangents = true;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_float(inputs_[i].dtype())) request_.inputs.push_back(i);
  }

  // UserError where something has no gradient.
  std::unique_ptr<Graph> joint() const {
    auto joint = differentiate(graph_, request_);
    graph::verify(*joint, "differentiate");
    return joint;
  }

  // The inputs of the joint graph: those of the graph, and a cotangent of both signs for each float output.
  Inputs joint_inputs() {
    Inputs out = inputs_;
    cotangents_.clear();
    for (const Tensor& y : run(graph_, inputs_)) {
      const bool counts = y.defined() && is_float(y.dtype());
      cotangents_.push_back(counts ? drawn(y) : Tensor());
      if (counts) out.push_back(cotangents_.back());
    }
    return out;
  }

  // smooth: the graph has no kink or jump at its inputs, or only such that moving all inputs alike does not meet (tied).
  std::string compare(bool smooth, bool tied, bool symmetric, RandomCheck* random) {
    const auto joint = this->joint();
    const Inputs found = run(*joint, joint_inputs());
    const size_t first = found.size() - request_.inputs.size();
    std::vector<Values> directions;
    for (size_t k = 0; k < request_.inputs.size(); ++k) {
      const Tensor &x = inputs_[request_.inputs[k]], &gradient = found[first + k];
      if (gradient.sizes() != x.sizes()) return fmt::format("the gradient of input {} has other sizes", k);
      if (gradient.dtype() != x.dtype()) return fmt::format("the gradient of input {} is {}", k, name_of(gradient.dtype()));
      if (tied)
        directions.push_back(Values(static_cast<size_t>(x.numel()), 1));
      else
        directions.push_back(drawn(x, symmetric && k == 0).to_vector());
    }
    if (tied) return compare_along(found, first, directions, ~size_t{0}, smooth, random);
    for (size_t k = 0; k < directions.size(); ++k)
      if (const std::string wrong = compare_along(found, first, directions, k, smooth, random); !wrong.empty()) return wrong;
    return "";
  }

 private:
  double uniform(double lo, double hi) { return std::uniform_real_distribution<double>(lo, hi)(random_); }
  Tensor drawn(const Tensor& like, bool symmetric = false) {
    Values v(static_cast<size_t>(like.numel()));
    for (double& x : v) x = uniform(0.25, 1) * (random_() % 2 ? 1 : -1);
    const Tensor t = of(like, v);
    return symmetric ? ops::call1("add.Tensor", {t, ops::call1("t", {t})}) : t;
  }

  // The sum of the float outputs, each times its cotangent, with input k (or all) moved by h along its direction.
  double moved(const std::vector<Values>& directions, size_t k, double h) const {
    Inputs at = inputs_;
    for (size_t j = 0; j < directions.size(); ++j) {
      Tensor& x = at[request_.inputs[j]];
      if ((k != j && k != ~size_t{0}) || !is_moved(x)) continue;
      Values v = x.to_vector();
      for (size_t e = 0; e < v.size(); ++e) v[e] += h * directions[j][e];
      x = of(x, v);
    }
    const Inputs results = run(graph_, at);
    double sum = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!cotangents_[i].defined()) continue;
      const Values y = results[i].to_vector(), g = cotangents_[i].to_vector();
      for (size_t e = 0; e < y.size(); ++e) sum += y[e] * g[e];
    }
    return sum;
  }

  std::string compare_along(const Inputs& found, size_t first, const std::vector<Values>& directions, size_t k, bool smooth,
                            RandomCheck* random) const {
    double product = 0, size = 0;
    bool moves = false;
    for (size_t j = 0; j < directions.size(); ++j) {
      if ((k != j && k != ~size_t{0}) || !is_moved(inputs_[request_.inputs[j]])) continue;
      moves = true;
      const Values g = found[first + j].to_vector();
      for (size_t e = 0; e < g.size(); ++e) product += g[e] * directions[j][e], size += std::abs(g[e] * directions[j][e]);
    }
    if (!moves) return "";
    const double at = moved(directions, k, 0);
    double slope = 0;
    // A kink or a jump may lie close by: a smaller step does not reach it.
    for (double step : {1e-5, 1e-6, 1e-7}) {
      const double above = moved(directions, k, step), below = moved(directions, k, -step);
      const double wide = (above - below) / (2 * step);
      const double narrow = (moved(directions, k, step / 2) - moved(directions, k, -step / 2)) / step;
      slope = (4 * narrow - wide) / 3;
      const double scale = 1 + size + std::abs(slope);
      if (std::abs(product - slope) <= 2e-5 * scale + 1e-14 * std::abs(at) / step) {
        if (random) ++random->slopes;
        return "";
      }
      const double bend = std::abs(above - 2 * at + below) / step;
      if (!smooth && (!std::isfinite(slope) || bend > 1e-2 * scale || std::abs(narrow - wide) > 1e-4 * scale)) return ++random->kinks, "";
    }
    return fmt::format("by input {}: the gradient says {}, differences say {}", k == ~size_t{0} ? 0 : request_.inputs[k], product, slope);
  }

  const Graph& graph_;
  Inputs inputs_, cotangents_;
  Request request_;
  std::mt19937_64 random_;
};

graph::RandomGraphOptions random_options(uint64_t seed) {
  graph::RandomGraphOptions o;
  o.nodes = 3 + static_cast<int>(seed % 8);
  o.in_place = seed % 3 == 1;
  o.dynamic_sizes = seed % 4 == 2;
  o.mixed_dtypes = seed % 5 == 3;
  o.data_dependent = o.special_values = false;
  o.degenerate = seed % 7 == 4;
  o.doubles = o.complex_numbers = true;
  o.control_flow = seed % 6 == 5;
  o.while_loops = false;  // they have no gradients
  return o;
}

// The graph's inputs, away from the grid on which they would be equal, or at a kink.
Inputs scattered_inputs(const Graph& g, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> noise(-0.06, 0.06);
  const Inputs user = graph::random_inputs(g, seed);
  Inputs out;
  size_t next = 0;
  for (auto& in : g.inputs) {
    const Tensor t = in.kind == InputKind::User ? user[next++] : in.data;
    Values v = t.to_vector();
    if (is_moved(t))
      for (double& x : v) x += noise(random);
    out.push_back(of(t, v));
  }
  return out;
}

}  // namespace

std::shared_ptr<Graph> graph_of(const Sample& s) {
  auto g = std::make_shared<Graph>();
  graph::Recorder recorder(*g);
  DispatchScope scope(recorder);
  const ops::Op& op = ops::get(s.op);
  CallArgs args;
  for (auto& a : ops::complete(op, s.args))
    args.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
      if (!t.defined()) return t;
      TensorType type{is_complex(t.dtype()) ? DType::F64 : t.dtype(), {}, {}};
      for (int64_t d : t.sizes()) type.sizes.push_back(d);
      if (is_complex(t.dtype())) type.sizes.push_back(2);
      const Tensor x = recorder.proxy(g->add_input(type, InputKind::User, "x"));
      return is_complex(t.dtype()) ? ops::call1("view_as_complex", {x}) : x;
    }));
  const auto results = recorder.call(op, args, std::source_location::current());
  for (size_t r = 0; r < results.size(); ++r) {
    const bool counts = s.results.empty() || std::count(s.results.begin(), s.results.end(), r);
    if (!counts || !(is_float(results[r].dtype()) || is_complex(results[r].dtype()))) continue;
    const Tensor real =
        is_complex(results[r].dtype()) ? ops::call1("view_as_real", {ops::call1("resolve_conj", {results[r]})}) : results[r];
    g->outputs.push_back({recorder.value_of(real), {}, -1});
  }
  return g;
}

std::vector<Tensor> inputs_of(const Sample& s) {
  Inputs out;
  const auto add = [&](const Tensor& t) {
    if (t.defined()) out.push_back(is_complex(t.dtype()) ? ops::call1("view_as_real", {t}).contiguous() : t);
  };
  for (auto& a : ops::complete(ops::get(s.op), s.args)) {
    if (auto* t = std::get_if<Tensor>(&a)) add(*t);
    if (auto* l = std::get_if<std::vector<Tensor>>(&a)) std::for_each(l->begin(), l->end(), add);
  }
  return out;
}

std::string wrong_gradient(const Sample& s) {
  const auto g = graph_of(s);
  const std::string wrong = Check(*g, inputs_of(s), 1).compare(true, s.tied, s.symmetric, nullptr);
  return wrong.empty() ? "" : s.op + ": " + wrong;
}

namespace {

std::string wrong_second(const Sample& s, bool at_zero) {
  const auto g = graph_of(s);
  Inputs inputs = inputs_of(s);
  const size_t operands = inputs.size();
  Check check(*g, inputs, 1);
  const auto joint = check.joint();
  inputs = check.joint_inputs();
  for (size_t i = operands; at_zero && i < inputs.size(); ++i) inputs[i] = Tensor::full(inputs[i].sizes(), 0, inputs[i].dtype());
  RandomCheck ignored;
  const std::string wrong = Check(*joint, inputs, 2).compare(false, false, s.symmetric, &ignored);
  return wrong.empty() ? "" : s.op + ": " + wrong;
}

}  // namespace

std::string wrong_second_gradient(const Sample& s) { return wrong_second(s, false); }
std::string wrong_second_gradient_at_zero(const Sample& s) { return wrong_second(s, true); }

RandomCheck check_random_graph(uint64_t seed, bool second) {
  RandomCheck out;
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  const auto g = graph::run_passes(graph::random_graph(seed, random_options(seed)), std::span(&functionalize, 1));
  Check check(*g, scattered_inputs(*g, seed), seed);
  try {
    check.joint_inputs();
  } catch (const UserError&) {  // the sizes that were drawn do not fit
    out.refused = true;
    return out;
  }
  try {
    if (second) {
      const auto joint = check.joint();
      out.wrong = Check(*joint, check.joint_inputs(), seed + 1).compare(false, false, false, &out);
    } else {
      out.wrong = check.compare(false, false, false, &out);
    }
  } catch (const UserError& e) {
    out.refused = true;
    out.wrong = std::string(e.what()).find("no gradient") == std::string::npos ? e.what() : "";
  }
  if (!out.wrong.empty()) out.wrong = fmt::format("seed {}: {}\n{}", seed, out.wrong, graph::to_string(*g));
  return out;
}

namespace {

// Gradients of a function of `inputs` that is recorded, all cotangents 1.
Inputs gradients_of(const Inputs& inputs, const std::function<Inputs(const Inputs&)>& fn, bool tied = false) {
  Graph g;
  {
    graph::Recorder recorder(g);
    DispatchScope scope(recorder);
    Inputs proxies;
    for (const Tensor& t : inputs) {
      TensorType type{t.dtype(), {}, {}};
      for (int64_t d : t.sizes()) type.sizes.push_back(d);
      proxies.push_back(recorder.proxy(g.add_input(type, tied ? InputKind::Parameter : InputKind::User, "x")));
      if (tied) g.inputs.back().data = t;
    }
    for (const Tensor& t : fn(proxies)) g.outputs.push_back({recorder.value_of(t), {}, -1});
  }
  Request request{.inputs = {}, .takes_cotangents = true};
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_float(inputs[i].dtype())) request.inputs.push_back(i);
  const auto joint = differentiate(g, request);
  Inputs all = tied ? Inputs() : inputs;
  for (auto& o : g.outputs) {
    std::vector<int64_t> sizes;
    for (auto& e : o.value->type.sizes) sizes.push_back(e.constant());
    all.push_back(Tensor::full(sizes, 1, o.value->type.dtype));
  }
  const Inputs out = graph::interpret(*joint, all);
  return {out.end() - static_cast<std::ptrdiff_t>(request.inputs.size()), out.end()};
}

}  // namespace

std::string wrong_attention_parts() {
  const ops::Op& op = ops::get("scaled_dot_product_attention");
  const CallArgs args = ops::complete(
      op, {floats({2, 4, 5, 3}), floats({2, 2, 6, 3}), floats({2, 2, 6, 3}), floats({2, 1, 5, 6}), 0.0, false, std::monostate{}, true});
  const Tensor result = ops::call(op, args)[0], cotangent = floats({2, 4, 5, 3});
  const ops::AttentionCall call = ops::attention_call(ops::CallReader(op, args));
  const ops::AttentionChange change = {result, cotangent, floats({2, 4, 5})};
  const auto gradients = [&](int64_t most_bytes) {
    std::vector<Values> out;
    const auto made = ops::attention_gradients(call, change, {true, true, true, false}, most_bytes);
    for (size_t i = 0; i < 3; ++i) out.push_back(made[i].to_vector());
    return out;
  };
  const auto whole = gradients(int64_t{1} << 40), parts = gradients(1);
  for (size_t i = 0; i < whole.size(); ++i)
    for (size_t k = 0; k < whole[i].size(); ++k)
      if (std::abs(whole[i][k] - parts[i][k]) > 1e-12)
        return fmt::format("operand {}: {} by parts, {} of all heads", i, parts[i][k], whole[i][k]);
  return "";
}

std::string wrong_corner() {
  using ops::call1;
  struct Corner {
    const char* what;
    Inputs inputs;
    std::function<Inputs(const Inputs&)> fn;
    std::vector<Values> expected;
    bool tied = false;
  };
  const Tensor x = Tensor::of({-1, 0, 2, 0}, {4}, DType::F64), table = Tensor::of({1, 2, 3}, {3, 1}, DType::F64);
  const Tensor rows = Tensor::of({0, 1, 1, 1}, {4}, DType::I64);
  const Tensor none = Tensor::of({0, 0}, {2}, DType::F64), rows_of_zeros = Tensor::of({0, 0}, {1, 2}, DType::F64);
  const auto embedding = [](Expr padding, bool by_frequency) {
    return [=](const Inputs& t) { return Inputs{call1("embedding", {t[0], t[1], padding, by_frequency})}; };
  };
  // What is not chosen has no part, also where its slope is infinite.
  const auto chosen = [](const char* name) {
    return [=](const Inputs& t) { return Inputs{call1("where.self", {call1("gt.Scalar", {t[0], 1.0}), call1(name, {t[0]}), 0.0})}; };
  };
  const Corner corners[] = {
      {"detach",
       {x},
       [](const Inputs& t) {
         return Inputs{call1("mul.Tensor", {call1("detach", {t[0]}), t[0]})};
       },
       {{-1, 0, 2, 0}}},
      {"detach of all", {x}, [](const Inputs& t) { return Inputs{call1("detach", {t[0]})}; }, {{0, 0, 0, 0}}},
      {"fake quantization: straight through where nothing is clamped",
       {x},
       [](const Inputs& t) {
         return Inputs{call1("fake_quantize_per_tensor_affine", {t[0], 0.5, Expr(1), Expr(0), Expr(3)})};
       },
       {{0, 1, 0, 1}}},
      {"written within a NoGrad",
       {x},
       [](const Inputs& t) {
         return Inputs{call1("prims.with_history", {call1("mul.Tensor", {t[0], t[0]}), call1("exp", {t[0]})})};
       },
       {{-2, 0, 4, 0}}},
      {"integers",
       {x},
       [](const Inputs& t) {
         return Inputs{call1("_to_copy", {call1("_to_copy", {t[0], DType::I64}), DType::F64})};
       },
       {{0, 0, 0, 0}}},
      {"two outputs",
       {x},
       [](const Inputs& t) {
         return Inputs{call1("neg", {t[0]}), call1("mul.Tensor", {t[0], 3.0})};
       },
       {{2, 2, 2, 2}}},
      {"one output twice",
       {x},
       [](const Inputs& t) {
         return Inputs{t[0], t[0]};
       },
       {{2, 2, 2, 2}}},
      {"a tied parameter",
       {x, x},
       [](const Inputs& t) {
         return Inputs{call1("mul.Tensor", {t[0], t[1]})};
       },
       {{-2, 0, 4, 0}, {-2, 0, 4, 0}},
       true},
      {"embedding", {table, rows}, embedding(-1, false), {{1, 3, 0}}},
      {"embedding with padding", {table, rows}, embedding(1, false), {{1, 0, 0}}},
      {"embedding by frequency", {table, rows}, embedding(-1, true), {{1, 1, 0}}},
      {"equal maxima of windows",
       {Tensor::of({3, 3, 1, 3, 2, 2, 2}, {1, 7}, DType::F64)},
       [](const Inputs& t) {
         using Sizes = std::vector<Expr>;
         return Inputs{call1("max_pool1d", {t[0], Sizes{3}, Sizes{2}, Sizes{1}, Sizes{1}, false})};
       },
       {{1, 1, 0, 1, 0, 1, 0}}},
      {"the norm of zeros",
       {none},
       [](const Inputs& t) {
         return Inputs{call1("norm.Scalar", {t[0], 2.0})};
       },
       {{0, 0}}},
      {"distances of equal rows",
       {rows_of_zeros},
       [](const Inputs& t) {
         return Inputs{call1("cdist", {t[0], t[0]})};
       },
       {{0, 0}}},
      {"the distance of equals",
       {none, none},
       [](const Inputs& t) {
         return Inputs{call1("dist", {t[0], t[1]})};
       },
       {{0, 0}, {0, 0}}},
      {"log that is not chosen", {x}, chosen("log"), {{0, 0, 0.5, 0}}},
      {"reciprocal that is not chosen", {x}, chosen("reciprocal"), {{0, 0, -0.25, 0}}},
  };
  for (const Corner& c : corners) {
    const Inputs found = gradients_of(c.inputs, c.fn, c.tied);
    for (size_t i = 0; i < c.expected.size(); ++i)
      if (found[i].to_vector() != c.expected[i])
        return fmt::format("{}: gradient {} is [{}]", c.what, i, fmt::join(found[i].to_vector(), ", "));
  }
  return "";
}

}  // namespace toroid::autograd
