// Models and functions with two sets of weights, for tests that swap them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "graph/recorder.h"
#include "toroid/tensor.h"

namespace toroid::test {

using Sizes = std::vector<int64_t>;
using Tensors = std::map<std::string, Tensor>;
using GraphMaker = std::function<std::unique_ptr<graph::Graph>()>;

// Other numbers near those of t, positive where all of these are: variances stay variances.
inline Tensor others(const Tensor& t, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> v = t.to_vector();
  for (double& x : v) x = x * std::uniform_real_distribution<double>(0.5, 1.5)(random) + (x == 0 ? 0.25 : 0);
  return Tensor::of(v, t.sizes(), t.dtype());
}

// The floats that a graph reads and does not write, by name.
inline Tensors weights_of(const graph::Graph& g) {
  Tensors out;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    auto& in = g.inputs[i];
    const bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
    const bool held = in.kind == graph::InputKind::Parameter || in.kind == graph::InputKind::Buffer;
    if (held && in.data.defined() && !written && is_float(in.data.dtype())) out[in.name] = in.data;
  }
  return out;
}

inline Tensors changed(const Tensors& weights, uint64_t seed) {
  Tensors out;
  std::map<const void*, Tensor> made;  // tied weights stay tied
  for (auto& [name, t] : weights) {
    Tensor& to = made[t.raw_data()];
    if (!to.defined()) to = others(t, seed + made.size());
    out[name] = to;
  }
  return out;
}

inline GraphMaker with_weights(const GraphMaker& graph, const Tensors& weights) {
  return [=] {
    auto g = graph();
    for (auto& in : g->inputs)
      if (auto it = weights.find(in.name); it != weights.end()) in.data = it->second;
    return g;
  };
}

inline Tensor random(const Sizes& sizes, uint64_t seed, DType dtype = DType::F32) {
  std::mt19937_64 draw(seed);
  std::vector<double> v(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())));
  for (double& x : v) x = std::uniform_real_distribution<double>(0.1, 1)(draw);
  return Tensor::of(v, sizes, dtype);
}

// A function of a list of weights, as a graph.
using Body = std::function<Tensor(const Tensor& x, const std::vector<Tensor>& w)>;
inline GraphMaker graph_of(const Body& body, const Tensor& x, const std::vector<Sizes>& weights, DType dtype = DType::F32) {
  return [=] {
    auto g = std::make_unique<graph::Graph>();
    const auto type = [](const Tensor& t) { return TensorType{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}}; };
    graph::Recorder recorder(*g);
    std::vector<Tensor> w;
    const Tensor input = recorder.proxy(g->add_input(type(x), graph::InputKind::User, "x"));
    for (size_t i = 0; i < weights.size(); ++i) {
      const Tensor t = random(weights[i], i, dtype);
      w.push_back(recorder.proxy(g->add_input(type(t), graph::InputKind::Parameter, fmt::format("w{}", i), t)));
    }
    DispatchScope scope(recorder);
    g->outputs.push_back({recorder.value_of(body(input, w)), {}, -1});
    return g;
  };
}

}  // namespace toroid::test
