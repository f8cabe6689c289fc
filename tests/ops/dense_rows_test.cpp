// Matrix products, convolutions, pools, norms, resampling, linear algebra and recurrent networks against numbers worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "ops/reference.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

class DenseRows : public ::testing::Test {
 protected:
  ReferenceDispatcher dispatcher_;
  DispatchScope scope_{dispatcher_};
};

void expect_values(const Tensor& t, const std::vector<int64_t>& sizes, const std::vector<double>& values) {
  ASSERT_EQ(t.sizes(), sizes);
  auto got = t.to_vector();
  ASSERT_EQ(got.size(), values.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], values[i], 1e-5) << "element " << i;
}

Tensor range(std::vector<int64_t> sizes) {
  std::vector<double> v;
  for (int64_t i = 0; i < product(sizes); ++i) v.push_back(static_cast<double>(i));
  return Tensor::of(v, sizes);
}

TEST_F(DenseRows, MatmulBroadcastsBatchesAndTakesVectors) {
  Tensor a = range({2, 1, 2, 3}), b = range({2, 3, 1});
  expect_values(call1("matmul", {a, b}), {2, 2, 2, 1}, {5, 14, 14, 50, 23, 32, 86, 122});
  expect_values(call1("matmul", {range({3}), range({3})}), {}, {5});
  expect_values(call1("matmul", {range({2, 2, 3}), range({3})}), {2, 2}, {5, 14, 23, 32});
}

TEST_F(DenseRows, AddmmIgnoresSelfWhenBetaIsZero) {
  Tensor nan = Tensor::of({NAN}, {1}), a = range({2, 2});
  expect_values(call1("addmm", {nan, a, a, Expr(0), 2.0}), {2, 2}, {4, 6, 12, 22});
}

TEST_F(DenseRows, SumsWithProductsOfIntegersStayIntegers) {
  for (DType t : {DType::I64, DType::I32}) {
    Tensor x = Tensor::of({5, 6, 7, 8}, {2, 2}, t), v = Tensor::of({3, 4}, {2}, t), row = Tensor::of({5, 6}, {2}, t);
    Tensor batch = call1("unsqueeze", {x, Expr(0)});
    // What follows the point of beta and alpha is cut off.
    auto blended = [&](double beta, double alpha) {
      std::vector<Tensor> all = {call1("addmv", {row, x, v, beta, alpha}), call1("addmm", {x, x, x, beta, alpha}),
                                 call1("addbmm", {x, batch, batch, beta, alpha}), call1("baddbmm", {batch, batch, batch, beta, alpha})};
      for (auto& y : all) EXPECT_EQ(y.dtype(), t);
      return all;
    };
    auto y = blended(1, 2.5);
    expect_values(y[0], {2}, {83, 112});
    for (size_t i : {1, 2}) expect_values(y[i], {2, 2}, {139, 162, 189, 220});
    expect_values(y[3], {1, 2, 2}, {139, 162, 189, 220});
    y = blended(1.7, 1);
    expect_values(y[0], {2}, {44, 59});
    for (size_t i : {1, 2}) expect_values(y[i], {2, 2}, {72, 84, 98, 114});
    expect_values(blended(0.2, 0.6)[1], {2, 2}, {0, 0, 0, 0});
    EXPECT_THROW(call1("addr", {x, v, v, 0.5, Expr(1)}), UserError);
  }
}

TEST_F(DenseRows, VandermondeTakesANumber) { expect_values(call1("linalg_vander", {Tensor::of({3}, {}), Expr(4)}), {1, 4}, {1, 3, 9, 27}); }

