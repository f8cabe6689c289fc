// Calls by position mean what they mean in PyTorch, also where a function has several forms; and its functions written in Python.
#include "compile/harness.h"
#include "errors.h"
#include "front/harness.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;
using Values = std::vector<double>;
using Sizes = std::vector<int64_t>;

Tensor a() { return Tensor::of({1, 2, 4, 3, 1, 9}, {2, 3}); }

void expect_values(const Tensor& t, const Values& wanted, double tolerance = 1e-5) {
  const Values got = t.to_vector();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i]))) << i;
}

TEST(Positions, RepeatsComeBeforeTheDimension) {
  const Tensor x = Tensor::of({0, 2}, {2}, DType::I64);
  EXPECT_EQ(repeat_interleave(x, 2).to_vector(), (Values{0, 0, 2, 2}));
  EXPECT_EQ(repeat_interleave(a(), 2).to_vector(), (Values{1, 1, 2, 2, 4, 4, 3, 3, 1, 1, 9, 9}));
  EXPECT_EQ(repeat_interleave(a(), 2, 0).to_vector(), (Values{1, 2, 4, 1, 2, 4, 3, 1, 9, 3, 1, 9}));
  EXPECT_EQ(repeat_interleave(a(), x.size(0), 1).sizes(), (Sizes{2, 6}));
  EXPECT_EQ(repeat_interleave(x).to_vector(), (Values{1, 1}));
  EXPECT_EQ(repeat_interleave(x, Tensor::of({1, 2}, {2}, DType::I64)).to_vector(), (Values{0, 2, 2}));
}

TEST(Positions, NumbersOfPartsAreNoPlaces) {
  const Tensor x = reshape(arange(24), {2, 6, 2});
  const auto sizes = [](const std::vector<Tensor>& parts, int64_t dim) {
    Sizes out;
    for (const Tensor& t : parts) out.push_back(t.sizes().at(static_cast<size_t>(dim)));
    return out;
  };
  EXPECT_EQ(sizes(hsplit(x, 2), 1), (Sizes{3, 3}));
  EXPECT_EQ(sizes(hsplit(x, {2, 5}), 1), (Sizes{2, 3, 1}));
  EXPECT_EQ(sizes(vsplit(x, 2), 0), (Sizes{1, 1}));
  EXPECT_EQ(sizes(dsplit(x, 2), 2), (Sizes{1, 1}));
  EXPECT_EQ(sizes(tensor_split(x, 3, 1), 1), (Sizes{2, 2, 2}));
  EXPECT_EQ(sizes(tensor_split(x, {1, 3}, 1), 1), (Sizes{1, 2, 3}));
}

// Text is no truth, and so no number.
TEST(Positions, NormsGoByWordsAndNumbers) {
  EXPECT_NEAR(linalg_matrix_norm(a()).item(), 10.583005, 1e-5);
  EXPECT_NEAR(linalg_matrix_norm(a(), "fro").item(), 10.583005, 1e-5);
  EXPECT_NEAR(linalg_matrix_norm(a(), "nuc").item(), 11.930276, 1e-5);
  EXPECT_NEAR(linalg_norm(a(), "nuc").item(), 11.930276, 1e-5);
  EXPECT_EQ(linalg_matrix_norm(a(), 1).item(), 13);
  static_assert(!std::is_constructible_v<Operand, const char*> && std::is_constructible_v<Operand, bool>);
  static_assert(!std::is_constructible_v<Word, int> && !std::is_constructible_v<Word, std::nullptr_t>);
}

TEST(Positions, WhatIsGivenByNameHasNoPlace) {
  const Tensor d = Tensor::of({1, 0, 0, 0.5}, {2, 2});
  expect_values(linalg_pinv(d), {1, 0, 0, 2});
  expect_values(linalg_pinv(d, 0.6), {1, 0, 0, 0});        // rcond
  expect_values(linalg_pinv(d, 0.6, true), {1, 0, 0, 0});  // and hermitian
  const Tensor spectrum = stft(arange(8, DType::F32), 4, 2, {}, {}, true, "reflect", false, {}, true);
  EXPECT_EQ(spectrum.sizes(), (Sizes{3, 5}));
  expect_values(abs(select(spectrum, 0, 0)), {4, 6, 14, 22, 24});
  const Tensor coins = bernoulli_(zeros({1000}));  // of 0.5, not of the elements
  EXPECT_NEAR(mean(coins).item(), 0.5, 0.1);
}

