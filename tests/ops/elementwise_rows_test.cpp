// Rows of the pointwise, special, creation, complex and random families.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/reference.h"
#include "toroid/random.h"

namespace toroid::ops {
namespace {

class ElementwiseRows : public ::testing::Test {
 protected:
  static std::vector<double> run(const char* name, CallArgs args) { return evaluate(get(name), std::move(args))[0].to_vector(); }
  ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

using Values = std::vector<double>;

// Every pointwise row gives a result, or says to the caller what it refuses: no formula may meet a dtype that it was not written for.
TEST_F(ElementwiseRows, FormulasTakeEveryDType) {
  for (const Op& op : table().rows()) {
    if (!op.formula) continue;
    for (DType dtype : {DType::F32, DType::F16, DType::I32, DType::U8, DType::Bool}) {
      CallArgs args;
      for (const Param& p : op.schema.params) {
        if (p.type == ParamType::Tensor)
          args.push_back(Tensor::of({1, 0, 1}, {3}, dtype));
        else if (p.has_default && !(p.type == ParamType::Scalar && p.optional))
          args.push_back(p.default_value);
        else if (p.type == ParamType::Str)
          args.push_back(std::string("none"));
        else if (p.type == ParamType::DType)
          args.push_back(DType::F32);
        else
          args.push_back(Expr(1));
      }
      try {
        EXPECT_EQ(evaluate(op, args)[0].numel(), 3) << op.name;
      } catch (const UserError&) {
      } catch (const InternalError& e) {
        ADD_FAILURE() << op.name << " of " << name_of(dtype) << ": " << e.what();
      }
    }
  }
}

TEST_F(ElementwiseRows, NumbersPromoteByCategoryOnly) {
  Tensor half = Tensor::of({1, 2}, {2}, DType::F16), integer = Tensor::of({1, 2}, {2}, DType::I32);
  EXPECT_EQ(evaluate(get("add.Scalar"), {half, 2.5})[0].dtype(), DType::F16);
  EXPECT_EQ(evaluate(get("mul.Scalar"), {integer, 2.5})[0].dtype(), DType::F32);
  EXPECT_EQ(evaluate(get("add.Tensor"), {integer, Expr(3)})[0].dtype(), DType::I32);
  EXPECT_EQ(evaluate(get("div.Tensor"), {integer, integer})[0].dtype(), DType::F32);
  EXPECT_EQ(evaluate(get("where.ScalarOther"), {Tensor::of({1, 0}, {2}, DType::Bool), half, 0.5})[0].dtype(), DType::F16);
}

// Pairs and results are PyTorch 2.15.0's.
TEST_F(ElementwiseRows, NextNumbersAreThoseOfTheDtype) {
  const double inf = HUGE_VAL;
  struct Numbers {
    DType dtype;
    double largest, smallest, normal, step;  // the greatest and least numbers, the least normal one, the distance above 1
  };
  for (const Numbers& h :
       {Numbers{DType::F16, 65504, 0x1p-24, 0x1p-14, 0x1p-10}, Numbers{DType::BF16, 0x1.FEp127, 0x1p-133, 0x1p-126, 0x1p-7},
        Numbers{DType::F32, 0x1.FFFFFEp127, 0x1p-149, 0x1p-126, 0x1p-23}}) {
    const Values from = {0, -0., inf, -inf, 1, 1, -1, -1, 1.5, h.largest, h.normal, h.normal, h.normal / 2, h.smallest, -h.smallest, 2, 0};
    const Values to = {1, -1, 0, 0, 2, 0, 0, -2, 2, inf, 0, 1, 0, 0, 1, 2, -0.};
    const Values want = {h.smallest,
                         -h.smallest,
                         h.largest,
                         -h.largest,
                         1 + h.step,
                         1 - h.step / 2,
                         -1 + h.step / 2,
                         -1 - h.step,
                         1.5 + h.step,
                         inf,
                         h.normal - h.smallest,
                         h.normal + h.smallest,
                         h.normal / 2 - h.smallest,
                         0,
                         -0.,
                         2,
                         -0.};
    const auto n = static_cast<int64_t>(from.size());
    const Tensor a = Tensor::of(from, std::vector<int64_t>{n}, h.dtype), b = Tensor::of(to, std::vector<int64_t>{n}, h.dtype);
    const Tensor got = evaluate(get("nextafter"), {a, b})[0];
    EXPECT_EQ(got.dtype(), h.dtype);
    EXPECT_EQ(got.to_vector(), want) << name_of(h.dtype);
    const Tensor nan = Tensor::of({NAN}, {1}, h.dtype), one = Tensor::of({1}, {1}, h.dtype);
    EXPECT_TRUE(std::isnan(evaluate(get("nextafter"), {nan, one})[0].item()) &&
                std::isnan(evaluate(get("nextafter"), {one, nan})[0].item()));
  }
}

// All numbers of both half dtypes, each towards both ends: there is none between a number and the next one.
TEST_F(ElementwiseRows, NextNumbersLeaveNoGap) {
  for (DType dtype : {DType::F16, DType::BF16}) {
    std::vector<uint16_t> bits(0x7C01);  // all from 0 to infinity in F16, as many in BF16
    if (dtype == DType::BF16) bits.resize(0x7F81);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    const std::vector<int64_t> sizes = {static_cast<int64_t>(bits.size())};
    const Tensor all = Tensor::from_blob(bits.data(), sizes, dtype);
    const Tensor up = evaluate(get("nextafter"), {all, Tensor::full(sizes, HUGE_VAL, dtype)})[0];
    const Tensor down = evaluate(get("nextafter"), {all, Tensor::full(sizes, -HUGE_VAL, dtype)})[0];
    const Values values = all.to_vector(), above = up.to_vector(), below = down.to_vector();
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      ASSERT_EQ(above[i], values[i + 1]) << name_of(dtype) << " " << i;
      ASSERT_EQ(below[i + 1], values[i]) << name_of(dtype) << " " << i;
    }
  }
}

TEST_F(ElementwiseRows, SquaresOfTruthValuesAreNumbers) {
  const Tensor x = Tensor::of({1, 0}, {2}, DType::Bool), y = evaluate(get("square"), {x})[0];
  EXPECT_EQ(y.dtype(), DType::I64);
  EXPECT_EQ(y.to_vector(), (Values{1, 0}));
}

TEST_F(ElementwiseRows, ScaledProductsAreScaledFirst) {
  const Tensor z = Tensor::of({1, 2}, {2}), a = Tensor::of({1e30, 3}, {2}), b = Tensor::of({1e30, 4}, {2});
  EXPECT_EQ(run("addcmul", {z, a, b, 0.}), (Values{1, 2}));
  EXPECT_EQ(run("addcmul", {z, a, b, 1e-30})[0], 1 + double(1e30f * 1e-30f) * 1e30f);
}

TEST_F(ElementwiseRows, FloatPowerIsInF64) {
  Tensor x = Tensor::of({2, 3}, {2}, DType::I32);
  EXPECT_EQ(evaluate(get("float_power.Tensor_Scalar"), {x, 2.0})[0].dtype(), DType::F64);
  EXPECT_EQ(run("float_power.Tensor_Tensor", {x, x}), (Values{4, 27}));
  EXPECT_EQ(run("float_power.Scalar", {Expr(2), x}), (Values{4, 8}));
}

TEST_F(ElementwiseRows, DivisionRoundsAsAsked) {
  Tensor a = Tensor::of({-7, 7}, {2}, DType::I64), b = Tensor::of({2, -2}, {2}, DType::I64);
  EXPECT_EQ(run("div.Tensor_mode", {a, b, std::string("floor")}), (Values{-4, -4}));
  EXPECT_EQ(run("div.Tensor_mode", {a, b, std::string("trunc")}), (Values{-3, -3}));
  EXPECT_EQ(run("div.Tensor_mode", {a, b, std::monostate{}}), (Values{-3.5, -3.5}));
  EXPECT_EQ(run("remainder.Tensor", {a, b}), (Values{1, -1}));
  EXPECT_EQ(run("fmod.Tensor", {a, b}), (Values{-1, 1}));
  EXPECT_THROW(run("div.Tensor_mode", {a, b, std::string("up")}), UserError);
}

TEST_F(ElementwiseRows, ClampWithEitherBoundAbsent) {
  Tensor x = Tensor::of({-2, 0, 2}, {3}), low = Tensor::of({-1}, {1}), high = Tensor::of({1}, {1});
  EXPECT_EQ(run("clamp.Tensor", {x, std::monostate{}, high}), (Values{-2, 0, 1}));
  EXPECT_EQ(run("clamp.Tensor", {x, low}), (Values{-1, 0, 2}));
  EXPECT_EQ(run("clamp", {x, -1.0, 1.0}), (Values{-1, 0, 1}));
  EXPECT_THROW(run("clamp", {x}), UserError);
}

// PyTorch's values. An eps below 0 is none.
TEST_F(ElementwiseRows, LogitBackward) {
  const Tensor x = Tensor::of({-0.5, 0, 0.25, 0.5, 0.75, 1, 1.5, std::nan("")}, {8}), g = Tensor::full({8}, -3);
  const auto expect = [&](const CallArgs& args, const Values& expected) {
    const Values got = run("logit_backward", args);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) << i << ": " << got[i];
  };
  const double nan = std::nan(""), inf = HUGE_VAL;
  expect({g, x}, {nan, -inf, -16, -12, -16, -inf, nan, nan});
  expect({g, x, -1.0}, {nan, -inf, -16, -12, -16, -inf, nan, nan});
  expect({g, x, 0.25}, {0, 0, -16, -12, -16, 0, 0, nan});
  expect({g, x, 0.0}, {0, -inf, -16, -12, -16, -inf, 0, nan});
  EXPECT_EQ(evaluate(get("logit_backward"), {g, Tensor::of({1}, {1}, DType::F16)})[0].dtype(), DType::F32);
  EXPECT_EQ(table().find("logit_backward_"), nullptr) << "a row of a gradient by self has no form in place";
}

// PyTorch's values.
TEST_F(ElementwiseRows, GeluBackward) {
  const Tensor x = Tensor::of({-100, -2, -0.5, 0, 0.5, 2, 100}, {7}, DType::F64), g = Tensor::full({7}, -3, DType::F64);
  const auto expect = [&](const char* approximate, const Values& expected) {
    const Values got = run("gelu_backward", {g, x, std::string(approximate)});
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << approximate << " " << i;
  };
  expect("none", {0, 0.2556954032345907, -0.39751462603151133, -1.5, -2.602485373968489, -3.255695403234591, -3});
  expect("tanh", {0, 0.2582977698708549, -0.39789028939607296, -1.5, -2.6021097106039273, -3.258297769870855, -3});
  EXPECT_EQ(evaluate(get("gelu_backward"), {Tensor::full({3, 1}, 1), Tensor::full({2}, 1, DType::F16)})[0].dtype(), DType::F32);
  EXPECT_THROW(run("gelu_backward", {g, x, std::string("sigmoid")}), UserError);
  EXPECT_EQ(table().find("gelu_backward_"), nullptr) << "a row of a gradient by self has no form in place";
}

// Against PyTorch's values. The scale is 0.5, and the levels 0 to 3 stand for -0.5 to 1.
TEST_F(ElementwiseRows, FakeQuantization) {
  const double inf = HUGE_VAL;
  const Tensor x = Tensor::of({-3, -0.75, -0.25, 0.24, 0.25, 0.75, 1.25, 1.26, std::nan(""), inf, -inf}, {11});
  const Values expected = {-0.5, -0.5, 0, 0, 0, 1, 1, 1, -0.5, 1, -0.5}, inside = {0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0};
  const CallArgs numbers = {x, 0.5, Expr(1), Expr(0), Expr(3)};
  EXPECT_EQ(run("fake_quantize_per_tensor_affine", numbers), expected);
  const auto both = evaluate(get("fake_quantize_per_tensor_affine_cachemask"), numbers);
  EXPECT_EQ(both[0].to_vector(), expected);
  EXPECT_EQ(both[1].dtype(), DType::Bool);
  EXPECT_EQ(both[1].to_vector(), inside);
  const Tensor scale = Tensor::of({0.5}, {1}), zero = Tensor::of({1}, {1}, DType::I32);
  EXPECT_EQ(run("fake_quantize_per_tensor_affine.tensor_qparams", {x, scale, zero, Expr(0), Expr(3)}), expected);
  for (double on : {1, 0}) {
    const auto masked = evaluate(get("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"),
                                 {x, scale, zero, Tensor::of({on}, {1}, DType::I64), Expr(0), Expr(3)});
    EXPECT_EQ(masked[1].to_vector(), on ? inside : Values(11, 1));
    EXPECT_EQ(masked[0].to_vector()[0], on ? -0.5 : -3);
  }
  const Tensor f64 = Tensor::of({0.15, 0.25}, {2}, DType::F64);
  EXPECT_EQ(run("fake_quantize_per_tensor_affine", {f64, 0.1, Expr(0), Expr(-128), Expr(127)}),
            (Values{0.20000000298023224, 0.20000000298023224}))
      << "scales are f32";
}

TEST_F(ElementwiseRows, FakeQuantizationOfChannels) {
  const Tensor x = Tensor::of({0.3, -0.8, 2, 0.3, -0.8, 2}, {2, 3}), scale = Tensor::of({0.5, 0.25}, {2}),
               zero = Tensor::of({0, 1}, {2}, DType::I32);
  const CallArgs args = {x, scale, zero, Expr(0), Expr(-2), Expr(3)};
  const Values expected = {0.5, -1, 1.5, 0.25, -0.75, 0.5};
  EXPECT_EQ(run("fake_quantize_per_channel_affine", args), expected);
  const auto both = evaluate(get("fake_quantize_per_channel_affine_cachemask"), args);
  EXPECT_EQ(both[0].to_vector(), expected);
  EXPECT_EQ(both[1].to_vector(), (Values{1, 1, 0, 1, 1, 0}));
  EXPECT_THROW(run("fake_quantize_per_channel_affine", {x, scale, zero, Expr(1), Expr(-2), Expr(3)}), UserError) << "3 channels, 2 scales";
  EXPECT_THROW(run("fake_quantize_per_channel_affine", {x, scale, zero, Expr(-2), Expr(-2), Expr(3)}), UserError);
}

TEST_F(ElementwiseRows, FakeQuantizationRefuses) {
  const Tensor x = Tensor::of({1, 2}, {2});
  const auto quantize = [&](const Tensor& t, int zero, int low, int high) {
    return run("fake_quantize_per_tensor_affine", {t, 0.5, Expr(zero), Expr(low), Expr(high)});
  };
  EXPECT_THROW(quantize(x, 9, 0, 3), UserError) << "a zero point outside of the limits";
  EXPECT_THROW(quantize(x, 1, 3, 0), UserError);
  EXPECT_THROW(quantize(Tensor::of({1, 2}, {2}, DType::I32), 1, 0, 3), UserError);
  EXPECT_THROW(run("fake_quantize_per_tensor_affine.tensor_qparams", {x, x, x, Expr(0), Expr(3)}), UserError) << "two scales";
}

TEST_F(ElementwiseRows, Ranges) {
  EXPECT_EQ(run("arange.start_step", {Expr(5), Expr(0), Expr(-2)}), (Values{5, 3, 1}));
  EXPECT_EQ(run("arange.start_step", {0.0, 1.0, 0.25}), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(run("linspace", {0.0, 1.0, Expr(5)}), (Values{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(run("logspace", {0.0, 2.0, Expr(3), 10.0}), (Values{1, 10, 100}));
  EXPECT_EQ(run("eye.m", {Expr(2), Expr(3)}), (Values{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(run("one_hot", {Tensor::of({1, 0}, {2}, DType::I64), Expr(2)}), (Values{0, 1, 1, 0}));
  EXPECT_THROW(run("arange.start_step", {Expr(0), Expr(5), Expr(-1)}), UserError);
  EXPECT_THROW(run("full", {std::vector<Expr>{-1}, 1.0}), UserError);
}

// The count in the type rule agrees with a count one by one.
TEST_F(ElementwiseRows, TriangleIndices) {
  for (int64_t rows = 0; rows < 5; ++rows)
    for (int64_t columns = 0; columns < 5; ++columns)
      for (int64_t offset = -6; offset < 7; ++offset) {
        Values lower, upper;
        for (int side = 0; side < 2; ++side)
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < columns; ++c) {
              auto v = static_cast<double>(side == 0 ? r : c);
              if (c - r <= offset) lower.push_back(v);
              if (c - r >= offset) upper.push_back(v);
            }
        EXPECT_EQ(run("tril_indices", {Expr(rows), Expr(columns), Expr(offset)}), lower);
        EXPECT_EQ(run("triu_indices", {Expr(rows), Expr(columns), Expr(offset)}), upper);
      }
}

TEST_F(ElementwiseRows, FourierTransformsInvert) {
  Tensor x = Tensor::of({1, 4, -2, 0.5, 3, 7}, {2, 3}, DType::F64);
  for (int64_t mode : {0, 1, 2}) {
    Tensor spectrum = evaluate(get("_fft_r2c"), {x, std::vector<Expr>{0, 1}, Expr(mode), true})[0];
    EXPECT_EQ(spectrum.sizes(), (std::vector<int64_t>{2, 2}));
    Tensor back = evaluate(get("_fft_c2r"), {spectrum, std::vector<Expr>{0, 1}, Expr(mode == 1 ? 1 : 2 - mode), Expr(3)})[0];
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(back.to_vector()[i], x.to_vector()[i], 1e-12);
  }
  EXPECT_THROW(run("_fft_c2r", {x, std::vector<Expr>{1}, Expr(0), Expr(3)}), UserError);
}

TEST_F(ElementwiseRows, ComplexArithmetic) {
  Tensor re = Tensor::of({3, 0}, {2}), im = Tensor::of({4, -1}, {2});
  Tensor z = evaluate(get("complex"), {re, im})[0];
  EXPECT_EQ(run("abs", {z}), (Values{5, 1}));
  EXPECT_EQ(run("view_as_real", {evaluate(get("mul.Tensor"), {z, z})[0]}), (Values{-7, 24, -1, 0}));
  EXPECT_EQ(run("imag", {evaluate(get("_conj"), {z})[0]}), (Values{-4, 1}));
  EXPECT_THROW(evaluate(get("add.Tensor"), {z, z, 2.0}), UserError);
}

TEST_F(ElementwiseRows, RandomNumbersFollowTheSeed) {
  auto draw = [&](const char* name, CallArgs args) {
    manual_seed(7);
    return run(name, args);
  };
  std::vector<Expr> many = {20000};
  Tensor ones = Tensor::full(std::vector<int64_t>{20000}, 1);
  auto mean = [](const Values& v) {
    double sum = 0;
    for (double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  };
  EXPECT_EQ(draw("rand", {many}), draw("rand", {many}));
  EXPECT_NEAR(mean(draw("rand", {many})), 0.5, 0.02);
  EXPECT_NEAR(mean(draw("randn", {many})), 0, 0.04);
  EXPECT_NEAR(mean(draw("bernoulli.p", {ones, 0.25})), 0.25, 0.02);
  EXPECT_NEAR(mean(draw("exponential", {ones, 2.0})), 0.5, 0.03);
  EXPECT_NEAR(mean(draw("geometric", {ones, 0.25})), 4, 0.15);
  EXPECT_NEAR(mean(draw("dropout", {ones, 0.25, true})), 1, 0.03);
  EXPECT_NEAR(mean(draw("alpha_dropout", {ones, 0.0, true})), 1, 1e-6);
  Values dice = draw("randint.low", {Expr(1), Expr(7), many});
  EXPECT_EQ(*std::min_element(dice.begin(), dice.end()), 1);
  EXPECT_EQ(*std::max_element(dice.begin(), dice.end()), 6);
  Values order = draw("randperm", {Expr(50)});
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<double>(i));
  Tensor weights = Tensor::of({0, 1, 3}, {3});
  Values picked = draw("multinomial", {weights, Expr(4000), true});
  EXPECT_NEAR(mean(picked), 1.75, 0.04);
  EXPECT_EQ(std::count(picked.begin(), picked.end(), 0.0), 0);
}

}  // namespace
}  // namespace toroid::ops