TEST_F(DenseRows, ScalarProductsAlongADimension) {
  const Tensor x = Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3}), y = Tensor::of({1, -1, 2}, {3}), none = Tensor::full({2, 0}, 1);
  expect_values(call1("linalg_vecdot", {x, y}), {2}, {5, 11});
  expect_values(call1("linalg_vecdot", {x, y, Expr(0)}), {3}, {5, -7, 18});
  expect_values(call1("linalg_vecdot", {Tensor::full({2, 1, 3}, 2), x, Expr(1)}), {2, 3}, {10, 14, 18, 10, 14, 18});
  expect_values(call1("linalg_vecdot", {Tensor::of({2}, {}), Tensor::of({3}, {})}), {}, {6});
  expect_values(call1("linalg_vecdot", {none, none}), {2}, {0, 0});
  const Tensor z = call1("complex", {Tensor::of({1, 0}, {2}), Tensor::of({2, 3}, {2})}),
               w = call1("complex", {Tensor::of({0, 2}, {2}), Tensor::of({1, 0}, {2})});
  expect_values(call1("view_as_real", {call1("linalg_vecdot", {z, w})}), {2}, {2, -5});
  const Tensor big = Tensor::full({2, 4}, 300, DType::F16), small = Tensor::full({4}, 0.25, DType::F16);
  const Tensor sums = call1("linalg_vecdot", {big, small});
  EXPECT_EQ(sums.dtype(), DType::F16);
  expect_values(sums, {2}, {300, 300});
  expect_values(call1("linalg_vecdot", {big, Tensor::of({300, -300, 0, 0}, {4}, DType::F16)}), {2}, {0, 0});  // 300 * 300 is no f16
  EXPECT_THROW(call1("linalg_vecdot", {x, y, Expr(2)}), UserError);
  EXPECT_THROW(call1("linalg_vecdot", {x, Tensor::of({1, 2, 3}, {3}, DType::F64)}), UserError) << "two dtypes";
  EXPECT_THROW(call1("linalg_vecdot", {Tensor::of({1}, {1}, DType::I32), Tensor::of({1}, {1}, DType::I32)}), UserError);
}

TEST_F(DenseRows, IntegerProductsAreExact) {
  int64_t big = (int64_t{1} << 53) + 1;
  Tensor a = Tensor::empty({1, 1}, DType::I64), b = Tensor::of({1}, {1, 1}, DType::I64);
  a.data<int64_t>()[0] = big;
  EXPECT_EQ(call1("mm", {a, b}).data<int64_t>()[0], big);
}

TEST_F(DenseRows, ProductsOf8BitsAreSummedIn32) {
  Tensor a = Tensor::of({255, 255, 1, 0}, {2, 2}, DType::U8), b = Tensor::of({-128, 127, -128, 1}, {2, 2}, DType::I8);
  Tensor y = call1("_int_mm", {a, b});
  EXPECT_EQ(y.dtype(), DType::I32);
  expect_values(y, {2, 2}, {-65280, 32640, -128, 127});
  EXPECT_THROW(call1("_int_mm", {b, a}), UserError);
  EXPECT_THROW(call1("_int_mm", {b, Tensor::of({1, 2}, {1, 2}, DType::I8)}), UserError);
}

TEST_F(DenseRows, ProductsOfWrongSizesAreRefused) { EXPECT_THROW(call1("mm", {range({2, 3}), range({2, 3})}), UserError); }

// 256 and 1 are halves of bf16, and their sum is none.
TEST_F(DenseRows, ProductsOfHalvesAsF32AreNotRounded) {
  const Tensor a = Tensor::of({16, 1}, {1, 2}, DType::BF16), b = Tensor::of({16, 1}, {2, 1}, DType::BF16);
  const auto batch = [](const Tensor& t) { return call1("unsqueeze", {t, Expr(0)}); };
  for (DType as : {DType::F32, DType::BF16}) {
    for (const Tensor& y : {call1("mm.dtype", {a, b, as}), call1("bmm.dtype", {batch(a), batch(b), as})}) {
      EXPECT_EQ(y.dtype(), as);
      EXPECT_EQ(y.to_vector(), std::vector<double>{as == DType::F32 ? 257.0 : 256.0});
    }
  }
  const Tensor f = range({2, 2});
  expect_values(call1("mm.dtype", {f, f, DType::F32}), {2, 2}, {2, 3, 6, 11});
  EXPECT_THROW(call1("mm.dtype", {a, b, DType::F16}), UserError);
  EXPECT_THROW(call1("mm.dtype", {f, f, DType::F64}), UserError);
  EXPECT_THROW(call1("bmm.dtype", {batch(a), batch(a), DType::F32}), UserError);
}

TEST_F(DenseRows, EinsumContractsTransposesAndTakesDiagonals) {
  Tensor a = range({2, 3}), b = range({3, 2});
  expect_values(call1("einsum", {std::string("ij,jk->ki"), std::vector<Tensor>{a, b}}), {2, 2}, {10, 28, 13, 40});
  expect_values(call1("einsum", {std::string("ii->i"), std::vector<Tensor>{range({2, 2})}}), {2}, {0, 3});
  expect_values(call1("einsum", {std::string("...i,i"), std::vector<Tensor>{range({2, 2, 2}), range({2})}}), {2, 2}, {1, 3, 5, 7});
}

