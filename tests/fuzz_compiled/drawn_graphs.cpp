#include "fuzz_compiled/drawn_graphs.h"

#include "autograd/differentiate.h"
#include "fuzz_compiled/from_environment.h"
#include "graph/pass.h"
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

}  // namespace

graph::RandomGraphOptions options_of(uint64_t seed) {
  graph::RandomGraphOptions o;
  o.nodes = 4 + static_cast<int>(seed % 17);
  o.in_place = seed % 3 != 1;
  o.control_flow = seed % 9 == 1;
  o.dynamic_sizes = seed % 4 == 2;
  o.mixed_dtypes = seed % 5 != 3;
  o.degenerate = seed % 7 == 4 || test::from_environment("TOROID_FUZZ_DEGENERATE", 0) != 0;
  return o;
}

graph::RandomGraphOptions options_of_program(uint64_t seed) {
  return {.nodes = 4 + static_cast<int>(seed % 13),
          .dynamic_sizes = seed % 4 != 0,
          .in_place = seed % 3 != 1,  // the oracle of aliasing runs no control flow
          .control_flow = seed % 6 == 1,
          .degenerate = seed % 7 == 4};
}

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

}  // namespace toroid::fuzz