TEST(Positions, PaddingIsAWordOrNumbers) {
  const Tensor x = reshape(arange(5, DType::F32), {1, 1, 5}), w = Tensor::of({1, 2, 3, 4}, {1, 1, 4});
  EXPECT_EQ(conv1d(x, w, {}, 1, "same").to_vector(), (Values{11, 20, 30, 20, 11}));
  EXPECT_EQ(conv1d(x, w, {}, 1, "valid").sizes(), (Sizes{1, 1, 2}));
  EXPECT_EQ(conv1d(x, w, {}, 1, 0).sizes(), (Sizes{1, 1, 2}));
  EXPECT_EQ(conv2d(ones({1, 1, 4, 4}), ones({1, 1, 3, 3}), {}, 1, "same").sizes(), (Sizes{1, 1, 4, 4}));
  EXPECT_EQ(conv3d(ones({1, 1, 4, 4, 4}), ones({1, 1, 3, 3, 3}), {}, 1, "same").sizes(), (Sizes{1, 1, 4, 4, 4}));
}

TEST(Positions, DefaultsArePyTorchs) {
  EXPECT_EQ(div(-a(), 2, "trunc").to_vector(), (Values{0, -1, -2, -1, 0, -4}));
  Tensor x = clone(a());
  EXPECT_EQ(div_(x, 2, "floor").to_vector(), (Values{0, 1, 2, 1, 0, 4}));
  EXPECT_EQ(one_hot(Tensor::of({1, 2}, {2}, DType::I64)).to_vector(), (Values{0, 1, 0, 0, 0, 1}));
  const auto places = where(a() > 2);
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ(places[1].to_vector(), (Values{2, 0, 2}));
  EXPECT_EQ(index_put_(zeros({3}), {Tensor::of({0, 2}, {2}, DType::I64)}, 7).to_vector(), (Values{7, 0, 7}));
  EXPECT_TRUE(equal(a(), a()));
  EXPECT_FALSE(equal(a(), a() + 1));
  EXPECT_FALSE(equal(a(), ones({3})));
  expect_values(poisson_nll_loss(a(), a()), {1346.43225});
}

TEST(FurtherFunctions, AreAsPyTorch) {
  expect_values(softmin(a(), 1), {0.70538455, 0.25949648, 0.03511903, 0.1191677, 0.88053685, 0.00029539});
  expect_values(softsign(-a()), {-0.5, -0.6666667, -0.8, -0.75, -0.5, -0.9});
  expect_values(kl_div(log(a()), a() * 2, "batchmean"), {13.862944});
  expect_values(gaussian_nll_loss(a(), a() * 2, a() * 0.5), {3.4346993});
  expect_values(gaussian_nll_loss(a(), a() * 2, Tensor::of({1, 2}, {2}), true, 1e-6, "sum"), {39.80334854});
  expect_values(gaussian_nll_loss(a(), a() * 2, a() * 0, false, 1.0), {9.33333302});
  const Tensor v = Tensor::of({1, 2, 0.25}, {3}).requires_grad_();
  gaussian_nll_loss(zeros({3}), ones({3}), v, false, 0.5).backward();
  expect_values(v.grad(), {0, 0.04166667, -0.33333334});
  EXPECT_TRUE(contains(user_error([] { gaussian_nll_loss(a(), a(), a(), false, 0); }), "eps is 0"));
}

TEST(FurtherFunctions, PickByVectorsAlone) {
  const Tensor x = a(), i = Tensor::of({0, 1}, {1, 2}, DType::I64);
  const std::string told = "the index must be a vector, it has 2 dimensions";
  EXPECT_TRUE(contains(user_error([&] { index_select(x, 0, i); }), told));
  EXPECT_TRUE(contains(user_error([&] { index_add(x, 0, i, x); }), told));
  EXPECT_TRUE(contains(user_error([&] { index_copy(x, 0, i, x); }), told));
  EXPECT_TRUE(contains(user_error([&] { index_fill(x, 0, i, 1); }), told));
  EXPECT_EQ(index_select(x, 0, i[0][1]).to_vector(), (Values{3, 1, 9}));
}

