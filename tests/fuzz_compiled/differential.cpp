#include "fuzz_compiled/differential.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "exec/stored.h"
#include "front/compile_model.h"
#include "graph/aliasing_oracle.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "graph/random_graph.h"

namespace toroid::fuzz {

using graph::Graph;
using graph::Node;
using graph::Value;

namespace {

std::vector<Tensor> copies(const std::vector<Tensor>& from) {
  std::vector<Tensor> out;
  for (auto& t : from) {
    Tensor c = graph::deep_copy(t);
    if (!t.is_contiguous()) {  // the same place in memory of its own
      int64_t extent = 1;
      for (size_t d = 0; d < t.sizes().size(); ++d) extent += (t.sizes()[d] - 1) * t.strides()[d];
      Tensor memory = Tensor::full(std::vector<int64_t>{extent}, 0, t.dtype());
      c = memory.as_strided(t.sizes(), t.strides());
      copy_elements(t, c);
    }
    out.push_back(c);
  }
  return out;
}

double epsilon(DType t) {
  switch (t) {
    case DType::BF16:
      return 1.0 / 128;
    case DType::F16:
      return 1.0 / 1024;
    case DType::F32:
      return 1.2e-7;
    case DType::F64:
      return 2.3e-16;
    default:
      return 0;
  }
}

struct Expected {
  std::vector<Tensor> outputs;
  std::vector<double> tolerances;  // one an output
  double worst = 0;                // of all values
};

double largest(const Tensor& t) {
  double most = 0;
  for (double x : t.to_vector())
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  return most;
}

// The interpreter's results; every node is an output, which shows how large numbers become.
Expected reference(const Graph& g, const std::vector<Tensor>& inputs) {
  auto f = graph::functionalize(g);
  if (!f) f = graph::clone(g);
  size_t returned = 0;
  for (auto& o : f->outputs) returned += o.mutates < 0;
  std::map<const Value*, double> magnitude;
  for (auto& n : f->nodes)
    for (auto* r : n->results) f->outputs.push_back({r, {}, -1});
  auto all = graph::interpret(*f, inputs);
  size_t next = returned;
  for (auto& n : f->nodes)
    for (auto* r : n->results) magnitude[r] = largest(all[next++]);
  Expected e;
  constexpr double kFewRoundings = 64;
  for (size_t i = 0, k = 0; k < returned; ++i) {
    if (f->outputs[i].mutates >= 0) continue;
    double most = 2, eps = 0;
    int nodes = 0;
    std::set<const Value*> seen;
    std::vector<const Value*> work = {f->outputs[i].value};
    while (!work.empty()) {
      const Value* v = work.back();
      work.pop_back();
      if (!seen.insert(v).second || !v->producer) continue;
      eps = std::max(eps, epsilon(v->type.dtype));
      most = std::max(most, magnitude[v]);
      ++nodes;
      for_each_operand(*v->producer, [&](const Value* o) { work.push_back(o); });
    }
    bool half = eps > 1e-4;
    double tolerance = eps * most * (half ? 2 + nodes : kFewRoundings * (2 + nodes));
    e.outputs.push_back(all[k++]);
    e.tolerances.push_back(tolerance);
    e.worst = std::max(e.worst, tolerance);
  }
  for (auto& [v, m] : magnitude)
    e.worst =
        std::max(e.worst, epsilon(v->type.dtype) * m * static_cast<double>(f->nodes.size()) * (is_half(v->type.dtype) ? 1 : kFewRoundings));
  return e;
}

bool writes(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return graph::is_mutating(*n->op); });
}

bool changes_inputs(const Graph& g) {
  return writes(g) || std::any_of(g.outputs.begin(), g.outputs.end(), [](auto& o) { return o.mutates >= 0; });
}

std::string compare_all(const std::vector<Tensor>& found, const Expected& e, const std::vector<Tensor>& inputs_found,
                        const std::vector<Tensor>& inputs_expected) {
  if (found.size() != e.outputs.size()) return fmt::format("{} results instead of {}", found.size(), e.outputs.size());
  for (size_t i = 0; i < found.size(); ++i)
    if (auto d = difference(found[i], e.outputs[i], e.tolerances[i]); !d.empty()) return fmt::format("output {}: {}", i, d);
  for (size_t i = 0; i < inputs_found.size(); ++i)
    if (auto d = difference(inputs_found[i], inputs_expected[i], e.worst); !d.empty())
      return fmt::format("input {} after the run: {}", i, d);
  return {};
}

}  // namespace

