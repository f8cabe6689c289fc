// Random graphs with custom operations whose choices are made by chance, in place of a clock: whatever the tuner may choose computes what
// the interpreter says. TOROID_FUZZ_COUNT and TOROID_FUZZ_SEED as for the other graphs.
#include <gtest/gtest.h>

#include "base/options.h"
#include "compile/stages.h"
#include "exec/run/executable.h"
#include "front/compile_model.h"
#include "fuzz_compiled/custom_ops.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/from_environment.h"
#include "graph/random_graph.h"
#include "program/inline.h"
#include "tune/search/search.h"

namespace toroid::fuzz {
namespace {

// A time for each choice, by the seed and its name.
tune::SearchOptions by_chance(uint64_t seed) {
  tune::SearchOptions how;
  how.whole_ms = 0;
  how.precompile = false;
  how.clock = [seed](std::span<const std::shared_ptr<tune::ChoiceCaller>> callers) -> tune::Sample {
    std::vector<double> ns;
    for (auto& c : callers)
      ns.push_back(1e5 * static_cast<double>(1 + Hasher().add(static_cast<int64_t>(seed)).add(c->name()).finish().lo % 100));
    return [ns](size_t i) { return ns[i]; };
  };
  return how;
}

// The compiler with such a tuner.
class ByChance {
 public:
  ByChance(const graph::Graph& g, uint64_t seed) {
    const auto pipeline = compiler::pipeline_for(stages_.job(1));
    program::Program p = stages_.lowered(g);
    for (auto& s : p.symbols) s.hint = 4;
    p = tune::tune(std::move(p), pipeline, by_chance(seed), nullptr, tuned);
    stages_.setup.options.set(Mode::Default);
    run_ = std::make_unique<exec::Executable>(stages_.plan(std::move(p), 1));
  }
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) { return run_->run(inputs); }

  tune::TuneReport tuned;

 private:
  test::Stages stages_{.setup = front::setup_of({.mode = Mode::MaxAutotune})};
  std::unique_ptr<exec::Executable> run_;
};

graph::RandomGraphOptions options_of(uint64_t seed) {
  graph::RandomGraphOptions o;
  o.nodes = 4 + static_cast<int>(seed % 13);
  o.in_place = seed % 3 != 1;
  o.dynamic_sizes = seed % 2 == 0;
  o.data_dependent = false;
  o.mixed_dtypes = seed % 5 == 3;
  return o;
}

TEST(FuzzCustom, EveryChoiceGivesTheInterpretersResult) {
  const auto count = test::from_environment("TOROID_FUZZ_COUNT", 60);
  const auto first = test::from_environment("TOROID_FUZZ_SEED", 1);
  const ScopedOption no_cache("cache", "0"), one("compile_threads", "1"), verify("verify_passes", "1");
  size_t calls = 0, regions = 0, changed = 0, refused = 0, failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    const Customised c = customised(graph::random_graph(seed, options_of(seed)), seed);
    calls += static_cast<size_t>(c.calls);
    std::optional<ByChance> made;
    // Sizes on both sides of where the variant changes.
    for (uint64_t inputs = 0; inputs < (c.plain->symbols.empty() ? 1u : 4u); ++inputs) {
      const Verdict v = compare(*c.plain, graph::random_inputs(*c.plain, seed + 1000 * inputs, seed % 3 == 0), [&](auto& in) {
        if (!made) made.emplace(*c.custom, seed);
        return made->run(in);
      });
      refused += v.refused;
      if (!v.failure) continue;
      ++failures;
      ADD_FAILURE() << "seed " << seed << ", inputs " << inputs << ": " << *v.failure << "\n"
                    << graph::to_string(*c.custom) << (made ? tune::to_string(made->tuned) : "");
      break;
    }
    if (!made) continue;
    for (auto& r : made->tuned.regions) ++regions, changed += r.winner > 0;
  }
  std::printf("%zu calls, %zu regions, %zu with another choice than the default, %zu refused, %zu failures\n", calls, regions, changed,
              refused, failures);
  EXPECT_GT(calls, count);
  EXPECT_GT(changed, count / 4);
}

}  // namespace
}  // namespace toroid::fuzz
