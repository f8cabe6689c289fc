// Random graphs with gradients of all their float inputs: what is compiled computes what the interpreter does.
#include <gtest/gtest.h>

#include "autograd/differentiate.h"
#include "base/options.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/from_environment.h"
#include "fuzz_compiled/minimise.h"
#include "graph/pass.h"
#include "graph/random_graph.h"
#include "toroid/error.h"

namespace toroid::fuzz {
namespace {

graph::RandomGraphOptions differentiable(uint64_t seed) {
  graph::RandomGraphOptions o;
  o.nodes = 4 + static_cast<int>(seed % 13);
  o.in_place = seed % 3 == 1;
  o.dynamic_sizes = seed % 4 == 2;
  o.mixed_dtypes = seed % 5 == 3;
  o.data_dependent = false;
  o.special_values = false;
  o.degenerate = seed % 7 == 4;
  o.complex_numbers = seed % 2 == 1;
  o.control_flow = seed % 11 == 3;
  o.while_loops = false;  // they have no gradients
  return o;
}

std::unique_ptr<graph::Graph> by_all_floats(const graph::Graph& g) {
  autograd::Request request{.inputs = {}, .takes_cotangents = true};
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (is_float(g.inputs[i].value->type.dtype)) request.inputs.push_back(i);
  return request.inputs.empty() ? nullptr : autograd::differentiate(g, request);
}

// The joint graph, of one graph in eight that of its joint graph; nullptr where an operation has no gradient, or no input is a float.
std::unique_ptr<graph::Graph> joint_graph(uint64_t seed) {
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  graph::RandomGraphOptions options = differentiable(seed);
  const bool second = seed % 8 == 5;
  if (second) options.nodes = 3 + static_cast<int>(seed % 5);
  const auto g = graph::run_passes(graph::random_graph(seed, options), std::span(&functionalize, 1));
  try {
    auto joint = by_all_floats(*g);
    return joint && second ? by_all_floats(*joint) : std::move(joint);
  } catch (const UserError&) {
    return nullptr;
  }
}

TEST(FuzzGradients, CompiledAreWhatTheInterpreterSays) {
  const auto count = test::from_environment("TOROID_FUZZ_COUNT", 200), first = test::from_environment("TOROID_FUZZ_SEED", 1);
  ScopedOption no_cache("cache", "0"), verify("verify_passes", "1");
  size_t refused = 0, failures = 0, nodes = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    auto joint = joint_graph(seed);
    refused += !joint;
    if (!joint) continue;
    nodes += joint->nodes.size();
    const Variant v = variant_of(seed);
    const Verdict verdict = check(*joint, v);
    if (!verdict.failure) continue;
    ++failures;
    const auto small = minimise(std::move(joint), [&](const graph::Graph& g) { return check(g, v).failure.has_value(); });
    ADD_FAILURE() << "seed " << seed << " (" << to_string(v) << "): " << *verdict.failure
                  << "\nsmallest graph: " << check(*small, v).failure.value_or("not stable") << "\n"
                  << graph::to_string(*small);
  }
  std::printf("%zu graphs, %zu without gradients, %zu nodes, %zu failures\n", static_cast<size_t>(count), refused, nodes, failures);
  EXPECT_LT(refused, count / 4 + 1);
}

}  // namespace
}  // namespace toroid::fuzz
