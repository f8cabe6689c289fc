// Random graphs, compiled and interpreted: one seed after the other. TOROID_FUZZ_COUNT and TOROID_FUZZ_SEED choose how many and from
// where (scripts/fuzz-compiled.sh); TOROID_FUZZ_STOP stops at the first failure and leaves it as it is; TOROID_FUZZ_DEGENERATE draws empty
// and dimensionless tensors in all of them, not in one of seven.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include "base/options.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/drawn_graphs.h"
#include "fuzz_compiled/from_environment.h"
#include "fuzz_compiled/minimise.h"
#include "graph/random_graph.h"

namespace toroid::fuzz {
namespace {

struct Report {
  std::atomic<int> graphs{0}, refused{0};
  std::mutex mutex;
  std::map<std::string, int> drawn;
  std::vector<std::string> failures;
};

void run_one(uint64_t seed, Report& report) {
  static const bool trace = test::from_environment("TOROID_FUZZ_TRACE", 0) != 0;
  if (trace) std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
  auto g = graph::random_graph(seed, options_of(seed));
  Variant v = variant_of(seed);
  Verdict verdict = check(*g, v);
  ++report.graphs;
  report.refused += verdict.refused;
  {
    std::lock_guard lock(report.mutex);
    for (auto& n : g->nodes) ++report.drawn[n->op->name];
  }
  if (!verdict.failure) return;
  std::string text = "seed " + std::to_string(seed) + " (" + to_string(v) + "): " + *verdict.failure + "\n";
  if (test::from_environment("TOROID_FUZZ_STOP", 0)) {
    text += graph::to_string(*g);
  } else {
    bool threw = verdict.failure->rfind("threw", 0) == 0;
    auto small = minimise(std::move(g), [&](const graph::Graph& h) {
      auto again = check(h, v).failure;
      return again && (again->rfind("threw", 0) == 0) == threw;
    });
    text += "smallest graph: " + check(*small, v).failure.value_or("not stable") + "\n" + graph::to_string(*small);
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  std::lock_guard lock(report.mutex);
  report.failures.push_back(std::move(text));
}

void run_range(uint64_t first, uint64_t count, const std::string& isa, Report& report) {
  ScopedOption chosen("isa", isa), no_cache("cache", "0"), one("compile_threads", "1"), verify("verify_passes", "1");
  std::atomic<uint64_t> next{first};
  bool stop = test::from_environment("TOROID_FUZZ_STOP", 0) != 0;
  std::vector<std::thread> workers;
  for (unsigned w = 0; w < std::max(1u, std::min(16u, std::thread::hardware_concurrency())); ++w)
    workers.emplace_back([&] {
      for (uint64_t seed = next++; seed < first + count; seed = next++) {
        {
          std::lock_guard lock(report.mutex);
          if (report.failures.size() >= (stop ? 1 : 10)) return;
        }
        run_one(seed, report);
      }
    });
  for (auto& w : workers) w.join();
}

TEST(FuzzCompiled, RandomGraphsAreWhatTheInterpreterSays) {
  auto count = test::from_environment("TOROID_FUZZ_COUNT", 500);
  auto seed = test::from_environment("TOROID_FUZZ_SEED", 1);
  Report report;
  auto start = std::chrono::steady_clock::now();
  uint64_t tenth = count / 10;
  run_range(seed, count - 2 * tenth, "auto", report);
  run_range(seed + count - 2 * tenth, tenth, "avx2", report);
  run_range(seed + count - tenth, tenth, "scalar", report);
  for (auto& f : report.failures) ADD_FAILURE() << f;
  double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  int least = 1 << 30;
  std::string rare;
  for (auto& [name, n] : report.drawn)
    if (n < least) least = n, rare = name;
  std::printf("%d graphs in %.0f s, %d refused, %zu operations, the rarest %s %d times, %zu failures\n", report.graphs.load(), s,
              report.refused.load(), report.drawn.size(), rare.c_str(), least, report.failures.size());
  if (test::from_environment("TOROID_FUZZ_COUNTS", 0))
    for (auto& [name, n] : report.drawn) std::printf("%7d %s\n", n, name.c_str());
  EXPECT_LT(report.refused.load(), report.graphs.load() / 20 + 1);
}

TEST(FuzzCompiled, FailuresBecomeSmall) {
  auto has = [](const graph::Graph& g, const char* name) {
    for (auto& n : g.nodes)
      if (n->op->name == name) return true;
    return false;
  };
  int made_small = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto g = graph::random_graph(seed, options_of(seed));
    if (!has(*g, "tanh")) continue;
    for (auto& n : g->nodes)
      if (n->op->name == "tanh") g->outputs.push_back({n->results[0], {}, -1});
    auto small = minimise(std::move(g), [&](const graph::Graph& h) { return has(h, "tanh"); });
    EXPECT_LE(small->nodes.size(), 3u) << graph::to_string(*small);
    EXPECT_EQ(graph::to_string(*graph::parse(graph::to_string(*small))), graph::to_string(*small));
    ++made_small;
  }
  EXPECT_GT(made_small, 5);
}

}  // namespace
}  // namespace toroid::fuzz