// Equal letters are equal sizes, or 1 between operands: what differs is named by its letter, and nothing is cut.
TEST_F(DenseRows, EinsumNamesTheLetterWhoseSizesDiffer) {
  struct Case {
    const char* equation;
    std::vector<std::vector<int64_t>> sizes;
    const char* error;  // empty: it is computed
  };
  const Case cases[] = {{"ii->i", {{3, 4}}, "the letter 'i' of one operand has the sizes 3 and 4"},
                        {"ii", {{4, 3}}, "the letter 'i'"},
                        {"iij->j", {{1, 3, 2}}, "the letter 'i'"},
                        {"iii->i", {{3, 3, 2}}, "the letter 'i'"},
                        {"ij,jk->ik", {{3, 4}, {3, 5}}, "the letter 'j' has the size 4 in one operand and 3 in another"},
                        {"ij,ij->j", {{3, 4}, {2, 4}}, "the letter 'i'"},
                        {"i,i,i->", {{3}, {3}, {4}}, "the letter 'i'"},
                        {"...i,...i->...", {{2, 3}, {4, 3}}, "a dimension of \"...\""},
                        {"i->ii", {{3}}, "the result names 'i' twice"},
                        {"ij,jk->ik", {{3, 1}, {4, 5}}, ""},
                        {"ij,ij->ij", {{1, 4}, {3, 1}}, ""},
                        {"...i,...i->...", {{1, 3}, {4, 3}}, ""},
                        {"ii->i", {{0, 0}}, ""}};
  for (auto& c : cases) {
    std::vector<Tensor> operands;
    for (auto& sizes : c.sizes) operands.push_back(range(sizes));
    const std::string error = test::user_error([&] { call1("einsum", {std::string(c.equation), operands}); });
    EXPECT_TRUE(*c.error ? test::contains(error, c.error) : error == "no error") << c.equation << ": " << error;
  }
}

TEST_F(DenseRows, RefusalsNameTheDtypeThatWasGiven) {
  for (const DType t : {DType::F32, DType::F16, DType::BF16, DType::F64})
    for (const char* op : {"bitwise_not", "bitwise_and.Tensor", "bitwise_left_shift.Tensor", "gcd"}) {
      const Tensor x = call1("_to_copy", {range({2}), t});
      const std::string error = test::user_error([&] {
        if (std::string_view(op) == "bitwise_not")
          call1(op, {x});
        else
          call1(op, {x, x});
      });
      EXPECT_TRUE(test::contains(error, fmt::format("is not defined on {};", name_of(t)))) << op << ": " << error;
    }
}

TEST_F(DenseRows, ConvolutionHandlesGroupsAndStrides) {
  Tensor x = range({1, 2, 4}), w = Tensor::of({1, 1, 1, -1}, {2, 1, 2});
  Tensor y = call1("conv1d", {x, w, Tensor(), Sizes{Expr(2)}, Sizes{Expr(0)}, Sizes{Expr(1)}, Expr(2)});
  expect_values(y, {1, 2, 2}, {1, 5, -1, -1});
}

TEST_F(DenseRows, ConvolutionTakesOneNumberForAllDimensions) {
  Tensor x = range({1, 1, 3, 3}), w = Tensor::of({1, 1, 1, 1}, {1, 1, 2, 2});
  auto list = [](int64_t v) { return Sizes{Expr(v)}; };
  Tensor y = call1("convolution", {x, w, Tensor(), list(1), list(0), list(2), false, list(0), Expr(1)});
  expect_values(y, {1, 1, 1, 1}, {16});
  y = call1("convolution", {range({1, 1, 1, 1}), w, Tensor::of({3}, {1}), list(2), list(1), list(1), true, list(1), Expr(1)});
  expect_values(y, {1, 1, 1, 1}, {3});
  Sizes three(3, Expr(1));
  EXPECT_THROW(call1("convolution", {x, w, Tensor(), three, list(0), list(1), false, list(0), Expr(1)}), UserError);
}

TEST_F(DenseRows, TransposedConvolutionSpreadsItsInput) {
  Tensor y = call1("conv_transpose1d", {Tensor::of({1, 2}, {1, 1, 2}), Tensor::of({1, 10}, {1, 1, 2}), Tensor(), Sizes{Expr(2)}});
  expect_values(y, {1, 1, 4}, {1, 10, 2, 20});
}

