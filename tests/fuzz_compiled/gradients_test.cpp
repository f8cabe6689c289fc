// Random graphs with gradients of all their float inputs: what is compiled computes what the interpreter does.
#include <gtest/gtest.h>

#include "base/options.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/drawn_graphs.h"
#include "fuzz_compiled/from_environment.h"
#include "fuzz_compiled/minimise.h"

namespace toroid::fuzz {
namespace {

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
