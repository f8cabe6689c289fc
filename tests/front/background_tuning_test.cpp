// Programs that run before they are tuned: option tune_in_background.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/options.h"
#include "compile/background.h"
#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "toroid/compile.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"

namespace toroid {
namespace {

using test::contains;

const std::map<std::string, std::string> kQuick = {
    {"tune_in_background", "1"}, {"tune_region_ms", "20"}, {"tune_whole_ms", "40"}, {"tune_database", "none"}};

using Sizes = std::vector<int64_t>;

Tensor numbers(const Sizes& sizes, int64_t salt) {
  std::vector<double> v(static_cast<size_t>(sizes[0] * sizes[1]));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>((i * 7 + static_cast<size_t>(salt)) % 13) / 8 - 0.75;
  return Tensor::of(v, sizes);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector(), y = b.to_vector();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

TEST(BackgroundTuning, RunsAtOnceAndTunedLater) {
  const Tensor w = numbers({96, 64}, 1), x = numbers({32, 64}, 2);
  size_t found = 0;
  TuneFeedback feedback([&](const TuneResult& r) { found += r.parts.size(); });
  auto f = compile([&](const Tensor& t) { return relu(linear(t, w)); }, {.mode = Mode::MaxAutotune, .options = kQuick});
  const Tensor first = f(x);
  ASSERT_EQ(f.report().tuning.size(), 1u);
  EXPECT_TRUE(contains(f.report().tuning[0], "beside the calls")) << f.report().tuning[0];
  const Tensor plain = relu(linear(x, w));
  EXPECT_LT(largest_difference(first, plain), 1e-4);
  compiler::wait_for_background();
  EXPECT_TRUE(contains(f.report().tuning[0], "tuned beside the calls in")) << f.report().tuning[0];
  EXPECT_TRUE(contains(to_string(f.report()), "tuning: tuned")) << to_string(f.report());
  EXPECT_GE(found, 1u);
  EXPECT_LT(largest_difference(f(x), plain), 1e-4);
  EXPECT_EQ(f.report().compiles, 1);
}

// What both programs write to is one tensor, and calls take turns where one program follows the other.
TEST(BackgroundTuning, StateGoesOnWhereTheProgramChanges) {
  Tensor count = Tensor::full(Sizes{1, 64}, 0);
  const Tensor w = numbers({64, 64}, 3), one = Tensor::full(Sizes{1, 64}, 1);
  auto f = compile(
      [&](const Tensor& t) {
        add_(count, t);
        return linear(count, w);
      },
      {.mode = Mode::MaxAutotune, .options = kQuick});
  constexpr int kThreads = 4, kCalls = 50;
  std::vector<std::thread> threads;
  f(one);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < kCalls; ++k) f(one);
    });
  for (auto& t : threads) t.join();
  compiler::wait_for_background();
  f(one);
  EXPECT_EQ(count.to_vector(), std::vector<double>(64, kThreads * kCalls + 2));
}

TEST(BackgroundTuning, OtherCapturedTensorsAreTunedToo) {
  Tensor w = numbers({96, 64}, 1);
  const Tensor other = numbers({96, 64}, 5), x = numbers({32, 64}, 2);
  auto f = compile([&](const Tensor& t) { return linear(t, w); }, {.mode = Mode::MaxAutotune, .options = kQuick});
  f(x);
  w = other;
  EXPECT_LT(largest_difference(f(x), linear(x, other)), 1e-4);
  compiler::wait_for_background();
  EXPECT_LT(largest_difference(f(x), linear(x, other)), 1e-4);
  ASSERT_EQ(f.report().tuning.size(), 1u);
  EXPECT_TRUE(contains(f.report().tuning[0], "tuned beside the calls in")) << f.report().tuning[0];
}

TEST(BackgroundTuning, ItsErrorsAreInTheReportAndTheProgramStays) {
  const Tensor w = numbers({96, 64}, 1), x = numbers({32, 64}, 2);
  TuneFeedback feedback([](const TuneResult&) { throw UserError("the listener refuses"); });
  auto f = compile([&](const Tensor& t) { return linear(t, w); }, {.mode = Mode::MaxAutotune, .options = kQuick});
  const Tensor before = f(x);
  compiler::wait_for_background();
  ASSERT_EQ(f.report().tuning.size(), 1u);
  EXPECT_TRUE(contains(f.report().tuning[0], "failed, and the program stays untuned: the listener refuses")) << f.report().tuning[0];
  EXPECT_EQ(test::bit_difference({f(x)}, {before}), "");
}

TEST(BackgroundTuning, EndsSoonWhereNobodyHasTheProgram) {
  std::map<std::string, std::string> slow = kQuick;
  slow["tune_region_ms"] = "3000", slow["tune_whole_ms"] = "3000";
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    const Tensor x = numbers({16, 64}, i);
    std::vector<Tensor> w;
    for (int64_t k = 0; k < 6; ++k) w.push_back(numbers({64 + 8 * k, k ? 56 + 8 * k : 64}, k));
    auto f = compile(
        [&](const Tensor& t) {
          Tensor y = t;
          for (auto& each : w) y = relu(linear(y, each));
          return y;
        },
        {.mode = Mode::MaxAutotune, .options = slow});
    f(x);
  }
  compiler::wait_for_background();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "18 products by 3 s each were not given up";
}

TEST(BackgroundTuning, OfAModel) {
  const std::string path = test::kModels + "digitsnet/core.pt2";
  const auto inputs = test::inputs_of("digitsnet");
  Model model = Model::load(path, {.mode = Mode::MaxAutotune, .options = kQuick}), plain = Model::load(path);
  EXPECT_TRUE(contains(model.tuning(), "beside the calls"));
  EXPECT_EQ(plain.tuning(), "");
  const auto expected = plain.run(inputs);
  for (int call = 0; call < 2; ++call, compiler::wait_for_background()) {
    const auto out = model.run(inputs);
    for (size_t i = 0; i < out.size(); ++i) EXPECT_LT(largest_difference(out[i], expected[i]), 1e-3) << "call " << call;
  }
  EXPECT_TRUE(contains(model.tuning(), "tuned beside the calls in")) << model.tuning();
}

[[noreturn]] void end_while_it_tunes() {
  auto slow = kQuick;
  slow["tune_region_ms"] = "2000";
  static const Tensor w = numbers({512, 512}, 1);
  static auto f = compile([](const Tensor& t) { return linear(t, w); }, {.mode = Mode::MaxAutotune, .options = slow});
  f(numbers({64, 512}, 2));
  std::exit(0);
}

TEST(BackgroundTuning, AProcessEndsInTheMidst) { EXPECT_EXIT(end_while_it_tunes(), testing::ExitedWithCode(0), ""); }

}  // namespace
}  // namespace toroid