TEST_F(DenseRows, SamePaddingPutsTheOddColumnAtTheEnd) {
  Tensor y = call1("conv1d.padding",
                   {Tensor::of({1, 2, 3}, {1, 1, 3}), Tensor::of({1, 1}, {1, 1, 2}), Tensor(), Sizes{Expr(1)}, std::string("same")});
  expect_values(y, {1, 1, 3}, {3, 5, 3});
}

TEST_F(DenseRows, PoolsCountPaddingAndPartialWindows) {
  Tensor x = Tensor::of({1, 2, 3, 4, 5}, {1, 1, 5});
  expect_values(call1("avg_pool1d", {x, Sizes{Expr(2)}, Sizes{Expr(2)}, Sizes{Expr(1)}, true, false}), {1, 1, 3}, {1, 2.5, 4.5});
  auto r = call("max_pool2d_with_indices", {range({1, 3, 3}), Sizes{Expr(2)}, Sizes{Expr(2)}, Sizes{Expr(1)}});
  expect_values(r[0], {1, 2, 2}, {0, 2, 6, 8});
  expect_values(r[1], {1, 2, 2}, {0, 2, 6, 8});
}

TEST_F(DenseRows, AdaptivePoolsOverlapWhereSizesDoNotDivide) {
  expect_values(call1("adaptive_avg_pool1d", {range({1, 1, 5}), Sizes{Expr(3)}}), {1, 1, 3}, {0.5, 2, 3.5});
  auto r = call("adaptive_max_pool1d", {range({1, 1, 5}), Sizes{Expr(3)}});
  expect_values(r[1], {1, 1, 3}, {1, 3, 4});
}

TEST_F(DenseRows, BatchNormReturnsNewRunningStatistics) {
  Tensor x = Tensor::of({1, 3}, {2, 1}), zero = Tensor::of({0}, {1}), one = Tensor::of({1}, {1});
  auto r = call("_native_batch_norm_legit_functional", {x, Tensor(), Tensor(), zero, one, true, 0.5, 0.0});
  expect_values(r[0], {2, 1}, {-1, 1});
  expect_values(r[3], {1}, {1});
  expect_values(r[4], {1}, {1.5});  // unbiased variance 2
}

TEST_F(DenseRows, MarginLossesAgreeWithTheirDefinitions) {
  Tensor a = Tensor::of({1, 0, 0, 2}, {2, 2}), b = Tensor::of({0, 1, 0, 4}, {2, 2}), sign = Tensor::of({1, -1}, {2});
  Tensor x = Tensor::of({3, 0.25}, {2}), y = Tensor::of({1, 2}, {2});
  Expr none = 0;
  expect_values(call1("margin_ranking_loss", {x, y, sign, 0.5, none}), {2}, {0, 0});
  expect_values(call1("margin_ranking_loss", {y, x, sign, 0.5, none}), {2}, {2.5, 2.25});
  expect_values(call1("hinge_embedding_loss", {x, sign, 1.0, none}), {2}, {3, 0.75});
  expect_values(call1("cosine_embedding_loss", {a, b, sign, 0.25, none}), {2}, {1, 0.75});
  expect_values(call1("triplet_margin_loss", {a, b, a, 1.0, 2.0, 0.0, false, none}), {2}, {1 + std::sqrt(2.0), 3});
  expect_values(call1("poisson_nll_loss", {Tensor::of({0, 1}, {2}), y, true, false, 0.0, none}), {2}, {1, std::exp(1.0) - 2});
  double stirling = 2 * std::log(2.0) - 2 + 0.5 * std::log(4 * M_PI);
  expect_values(call1("poisson_nll_loss", {x, y, false, true, 0.75, none}), {2}, {3 - std::log(3.75), 0.25 + stirling});
}

