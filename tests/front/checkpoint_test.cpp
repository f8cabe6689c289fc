// checkpoint() in compiled functions, in those that are differentiated as they are, and on the tape; and the budget of compiled ones.
#include "toroid/checkpoint.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/options.h"
#include "front/harness.h"
#include "log_scope.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/log.h"
#include "toroid/nn.h"
#include "toroid/random.h"

namespace toroid::checkpoints {
namespace {

using Values = std::vector<double>;

// Layers of a product, a GELU and a dropout, each within `around` (checkpoint, or nothing).
struct Layers {
  static constexpr int64_t kRows = 1024, kColumns = 512, kCount = 4;
  std::vector<Tensor> weights;
  Tensor x;

  Layers() {
    manual_seed(3);
    for (int64_t i = 0; i < kCount; ++i) weights.push_back(randn({kColumns, kColumns}) * 0.05);
    x = randn({kRows, kColumns});
  }

  static Tensor layer(const Tensor& x, const Tensor& w) { return dropout(gelu(matmul(x, w)), 0.25, true) + x; }

  template <class Around>
  Tensor loss(const Around& around) const {
    Tensor y = x;
    for (const Tensor& w : weights) y = around([&] { return layer(y, w); });
    return mean(y * y);
  }

  // Gradients of a compiled function, each as bytes of f32; and what it said of its partition.
  template <class Around>
  std::vector<Values> compiled(const Around& around, const char* budget, std::string* partition = nullptr) const {
    auto f = compile(
        [&](const Tensor&) {
          auto [value, gradients] = value_and_gradients([&] { return loss(around); }, weights);
          gradients.push_back(value);
          return gradients;
        },
        {.fullgraph = true, .options = {{"activation_memory_budget", budget}}});
    const ScopedOption logs("logs", "choices");
    const test::LogScope lines([&](Artifact, std::string_view line) {
      if (partition && line.find("computed again") != line.npos) *partition = line;
    });
    manual_seed(11);
    std::vector<Values> out;
    for (auto& t : f(x)) out.push_back(t.to_vector());
    return out;
  }
};

constexpr auto kPlainly = [](auto&& fn) { return fn(); };
constexpr auto kAgain = [](auto&& fn) { return checkpoint(fn); };
constexpr auto kKeepingProducts = [](auto&& fn) { return checkpoint(fn, {.save = {"matmul"}}); };

double saved_megabytes(const std::string& partition) {
  std::smatch found;
  return std::regex_search(partition, found, std::regex("([0-9.]+) MB saved")) ? std::stod(found[1]) : -1;
}

TEST(Checkpoint, CompiledGradientsAreTheSameBits) {
  const Layers layers;
  std::string plain, again, products;
  const auto expected = layers.compiled(kPlainly, "1", &plain);
  EXPECT_EQ(layers.compiled(kAgain, "1", &again), expected);
  EXPECT_EQ(layers.compiled(kKeepingProducts, "1", &products), expected);
  EXPECT_EQ(layers.compiled(kPlainly, "off"), expected);
  // A layer's result for each of the first three; the policy keeps the products besides.
  const double result = Layers::kRows * Layers::kColumns * 4 / 1e6;
  EXPECT_NEAR(saved_megabytes(again), 4 * result, 0.3) << again;
  EXPECT_NEAR(saved_megabytes(products), 8 * result, 0.3) << products;
  EXPECT_GT(saved_megabytes(plain), saved_megabytes(again)) << plain;
}

// Other values in memory are other loops, in which other products and sums are contracted to one rounding.
TEST(Checkpoint, BudgetsSaveLess) {
  const Layers layers;
  const auto expected = layers.compiled(kPlainly, "off");
  double before = 1e9, most = 0;
  for (const char* budget : {"1", "0.75", "0.5", "0.25", "0"}) {
    std::string partition;
    const auto found = layers.compiled(kPlainly, budget, &partition);
    for (size_t i = 0; i < expected.size(); ++i)
      for (size_t k = 0; k < expected[i].size(); ++k) ASSERT_NEAR(found[i][k], expected[i][k], 1e-6) << budget;
    EXPECT_LE(saved_megabytes(partition), before) << partition;
    before = saved_megabytes(partition);
    most = std::max(most, before);
  }
  EXPECT_LT(before, most);
  EXPECT_THROW(layers.compiled(kPlainly, "1.5"), UserError);
  EXPECT_THROW(layers.compiled(kPlainly, "half"), UserError);
}

TEST(Checkpoint, OfFunctionsThatAreDifferentiatedAsTheyAre) {
  const Layers layers;
  manual_seed(5);
  const auto expected = value_and_gradients([&] { return layers.loss(kPlainly); }, layers.weights);
  manual_seed(5);
  const auto found = value_and_gradients([&] { return layers.loss(kAgain); }, layers.weights);
  EXPECT_EQ(found.first.item(), expected.first.item());
  for (size_t i = 0; i < layers.weights.size(); ++i) EXPECT_EQ(found.second[i].to_vector(), expected.second[i].to_vector());
}

TEST(Checkpoint, OnTheTapeAsWithout) {
  Layers layers;
  for (Tensor& w : layers.weights) w.requires_grad_();
  std::vector<Values> expected;
  double value = 0;
  for (const bool again : {false, true}) {
    manual_seed(7);
    const Tensor loss = again ? layers.loss(kAgain) : layers.loss(kPlainly);
    const auto drawn = default_generator().state();
    rand({3});  // what is drawn in between is none of the checkpoints'
    const auto at = default_generator().state();
    loss.backward();
    EXPECT_EQ(default_generator().state(), at);
    EXPECT_NE(drawn, at);
    if (!again) value = loss.item();
    EXPECT_EQ(loss.item(), value);
    for (size_t i = 0; i < layers.weights.size(); ++i) {
      if (!again) expected.push_back(layers.weights[i].grad().to_vector());
      EXPECT_EQ(layers.weights[i].grad().to_vector(), expected[i]);
      layers.weights[i].zero_grad();
    }
  }
}

TEST(Checkpoint, OnTheTapeWritesHappenOnce) {
  const Tensor w = Tensor::of({1, 2, 3}, {3}).requires_grad_(), count = Tensor::of({5}, {1});
  const Tensor y = checkpoint([&] {
    const Tensor scaled = w * count;
    add_(count, 1);
    return scaled;
  });
  EXPECT_EQ(count.to_vector(), (Values{6}));
  sum(y).backward();
  EXPECT_EQ(count.to_vector(), (Values{6}));
  EXPECT_EQ(w.grad().to_vector(), (Values{5, 5, 5}));
}

TEST(Checkpoint, OnTheTapeKeepsWhatEntersAndLeaves) {
  const Tensor w = Tensor::of({1, 2}, {2}).requires_grad_();
  // Itself, a view of it, and integers are results as without a checkpoint.
  const auto results = checkpoint([&] { return std::vector<Tensor>{w, unsqueeze(w, 0), gt(w, 1), exp(w)}; });
  ASSERT_EQ(results.size(), 4u);
  EXPECT_FALSE(results[2].requires_grad());
  (sum(results[0]) + sum(results[1]) * 10 + sum(results[3] * 0)).backward();
  EXPECT_EQ(w.grad().to_vector(), (Values{11, 11}));
  const Tensor y = checkpoint([&] { return exp(w); });
  {
    const NoGrad updates;
    add_(w, 1);
  }
  EXPECT_THROW(sum(y).backward(), UserError);  // what it would be computed from was written
}

TEST(Checkpoint, ErrorsSayWhatIsWrong) {
  const auto error_of = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  const Tensor w = Tensor::of({1, 2}, {2}).requires_grad_();
  EXPECT_NE(error_of([&] { checkpoint([&] { return w * 2; }, {.save = {"matmull"}}); }).find("\"matmull\""), std::string::npos);
  EXPECT_NE(error_of([&] { checkpoint([&] { return w * sum(w).item(); }); }).find("item"), std::string::npos);
  EXPECT_NE(error_of([&] {
              checkpoint([&] {
                const NoGrad updates;
                add_(w, 1);
                return w;
              });
            }).find("writes to a tensor that requires gradients"),
            std::string::npos);
}

}  // namespace
}  // namespace toroid::checkpoints
