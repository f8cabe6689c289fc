// Which sums lose factors, and that results stay the same.
#include "sched/factor_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "program/interpret.h"
#include "program/parse.h"
#include "program/verify.h"
#include "samples.h"

namespace toroid::sched {
namespace {

using program::Program;

constexpr int kFactors = 5;  // inputs %0 to %4: two of [6, 4], three of [4]

// Results are [4]; steps of the body may use v0 to v4, the factors.
Program sums_of(const std::string& pass, const std::string& steps, int results, const std::string& rows = "6") {
  std::string text = fmt::format("program \"p\" {}{{\n", rows == "6" ? "" : "symbols(" + rows + " in 0..6) ");
  for (int k = 0; k < kFactors; ++k) text += fmt::format("buffer %{} \"f{}\": f32[{}] input\n", k, k, k < 2 ? 24 : 4);
  for (int k = 0; k < results; ++k) text += fmt::format("buffer %{} \"r{}\": f32[4] output\n", kFactors + k, k);
  for (int k = 0; k < kFactors; ++k) text += fmt::format("in %{} user \"f{}\": f32[{}]\n", k, k, k < 2 ? "6, 4" : "4");
  for (int k = 0; k < results; ++k) text += fmt::format("out %{}: f32[4]\n", kFactors + k);
  text += fmt::format("loops {}parts [0] # \"n\"\nloop (i0: 4, r r0: {}) {{\n", pass, rows);
  for (int k = 0; k < kFactors; ++k) text += fmt::format("v{}: f32 = load %{} [{}]\n", k, k, k < 2 ? "i0 + 4*r0" : "i0");
  Program p = program::parse(text + steps + "}\n}\n");
  program::verify(p, program::Stage::Scheduled, "parse");
  return p;
}

std::vector<std::vector<double>> results_for(const Program& p) {
  std::vector<Tensor> inputs;
  for (int k = 0; k < kFactors; ++k) {
    std::vector<double> values(k < 2 ? 24 : 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>((static_cast<int>(i) * 7 + k * 5) % 13 - 6) / 4;
    inputs.push_back(Tensor::of(values, k < 2 ? std::vector<int64_t>{6, 4} : std::vector<int64_t>{4}));
  }
  std::vector<std::vector<double>> out;
  for (auto& t : program::interpret(p, inputs)) out.push_back(t.to_vector());
  return out;
}

size_t reductions_of(const Program& p) {
  size_t n = 0;
  for (auto& s : p.nodes.at(0).body.steps) n += s.step == loop::Step::Reduce;
  return n;
}

const std::string kTwo =
    "v5: f32 = Mul v0 v2\nv6: f32 = reduce sum v5\nstore %5 [i0] v6\nv8: f32 = Mul v3 v0\nv9: f32 = Mul v8 v4\nv10: f32 = reduce sum v9\nstore "
    "%6 [i0] v10\n";

TEST(FactorSums, OfBackwardPassesAlone) {
  for (const char* pass : {"", "again ", "backward "}) {
    Program p = sums_of(pass, kTwo, 2);
    EXPECT_EQ(factor_sums(p), std::string(pass) == "backward ") << pass;
    EXPECT_EQ(reductions_of(p), std::string(pass) == "backward " ? 1u : 2u) << pass;
  }
}

// A sum of nothing is 0 times what may be infinite.
TEST(FactorSums, NotWhereThereMayBeNothing) {
  Program p = sums_of("backward ", kTwo, 2, "s0");
  EXPECT_FALSE(factor_sums(p));
}

// Powers of two as chains of squares: as many factors as there is no memory for.
TEST(FactorSums, LongChainsStay) {
  std::string steps = "v5: f32 = Mul v0 v0\n";
  for (int k = 6; k < 46; ++k) steps += fmt::format("v{}: f32 = Mul v{} v{}\n", k, k - 1, k - 1);
  Program p = sums_of("backward ", steps + "v46: f32 = Mul v45 v2\nv47: f32 = reduce sum v46\nstore %5 [i0] v47\n", 1);
  EXPECT_FALSE(factor_sums(p));
}

TEST(FactorSums, RandomSumsMeanTheSame) {
  size_t fewer = 0;
  for (unsigned seed = 0; seed < test::samples(200u); ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::string steps;
    int next = kFactors;
    constexpr int kResults = 3;
    for (int k = 0; k < kResults; ++k) {
      for (int i = 0; i < 3; ++i) {
        steps += fmt::format("v{}: f32 = {} v{} v{}\n", next, pick(4) == 0 ? "Add" : "Mul", pick(next), pick(next));
        ++next;
      }
      steps +=
          fmt::format("v{}: f32 = reduce {} v{}\nstore %{} [i0] v{}\n", next, pick(5) == 0 ? "max" : "sum", next - 1, kFactors + k, next);
      next += 2;
    }
    // Stores have numbers, too, and no values.
    bool reads_store = false;
    for (int k = 0; k < kResults; ++k)
      reads_store = reads_store || steps.find(fmt::format(" v{}\n", kFactors + 4 + 5 * k)) != steps.npos ||
                    steps.find(fmt::format(" v{} ", kFactors + 4 + 5 * k)) != steps.npos;
    if (reads_store) continue;
    const Program given = sums_of("backward ", steps, kResults);
    Program made = given;
    factor_sums(made);
    program::verify(made, program::Stage::Scheduled, "factor_sums");
    fewer += reductions_of(made) < reductions_of(given);
    const auto before = results_for(given), after = results_for(made);
    for (size_t r = 0; r < before.size(); ++r)
      for (size_t i = 0; i < 4; ++i)
        ASSERT_NEAR(before[r][i], after[r][i], 1e-4 * (1 + std::abs(before[r][i]))) << "seed " << seed << "\n" << program::to_string(made);
  }
  EXPECT_GT(fewer, 0u);
}

}  // namespace
}  // namespace toroid::sched