// PyTorch's values.
TEST_F(DenseRows, MultiMarginLossAgreesWithPyTorch) {
  const Tensor x = Tensor::of({1, 2, 4, 0.5, 3, -1}, {2, 3}), t = Tensor::of({1, 0}, {2}, DType::I64), w = Tensor::of({1, 2, 3}, {3});
  const Expr none = 0, mean = 1, sum = 2;
  const auto loss = [&](double p, double margin, const Tensor& weight, const Expr& reduction) {
    return call1("multi_margin_loss", {x, t, p, margin, weight, reduction});
  };
  expect_values(loss(1, 1, {}, none), {2}, {1, 3.5 / 3});
  expect_values(loss(1, 0.5, w, none), {2}, {5.0 / 3, 1});
  expect_values(loss(2, 1, {}, none), {2}, {3, 12.25 / 3});
  expect_values(loss(2, 0.5, w, mean), {}, {(12.5 / 3 + 3) / 2});
  expect_values(loss(1, 1, w, sum), {}, {2 + 3.5 / 3});
  const Tensor line = Tensor::of({1, 2, 4}, {3}), last = Tensor::of({2}, {}, DType::I64);
  expect_values(call1("multi_margin_loss", {line, last, 1.0, 3.0, Tensor(), none}), {}, {1.0 / 3});
  expect_values(call1("multi_margin_loss", {line, Tensor::of({2}, {1}, DType::I64), 1.0, 3.0, Tensor(), none}), {1}, {1.0 / 3});
  EXPECT_EQ(test::user_error([&] { loss(3, 1, {}, none); }), "multi_margin_loss: p is 3; it must be 1 or 2");
  EXPECT_THROW(call1("multi_margin_loss", {x, Tensor::of({1, 3}, {2}, DType::I64)}), UserError);
  EXPECT_THROW(call1("multi_margin_loss", {x, Tensor::of({1}, {1}, DType::I64)}), UserError);
  EXPECT_THROW(loss(1, 1, Tensor::of({1, 2}, {2}), none), UserError);
}

// PyTorch's values.
TEST_F(DenseRows, MultilabelMarginLossAgreesWithPyTorch) {
  const Tensor x = Tensor::of({0.1, 0.2, 0.4, 0.8, 1, -1, 0.5, 2}, {2, 4}), t = Tensor::of({3, 0, -1, 1, 1, 1, 2, -1}, {2, 4}, DType::I64);
  const Expr none = 0, mean = 1, sum = 2;
  const auto loss = [](const Tensor& x, const Tensor& t, const Expr& reduction) {
    return call1("multilabel_margin_loss", {x, t, reduction});
  };
  expect_values(loss(x, t, none), {2}, {0.85, 4.5});
  expect_values(loss(x, t, mean), {}, {2.675});
  expect_values(loss(x, t, sum), {}, {5.35});
  expect_values(loss(Tensor::of({0.1, 0.2, 0.4, 0.8}, {4}), Tensor::of({3, 0, -1, 1}, {4}, DType::I64), none), {}, {0.85});
  expect_values(loss(Tensor::of({0.5}, {}), Tensor::of({0}, {}, DType::I64), none), {}, {0});
  expect_values(loss(Tensor::empty({0, 3}, DType::F32), Tensor::empty({0, 3}, DType::I64), none), {0}, {});
  expect_values(loss(Tensor::empty({0, 3}, DType::F32), Tensor::empty({0, 3}, DType::I64), sum), {}, {0});
  EXPECT_EQ(test::user_error([&] {
              loss(Tensor::empty({2, 0}, DType::F32), Tensor::empty({2, 0}, DType::I64), none);
            }),
            "multilabel_margin_loss: there must be a class, there are 0");
  EXPECT_THROW(loss(x, Tensor::of({3, 0}, {2, 1}, DType::I64), none), UserError);
  EXPECT_THROW(loss(x, x, none), UserError);
  EXPECT_THROW(loss(Tensor::empty({1, 2, 2}, DType::F32), Tensor::empty({1, 2, 2}, DType::I64), none), UserError);
  EXPECT_THROW(loss(x, Tensor::of({0, -1, 4, 0, 0, 0, 0, 0}, {2, 4}, DType::I64), none), UserError) << "behind the end, as in PyTorch";
}

TEST_F(DenseRows, BagsLeaveThePaddingOut) {
  Tensor table = range({3, 2}), rows = Tensor::of({0, 2, 2, 1}, {4}, DType::I64), starts = Tensor::of({0, 2}, {2}, DType::I64);
  Expr sums = 0;
  expect_values(call1("embedding_bag", {table, rows, starts, false, sums}), {2, 2}, {4, 6, 6, 8});
  expect_values(call1("embedding_bag.padding_idx", {table, rows, starts, false, sums, false, Tensor(), false, Expr(-1)}), {2, 2},
                {0, 1, 2, 3});
}