std::string difference(const Tensor& found, const Tensor& expected, double tolerance) {
  if (!found.defined() || !expected.defined()) return found.defined() == expected.defined() ? "" : "one result is undefined";
  if (found.dtype() != expected.dtype()) return fmt::format("dtype {} instead of {}", name_of(found.dtype()), name_of(expected.dtype()));
  if (found.sizes() != expected.sizes())
    return fmt::format("sizes [{}] instead of [{}]", fmt::join(found.sizes(), ", "), fmt::join(expected.sizes(), ", "));
  auto x = found.to_vector(), y = expected.to_vector();
  bool floats = is_float(found.dtype());
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    if (!same && floats && std::isfinite(x[i]) && std::isfinite(y[i])) same = std::abs(x[i] - y[i]) <= tolerance;
    if (!same)
      return fmt::format("element {} of {} is {}, expected {} (tolerance {:.2g})", i, x.size(), x[i], y[i], floats ? tolerance : 0.0);
  }
  return {};
}

std::string to_string(const Variant& v) {
  const ModelOptions& o = v.options;
  return fmt::format("inputs {}{}{}{}{}{}", v.seed, v.strided ? ", strided inputs" : "", o.freeze ? "" : ", freeze off",
                     o.templates ? "" : ", templates off", o.fusion == Fusion::PerNode ? ", fuse off" : "",
                     o.fusion == Fusion::None ? ", eager" : "");
}

Variant variant_of(uint64_t seed) {
  Variant v;
  v.seed = seed;
  v.strided = seed % 3 == 0;
  switch (seed % 12) {
    case 5:
      v.options.templates = false;
      break;
    case 7:
      v.options.freeze = false;
      break;
    case 9:
      v.options.fusion = Fusion::PerNode;
      break;
    case 11:
      v.options.fusion = Fusion::None;
      break;
    default:
      break;
  }
  return v;
}

Buffers::Buffers(const Graph& g) {
  for (auto& in : g.inputs)
    if (in.kind == graph::InputKind::Buffer && in.data.defined()) kept_.emplace_back(in.data, graph::deep_copy(in.data));
}

void Buffers::restore() const {
  for (auto& [tensor, was] : kept_) copy_elements(was, tensor);
}

Verdict compare(const Graph& g, const std::vector<Tensor>& inputs, const Runner& given) {
  const Buffers buffers(g);
  const Runner run = [&](const std::vector<Tensor>& own) {
    buffers.restore();
    return given(own);
  };
  auto for_reference = copies(inputs);
  Expected expected;
  try {
    expected = reference(g, for_reference);
  } catch (const UserError& e) {
    const std::string refusal = e.what();
    Verdict refused{.refused = true, .failure = {}};
    if (refusal.find("is out of range for") != std::string::npos) return refused;  // what gives nothing need not look at indices
    auto own = copies(inputs);
    try {
      run(own);
    } catch (const UserError&) {
      return refused;
    } catch (const std::exception& other) {
      return {.refused = false, .failure = fmt::format("threw {} where the interpreter says {}", other.what(), refusal)};
    }
    return {.refused = false, .failure = "takes what the interpreter refuses: " + refusal};
  }
  try {
    buffers.restore();
    if (g.symbols.empty() && writes(g)) {  // in-place operations mean what shared memory means
      std::vector<Tensor> shared;          // row-major, as the types of the inputs say: what a reshape shares depends on it
      for (auto& t : inputs) shared.push_back(graph::deep_copy(t));
      auto d = compare_all(graph::run_aliasing(g, shared), expected, shared, for_reference);
      if (!d.empty()) return {.refused = false, .failure = "functionalize: " + d};
    }
    auto own = copies(inputs);
    auto d = compare_all(run(own), expected, own, for_reference);
    if (d.empty() && !changes_inputs(g)) d = compare_all(run(own), expected, own, for_reference);  // on memory that was used
    if (!d.empty()) return {.refused = false, .failure = d};
  } catch (const std::exception& e) {
    std::string what = e.what();
    return {.refused = false, .failure = "threw: " + what.substr(0, what.find('\n'))};
  }
  return {};
}

// The compiled program, and the same one that went through text and bytes: it does the same to the bit.
Verdict check(const Graph& g, const Variant& v) {
  std::unique_ptr<exec::Executable> made, stored;
  return compare(g, graph::random_inputs(g, v.seed, v.strided), [&](const std::vector<Tensor>& inputs) {
    if (!made) {
      ModelOptions options = v.options;
      options.options["verify_passes"] = "1";
      const compiler::Setup setup = front::setup_of(options);
      const exec::Loadable l = compiler::loadable(graph::clone(g), setup), again = test::through_text_and_bytes(l);
      made = exec::load(l.plan, l.store, setup.device);
      stored = exec::load(again.plan, again.store, setup.device);
    }
    const std::vector<Tensor> others = test::copies(inputs);
    auto out = made->run(inputs);
    const auto again = stored->run(others);
    const std::string difference = test::bit_difference(out, again), after = test::bit_difference(inputs, others);
    if (!difference.empty()) throw std::runtime_error("what was stored and loaded has another result: " + difference);
    if (!after.empty()) throw std::runtime_error("what was stored and loaded leaves another input: " + after);
    return out;
  });
}

}  // namespace toroid::fuzz