TEST(FurtherFunctions, CovariancesAndTrapezoids) {
  const Tensor f = Tensor::of({1, 2, 1}, {3}, DType::I64), w = Tensor::of({0.5, 1, 2}, {3}), x = Tensor::of({0, 1, 3}, {3});
  expect_values(cov(a()), {2.3333333, 5.3333333, 5.3333333, 17.333333});
  expect_values(cov(a(), 0), {1.5555556, 3.5555556, 3.5555556, 11.555556});
  expect_values(cov(a(), 1, {}, w), {2.5, 7, 7, 23.714285});
  expect_values(cov(a(), 1, f, w), {1.8571428, 5.7142853, 5.7142853, 21.142857});
  expect_values(cov(a()[0]), {2.3333333});
  for (const Tensor& t : {cov(slice(a(), 0, 0, 1)), corrcoef(slice(a(), 0, 0, 1)), cov(a()[0]), corrcoef(a()[0])}) EXPECT_EQ(t.dim(), 0);
  expect_values(cov(slice(a(), 0, 0, 1)), {2.3333333});
  expect_values(corrcoef(a()), {1, 0.83862776, 0.83862776, 1});
  expect_values(trapezoid(a(), x), {7.5, 12});
  expect_values(trapezoid(a(), a()), {7.5, 36});
  expect_values(trapezoid(a(), Tensor::of({0, 2}, {2}), 0), {4, 3, 13});
  expect_values(cumulative_trapezoid(a(), x), {1.5, 7.5, 2, 12});
  EXPECT_TRUE(contains(user_error([&] { trapezoid(a(), x, 0); }), "\"x\" has 3 elements along dimension 0 and \"y\" 2"));
  const auto compiled = compile([](const Tensor& t) { return cov(t) + corrcoef(t); });
  for (int64_t n : {3, 4, 5}) {
    const Tensor t = sin(reshape(arange(2 * n, DType::F32), {2, n}));
    expect_values(compiled(t), (cov(t) + corrcoef(t)).to_vector());
  }
}

TEST(CompiledResults, MayHoldOneListBesideTensors) {
  const auto f = compile([](const Tensor& x, int64_t n) {
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < n; ++i) parts.push_back(x + i);
    return std::tuple(sum(x), parts, x * 2);
  });
  for (int64_t n : {0, 3}) {
    const auto [total, parts, twice] = f(arange(3), n);
    EXPECT_EQ(total.item(), 3);
    ASSERT_EQ(parts.size(), static_cast<size_t>(n));
    if (n) {
      EXPECT_EQ(parts[2].to_vector(), (Values{2, 3, 4}));
    }
    EXPECT_EQ(twice.to_vector(), (Values{0, 2, 4}));
  }
  const auto g = compile([](const Tensor& x) { return std::pair(sum(x), std::vector<Tensor>{x, x + 1}); });
  EXPECT_EQ(g(arange(2)).second.at(1).to_vector(), (Values{1, 2}));
}

TEST(Refusals, DifferencesOfTruths) {
  const Tensor b = Tensor::of({1, 0}, {2}, DType::Bool), i = arange(2);
  Tensor t = clone(i);
  const std::function<Tensor()> refused[] = {[&] { return b - b; },        [&] { return 1 - b; },     [&] { return b - 1; },
                                             [&] { return b - 1.0; },      [&] { return b - i; },     [&] { return i - b; },
                                             [&] { return sub(b, b, 2); }, [&] { return sub_(t, b); }};
  for (const auto& f : refused)
    EXPECT_TRUE(contains(user_error(f), "there is no difference of truths; use logical_xor()")) << user_error(f);
  EXPECT_TRUE(contains(user_error([&] { return -b; }), "bool"));
  EXPECT_TRUE(contains(user_error([&] { compile([](const Tensor& x) { return 1 - x; })(b); }), "no difference of truths"));
  EXPECT_EQ((b + b).dtype(), DType::Bool);
}

TEST(Refusals, NumbersAndRanksOfLosses) {
  EXPECT_TRUE(contains(user_error([] { smooth_l1_loss(a(), a(), "mean", -1); }), "beta is -1; it must not be negative"));
  EXPECT_EQ(smooth_l1_loss(a(), a() + 1, "mean", 0).item(), 1);
  for (double delta : {0.0, -1.0})
    EXPECT_TRUE(contains(user_error([&] { huber_loss(a(), a(), "mean", delta); }), "it must be positive")) << delta;
  const Tensor one = ones({3});
  EXPECT_TRUE(contains(user_error([&] { triplet_margin_loss(a(), one, a()); }), "\"positive\" has 1 dimensions and \"anchor\" 2"));
  EXPECT_TRUE(contains(user_error([&] { triplet_margin_loss(a(), a(), one); }), "\"negative\" has 1 dimensions and \"anchor\" 2"));
}

}  // namespace
}  // namespace toroid
