// Searches over made-up times.
#include "tune/search/descent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/check.h"

namespace toroid::tune {
namespace {

using program::Config;

const ConfigSpace kSpace = {{"m", {16, 32, 64, 128, 256}}, {"n", {16, 32, 64, 128, 256}}, {"stages", {1, 2, 3, 4}}};
Config config(int64_t m, int64_t n, int64_t stages) { return {"gemm", {{"m", m}, {"n", n}, {"stages", stages}, {"other", 7}}}; }

// Best at m=128, n=64, stages=3; 5 % for each step away from it.
double model(const Config& c) {
  const auto steps = [](int64_t a, int64_t b) { return std::fabs(std::log2(static_cast<double>(a) / static_cast<double>(b))); };
  return 100 * std::pow(1.05, steps(c.at("m"), 128) + steps(c.at("n"), 64) + std::fabs(static_cast<double>(c.at("stages") - 3)));
}

struct Machine {
  std::function<double(const Config&)> us = model;
  double noise = 0.01, now_ms = 0;
  std::mt19937_64 random{3};
  size_t measured = 0;

  Descent search(const Config& start, DescentOptions o = {}) {
    const Clock clock = [this] { return now_ms; };
    return descend(
        start, [](const Config& c) { return one_step(c, kSpace); },
        [&](std::span<const Config> configs, const MeasureOptions& m) {
          measured += configs.size();
          std::normal_distribution<double> gauss(0, noise);
          return measure(
              configs.size(),
              [&](size_t i) {
                const double t = us(configs[i]) * std::exp(gauss(random));
                now_ms += t / 1000 + 0.01;
                return t * 1000;
              },
              m, clock);
        },
        o, clock);
  }
};

TEST(Descent, NeighboursAreOneStepAway) {
  EXPECT_EQ(one_step(config(16, 64, 4), kSpace),
            (std::vector<Config>{config(32, 64, 4), config(16, 32, 4), config(16, 128, 4), config(16, 64, 3)}));
  EXPECT_EQ(one_step(config(48, 999, 2), {kSpace[0]}), (std::vector<Config>{config(32, 999, 2), config(64, 999, 2)}));
  EXPECT_EQ(two_steps(config(16, 16, 1), kSpace), (std::vector<Config>{config(32, 32, 1), config(32, 16, 2), config(16, 32, 2)}));
}

TEST(Descent, FindsTheBestAndStops) {
  Machine w;
  const Descent d = w.search(config(16, 256, 1));
  EXPECT_EQ(d.best, config(128, 64, 3)) << to_string(d.best);
  EXPECT_NEAR(d.ratio, std::pow(1.05, -7), 0.02);
  EXPECT_GE(d.steps, 4u);
  EXPECT_FALSE(d.out_of_budget);
  for (size_t i = 0; i < d.tried.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(d.tried[i].config, d.tried[j].config);
}

TEST(Descent, NeverWorseThanTheStart) {
  for (int seed = 0; seed < 40; ++seed) {  // nothing but noise: whatever looks faster is not
    Machine w;
    w.us = [](const Config&) { return 100; };
    w.noise = 0.05;
    w.random.seed(static_cast<uint64_t>(seed));
    EXPECT_EQ(w.search(config(64, 64, 2)).best, config(64, 64, 2)) << seed;
  }
  Machine w;
  w.us = [](const Config& c) { return c == config(64, 64, 2) ? 100 : throw EnvironmentError("does not fit"); };
  const Descent d = w.search(config(64, 64, 2));
  EXPECT_EQ(d.best, config(64, 64, 2));
  EXPECT_EQ(d.tried.at(0).status, "failed: does not fit");
}

TEST(Descent, TwoFieldsAtOnce) {
  Machine w;  // a ridge: no single step helps
  w.us = [](const Config& c) { return c == config(32, 32, 2) ? 80.0 : c == config(16, 16, 2) ? 100.0 : 120.0; };
  EXPECT_EQ(w.search(config(16, 16, 2)).best, config(16, 16, 2));
  DescentOptions o;
  o.further = [](const Config& c) { return two_steps(c, kSpace); };
  EXPECT_EQ(w.search(config(16, 16, 2), o).best, config(32, 32, 2));
}

TEST(Descent, TheBudgetHolds) {
  for (double budget : {2.0, 10.0, 40.0, 200.0}) {
    Machine w;
    DescentOptions o;
    o.measure.budget_ms = budget;
    const Descent d = w.search(config(16, 256, 1), o);
    EXPECT_LE(w.now_ms, budget * 1.1 + 0.4) << budget;  // the warm-up of the last comparison cannot be foreseen
    EXPECT_LE(model(d.best), model(config(16, 256, 1)));
  }
}

}  // namespace
}  // namespace toroid::tune
