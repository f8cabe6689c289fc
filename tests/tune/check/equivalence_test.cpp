// Generated inputs, and comparisons of what candidates make of them.
#include "tune/check/equivalence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/scalar.h"
#include "errors.h"
#include "tune/check/inputs.h"

namespace toroid::tune {
namespace {

using test::contains;

TEST(Inputs, AreWhatTheirTypesSay) {
  const Expr s = sym::symbol("s0", 1, 1000);
  const TensorType type{DType::F32, {s, 3}, {8, 2}};
  const Tensor t = generate_input(type, 7, {{"s0", 500}});
  EXPECT_EQ(t.sizes(), (std::vector<int64_t>{500, 3}));
  EXPECT_EQ(t.strides(), (std::vector<int64_t>{8, 2}));
  EXPECT_EQ(t.to_vector(), generate_input(type, 7, {{"s0", 500}}).to_vector());
  EXPECT_NE(t.to_vector(), generate_input(type, 8, {{"s0", 500}}).to_vector());
  EXPECT_THROW(generate_input(type, 7), InternalError);
  for (DType d : {DType::F64, DType::BF16, DType::F16, DType::C64}) {
    const Tensor x = generate_input({d, {1 << 14}, {}}, 3);
    double sum = 0, squares = 0;
    std::vector<double> v;
    if (d == DType::C64)
      for (int i = 0; i < 1 << 15; ++i) v.push_back(x.data<float>()[i]);
    else
      v = x.to_vector();
    for (double e : v) sum += e, squares += e * e;
    EXPECT_NEAR(sum / static_cast<double>(v.size()), 0, 0.03) << name_of(d);
    EXPECT_NEAR(squares / static_cast<double>(v.size()), 1, 0.05) << name_of(d);
  }
  for (double v : generate_input({DType::I64, {1000}, {}}, 3, {}, Device::cpu(), {-2, 4}).to_vector()) EXPECT_TRUE(v >= -2 && v < 5);
  const auto bools = generate_input({DType::Bool, {1000}, {}}, 3).to_vector();
  EXPECT_NEAR(std::accumulate(bools.begin(), bools.end(), 0.0), 500, 60);
  EXPECT_EQ(generate_input({DType::F32, {0, 4}, {}}, 1).numel(), 0);
  const TensorType two[] = {{DType::F32, {9}, {}}, {DType::F32, {9}, {}}};
  const auto pair = generate_inputs(two, 1);
  EXPECT_NE(pair[0].to_vector(), pair[1].to_vector());
}

// Products of normal matrices, summed in float in this order: forwards, backwards, in blocks.
Tensor product(const Tensor& a, const Tensor& b, DType result, int order, int64_t drop = 0) {
  const int64_t m = a.sizes()[0], k = a.sizes()[1], n = b.sizes()[1];
  const auto x = a.to_vector(), y = b.to_vector();
  Tensor out = Tensor::empty({m, n}, result);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0, block = 0;
      for (int64_t p = 0; p < k - drop; ++p) {
        const int64_t q = order == 1 ? k - 1 - p : p;
        const auto term = static_cast<float>(x[static_cast<size_t>(i * k + q)] * y[static_cast<size_t>(q * n + j)]);
        (order == 2 ? block : sum) += term;
        if (order == 2 && p % 32 == 31) sum += block, block = 0;
      }
      sum += block;
      store_number(out.raw_data() + static_cast<size_t>(i * n + j) * size_of(result), result, Number::of(static_cast<double>(sum)));
    }
  return out;
}

std::string compare_one(const Tensor& got, const Tensor& want, const Contract& c, Equivalence e = Equivalence::Fast) {
  return compare(std::span(&got, 1), std::span(&want, 1), std::span(&c, 1), e);
}

TEST(Equivalence, OrdersOfSummationAreEqualAndMissingTermsAreNot) {
  for (int64_t k : {64, 1024, 4096})
    for (DType dtype : {DType::F32, DType::BF16}) {
      const Tensor a = generate_input({dtype, {16, k}, {}}, 1), b = generate_input({dtype, {k, 24}, {}}, 2);
      const Contract c{k, DType::F32, dtype, {dtype, dtype}};
      const Tensor want = product(a, b, dtype, 0);
      EXPECT_EQ(compare_one(product(a, b, dtype, 1), want, c), "") << k;
      EXPECT_EQ(compare_one(product(a, b, dtype, 2), want, c), "") << k;
      EXPECT_NE(compare_one(product(a, b, dtype, 0, 1), want, c), "") << k << " " << name_of(dtype);  // without the last term
      if (dtype == DType::F32) {
        EXPECT_NE(compare_one(product(a, b, dtype, 1), want, c, Equivalence::Strict), "") << k;
      }
      EXPECT_EQ(compare_one(product(a, b, dtype, 0), want, c, Equivalence::Strict), "") << k;
    }
}

// The sums stay below the bound by a factor that is neither huge nor small: it is no constant that fits anything.
TEST(Equivalence, TheBoundFollowsTheContract) {
  const double f32 = relative_bound({4096, DType::F32, DType::F32, {}}, 1000),
               short_sum = relative_bound({16, DType::F32, DType::F32, {}}, 1000);
  EXPECT_GT(f32 / short_sum, 8);
  EXPECT_LT(f32, 1e-4);
  EXPECT_LT(relative_bound({4096, DType::F64, DType::F64, {}}, 1000), 1e-11);
  EXPECT_NEAR(relative_bound({4096, DType::F32, DType::BF16, {}}, 1000), 2 * 0x1p-8, 1e-4);
  EXPECT_GT(relative_bound({4096, DType::F16, DType::F16, {}}, 1000), 0.1);
  EXPECT_GT(relative_bound({1, DType::F32, DType::F32, {DType::BF16}, 1}, 1000), 0.03);
  Contract rounded{64, DType::F32, DType::F32, {DType::F32, DType::F32}, 1};
  EXPECT_LT(relative_bound(rounded, 1000), 0x1p-11);
  rounded.tf32 = true;
  EXPECT_GT(relative_bound(rounded, 1000), 0x1p-10);
  EXPECT_LT(relative_bound(rounded, 1000), 0x1p-6);
}

TEST(Equivalence, AverageIsNotSum) {
  const Tensor want = generate_input({DType::F32, {8, 64}, {}}, 1);
  Tensor got = Tensor::empty({8, 64}, DType::F32);
  for (int i = 0; i < 512; ++i) got.data<float>()[i] = want.data<float>()[i] / 2;
  const std::string text = compare_one(got, want, {2, DType::F32, DType::F32, {}});
  EXPECT_TRUE(contains(text, "result 0 has an error of ") && contains(text, "is allowed") && contains(text, "sums of 2 in f32")) << text;
}

TEST(Equivalence, NotANumberAndInfinity) {
  const auto tensor = [](double second, DType t = DType::F32) { return Tensor::of({1, second, 3}, {3}, t); };
  const Contract c{};
  EXPECT_EQ(compare_one(tensor(NAN), tensor(2), c), "result 0 is nan at [1], expected 2 (1 of 3 elements differ)");
  EXPECT_NE(compare_one(tensor(2), tensor(NAN), c), "");
  EXPECT_EQ(compare_one(tensor(NAN), tensor(NAN), c), "");
  EXPECT_EQ(compare_one(tensor(INFINITY), tensor(INFINITY), c), "");
  EXPECT_NE(compare_one(tensor(-INFINITY), tensor(INFINITY), c), "");
  EXPECT_NE(compare_one(tensor(1e30), tensor(INFINITY), c), "");
  EXPECT_EQ(compare_one(tensor(65504, DType::F16), tensor(INFINITY, DType::F16), {1, DType::F32, DType::F16, {}}), "");
  EXPECT_NE(compare_one(tensor(1000, DType::F16), tensor(INFINITY, DType::F16), {1, DType::F32, DType::F16, {}}), "");
}

TEST(Equivalence, TypesAndLayouts) {
  const Tensor x = generate_input({DType::F32, {4, 6}, {}}, 1);
  const Contract c{};
  EXPECT_EQ(compare_one(generate_input({DType::F32, {4, 5}, {}}, 1), x, c), "result 0 is f32[4, 5], expected f32[4, 6]");
  EXPECT_EQ(compare_one(generate_input({DType::F16, {4, 6}, {}}, 1), x, c), "result 0 is f16[4, 6], expected f32[4, 6]");
  EXPECT_EQ(compare_one(generate_input({DType::F32, {4, 6}, {1, 4}}, 1), x, c), "result 0 has strides [1, 4], expected [6, 1]");
  EXPECT_EQ(compare({}, std::span(&x, 1), std::span(&c, 1)), "it has 0 results, expected 1");
  const Tensor none;
  EXPECT_EQ(compare_one(none, x, c), "result 0 is missing, expected one");
  EXPECT_EQ(compare_one(Tensor::of({1, 2}, {2}, DType::I64), Tensor::of({1, 3}, {2}, DType::I64), c),
            "result 0 is 2 at [1], expected exactly 3 (1 of 2 elements differ)");
  const Tensor z = generate_input({DType::C64, {20}, {}}, 1);
  Tensor y = generate_input({DType::C64, {20}, {}}, 1);
  EXPECT_EQ(compare_one(y, z, {1, DType::F32, DType::C64, {}}), "");
  y.data<float>()[7] += 0.01F;  // the imaginary part of element 3
  EXPECT_TRUE(contains(compare_one(y, z, {1, DType::F32, DType::C64, {}}), "at [3]"));
}

}  // namespace
}  // namespace toroid::tune