TEST_F(DenseRows, UpsamplingAgreesWithItsDefinition) {
  Tensor x = Tensor::of({0, 4}, {1, 1, 2});
  expect_values(call1("upsample_nearest1d", {x, Sizes{Expr(3)}}), {1, 1, 3}, {0, 0, 4});
  expect_values(call1("upsample_linear1d", {x, Sizes{Expr(4)}, false}), {1, 1, 4}, {0, 1, 3, 4});
  expect_values(call1("upsample_linear1d", {x, Sizes{Expr(3)}, true}), {1, 1, 3}, {0, 2, 4});
}

TEST_F(DenseRows, PixelShuffleIsUndoneByUnshuffle) {
  Tensor x = range({4, 1, 2});
  Tensor y = call1("pixel_shuffle", {x, Expr(2)});
  expect_values(y, {1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7});
  expect_values(call1("pixel_unshuffle", {y, Expr(2)}), {4, 1, 2}, x.to_vector());
}

TEST_F(DenseRows, SolvesBroadcastAndInvert) {
  Tensor a = Tensor::of({0, 2, 1, 1}, {2, 2}), b = Tensor::of({2, 3, 4, 5}, {2, 2, 1});
  expect_values(call1("linalg_solve", {a, b}), {2, 2, 1}, {2, 1, 3, 2});
  expect_values(call1("linalg_inv", {a}), {2, 2}, {-0.5, 1, 0.5, 0});
  expect_values(call1("linalg_det", {a}), {}, {-2});
  EXPECT_THROW(call1("linalg_inv", {Tensor::of({1, 1, 1, 1}, {2, 2})}), UserError);
}

TEST_F(DenseRows, PivotsOutOfRangeAreRefused) {
  Tensor lu = Tensor::of({1, 0, 0, 1}, {2, 2}), pivots = Tensor::of({1, 7}, {2}, DType::I32);
  EXPECT_THROW(call1("linalg_lu_solve", {lu, pivots, lu}), UserError);
}

TEST_F(DenseRows, QrOfAMatrixMultipliesBack) {
  Tensor a = Tensor::of({3, 1, 4, 2, 0, 5}, {3, 2});
  auto r = call("linalg_qr", {a});
  expect_values(call1("mm", {r[0], r[1]}), {3, 2}, a.to_vector());
  expect_values(call1("mm", {transpose(r[0], 0, 1), r[0]}), {2, 2}, {1, 0, 0, 1});
}

TEST_F(DenseRows, MatrixExponentialOfARotation) {
  expect_values(call1("linalg_matrix_exp", {Tensor::of({0, -1, 1, 0}, {2, 2})}), {2, 2},
                {std::cos(1), -std::sin(1), std::sin(1), std::cos(1)});
}

TEST_F(DenseRows, GruKeepsItsStateWhenTheUpdateGateIsOpen) {
  // Gate biases: reset 0, update +inf-like, new 0.
  Tensor w = Tensor::full(std::vector<int64_t>{3, 1}, 0), b = Tensor::of({0, 50, 0}, {3});
  Tensor x = range({2, 1, 1}), h = Tensor::of({0.25}, {1, 1, 1});
  auto r = call("gru.input", {x, h, std::vector<Tensor>{w, w, b, b}, true, Expr(1), 0.0, false, false, false});
  expect_values(r[0], {2, 1, 1}, {0.25, 0.25});
  expect_values(r[1], {1, 1, 1}, {0.25});
}

TEST_F(DenseRows, CausalAttentionSeesThePastOnly) {
  Tensor q = Tensor::full(std::vector<int64_t>{1, 2, 1}, 0), v = Tensor::of({2, 4}, {1, 2, 1});
  expect_values(call1("scaled_dot_product_attention", {q, q, v, Tensor(), 0.0, true}), {1, 2, 1}, {2, 3});
  // A row that the mask hides altogether gives zeros.
  Tensor mask = Tensor::of({0, 0, 1, 1}, {2, 2}, DType::Bool);
  expect_values(call1("scaled_dot_product_attention", {q, q, v, mask}), {1, 2, 1}, {0, 3});
  // So does one whose scores all overflow to -inf.
  Tensor least = Tensor::of({-3e38, 1}, {1, 2, 1}), most = Tensor::full(std::vector<int64_t>{1, 2, 1}, 3e38);
  expect_values(call1("scaled_dot_product_attention", {least, most, v}), {1, 2, 1}, {0, 3});
}

}  // namespace
}  // namespace toroid::ops
