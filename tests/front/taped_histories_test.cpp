// Compiled functions on the tape against the same functions called operation by operation: functions and histories of calls drawn by
// chance.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "front/eager.h"
#include "front/harness.h"
#include "fuzz_compiled/from_environment.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid::taped_histories {
namespace {

using Values = std::vector<double>;
using Random = std::mt19937;

constexpr int64_t kColumns = 3;

Tensor numbers(uint32_t seed, int64_t rows) {
  Random random(seed);
  std::vector<double> values;
  for (int64_t i = 0; i < rows * kColumns; ++i) values.push_back(static_cast<double>(random() % 200) / 100 - 1);
  return Tensor::of(values, std::vector<int64_t>{rows, kColumns});
}

// A function of two matrices, the second of which it may write: operations, views, writes, random numbers, checkpoints, detach() and
// NoGrad. Reads take a clone, so that writes spoil no gradient.
std::vector<Tensor> drawn_function(uint32_t seed, const Tensor& a, const Tensor& b) {
  Random random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  std::vector<Tensor> made{a * 1.5, b};
  const auto any = [&] { return clone(made[below(made.size())]); };
  const size_t steps = 3 + below(6);
  for (size_t step = 0; step < steps; ++step) {
    const Tensor target = made[1 + below(made.size() - 1)];
    switch (below(18)) {
      case 0:
        made.push_back(tanh(any()) * any());
        break;
      case 1:
        made.push_back(any() + mean(any(), 1, true));
        break;
      case 2:
        made.push_back(any() * sum(any(), 0, true) * 0.1);
        break;
      case 3:
        made.push_back(no_grad([&] { return any() * 2; }));
        break;
      case 4:
        made.push_back(clone(any().detach()) + any());
        break;
      case 5:
        mul_(target, any());
        break;
      case 6:
        tanh_(slice(target, 1, 1, kColumns));
        break;
      case 7:
        copy_(select(target, 1, static_cast<int64_t>(below(kColumns))), select(any(), 1, 1));
        break;
      case 8:
        made.push_back(dropout(any(), 0.5, true) * any());
        break;
      case 9:
        made.push_back(rand_like(any()) * any());
        break;
      case 10: {
        const Tensor x = any(), y = any();
        made.push_back(checkpoint([&] { return dropout(exp(x * 0.25) * y, 0.25, true); }));
        break;
      }
      case 11:
        made.push_back(matmul(any(), matmul(transpose(any(), 0, 1), any())) * 0.1);
        break;
      case 12:
        made.push_back(where(any() > any(), any(), exp(any() * 0.25)));
        break;
      case 13:
        no_grad([&] { add_(mul_(target, 0.5), any()); });
        break;
      case 14:
        no_grad([&] { copy_(select(target, 1, static_cast<int64_t>(below(kColumns))), mean(any(), 1)); });
        break;
      case 15:
        mul_(target.detach(), any().detach());
        break;
      case 16:
        made.push_back(no_grad([&] { return clone(add_(target, any())); }));
        break;
      default:
        made.push_back(sigmoid(any()) * 2);
    }
  }
  std::vector<Tensor> results{made.back() * 1.0, argmax(any(), 1), exp(any() * 0.25)};
  if (below(3) == 0) results.push_back(transpose(any(), 0, 1));
  if (below(3) == 0) results.push_back(a);
  if (below(3) == 0) results.push_back(any().detach());
  return results;
}

using Function = std::function<std::vector<Tensor>(const Tensor&, const Tensor&)>;

// Calls f with changing sizes, keeps what it gives while other calls follow, and goes back in any order. Returns all values and gradients.
std::vector<Values> history(uint32_t seed, const Function& f) {
  Random random(seed + 99);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  manual_seed(seed);
  const bool retain = seed % 3 == 0;  // then calls may read what others gave
  const int64_t rows[] = {2, seed % 2 ? 4 : 2};
  std::vector<Tensor> leaves, losses, given;
  for (uint32_t i = 0; i < 4; ++i) leaves.push_back(numbers(seed + i, rows[i / 2]).requires_grad_(i != 1 || seed % 5 != 0));
  std::vector<Values> out;
  for (int call = 0; call < 5; ++call) {
    const size_t size = below(2);
    const Tensor x = leaves[2 * size], y = clone(leaves[2 * size + 1] * 1.25);
    Tensor first = x;
    if (retain && !given.empty() && below(2) == 0 && given.back().sizes() == x.sizes()) first = given.back();
    if (below(6) == 0) {
      for (auto& t : no_grad([&] { return f(first.detach(), y.detach()); })) out.push_back(t.to_vector());
      continue;
    }
    const auto results = f(first, y);
    given.push_back(results[0]);
    Tensor loss = sum(y * y);  // with what f has written
    out.push_back({y.requires_grad() ? 1.0 : 0.0});
    for (auto& t : results) {
      out.push_back(t.to_vector());
      out.push_back({t.requires_grad() ? 1.0 : 0.0});
      if (t.dtype() == DType::F32) loss = loss + sum(t * static_cast<double>(1 + out.size() % 3));
    }
    losses.push_back(loss);
    while (!losses.empty() && (below(2) == 0 || call == 4)) {
      const size_t which = below(losses.size());
      if (losses[which].requires_grad()) losses[which].backward({}, retain);
      losses.erase(losses.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  for (auto& t : losses)
    if (t.requires_grad()) t.backward({}, retain);
  for (auto& t : leaves) out.push_back(t.grad().defined() ? t.grad().to_vector() : Values(static_cast<size_t>(t.numel())));
  return out;
}

void expect_same(const std::vector<Values>& found, const std::vector<Values>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].size(), expected[i].size()) << what << ", value " << i;
    for (size_t k = 0; k < expected[i].size(); ++k) {
      if (!std::isfinite(expected[i][k]) && !std::isfinite(found[i][k])) continue;  // some functions outgrow f32
      ASSERT_NEAR(found[i][k], expected[i][k], 2e-4 * (1 + std::abs(expected[i][k])))
          << what << ", value " << i << " of " << expected.size();
    }
  }
}

void check(uint32_t seed, CompileConfig config) {
  const char* budgets[] = {"0", "0.5", "1", "off"};
  config.options["activation_memory_budget"] = budgets[seed % 4];
  config.fullgraph = true;
  if (seed % 2) config.dynamic = true;
  const Function plain = [seed](const Tensor& a, const Tensor& b) { return drawn_function(seed, a, b); };
  std::vector<Values> expected;
  {
    front::EagerDispatcher::instance().set_backend(front::find_backend("reference"));
    expected = history(seed, plain);
    front::EagerDispatcher::instance().set_backend({});
  }
  auto f = compile(plain, config);
  front::EagerDispatcher::instance().set_backend(front::find_backend("reference"));
  const auto found = history(seed, [&](const Tensor& a, const Tensor& b) { return f(a, b); });
  front::EagerDispatcher::instance().set_backend({});
  expect_same(found, expected, fmt::format("seed {}, budget {}", seed, budgets[seed % 4]));
  EXPECT_EQ(f.report().eager_calls, 0) << to_string(f.report());
}

TEST(TapedHistories, AreThoseOfEagerCalls) {
  for (uint32_t seed = 1; seed <= test::from_environment("TOROID_FUZZ_COUNT", 300) && !testing::Test::HasFailure(); ++seed) try {
      check(seed, test::by_reference());
    } catch (const Error& e) {
      ADD_FAILURE() << "seed " << seed << ": " << e.what();
    }
}

TEST(TapedHistories, OfCompiledKernels) {
  for (uint32_t seed = 1; seed <= test::from_environment("TOROID_FUZZ_COUNT", 300) / 30 && !testing::Test::HasFailure(); ++seed) try {
      check(seed, {.mode = seed % 3 == 0 ? Mode::ReduceOverhead : Mode::Default});
    } catch (const Error& e) {
      ADD_FAILURE() << "seed " << seed << ": " << e.what();
    }
}

}  // namespace
}  // namespace toroid::taped_histories
