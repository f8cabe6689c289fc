// Rows that are compositions of others: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/reference.h"
#include "toroid/error.h"

namespace toroid::ops {
namespace {

using Values = std::vector<double>;
using Ts = std::vector<Tensor>;
using Ns = std::vector<Expr>;

class CompositeRows : public ::testing::Test {
 protected:
  ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

Arg<Tensor> n(int64_t v) { return Expr(v); }
Tensor row(std::initializer_list<double> v, DType dtype = DType::F32) { return Tensor::of(v, {static_cast<int64_t>(v.size())}, dtype); }
Values parts(const Tensor& t) { return call1("view_as_real", {t}).to_vector(); }

TEST_F(CompositeRows, Arrangements) {
  auto grid = call("meshgrid.indexing", {Ts{row({1, 2}), row({3, 4, 5})}, std::string("xy")});
  EXPECT_EQ(grid[0].sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(grid[0].to_vector(), (Values{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(grid[1].to_vector(), (Values{3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(call("meshgrid", {Ts{row({1, 2}), row({3, 4})}})[0].to_vector(), (Values{1, 1, 2, 2}));
  auto same = call("broadcast_tensors", {Ts{row({1, 2}), Tensor::of({3, 4}, {2, 1})}});
  EXPECT_EQ(same[0].to_vector(), (Values{1, 2, 1, 2}));
  EXPECT_EQ(same[1].to_vector(), (Values{3, 3, 4, 4}));
  EXPECT_EQ(call1("diff", {row({1, 4, 9, 16}), n(2)}).to_vector(), (Values{2, 2}));
  EXPECT_EQ(call1("diff", {row({1, 4, 9}), n(1), n(0), row({0})}).to_vector(), (Values{1, 3, 5}));
  EXPECT_EQ(call1("diag", {row({1, 2}), n(1)}).to_vector(), (Values{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  EXPECT_EQ(call1("diag_embed", {row({1, 2}), n(-1)}).to_vector(), (Values{0, 0, 0, 1, 0, 0, 0, 2, 0}));
  EXPECT_EQ(call1("diag", {Tensor::of({1, 2, 3, 4}, {2, 2})}).to_vector(), (Values{1, 4}));
  EXPECT_EQ(call1("pad_sequence", {Ts{row({1, 2, 3}), row({4})}, true, 9.0, std::string("left")}).to_vector(), (Values{1, 2, 3, 9, 9, 4}));
}

TEST_F(CompositeRows, Membership) {
  EXPECT_EQ(call1("isin.Tensor_Tensor", {row({1, 2, 3}), row({3, 1})}).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(call1("isin.Tensor_Scalar", {row({1, 2}), 2.0, false, true}).to_vector(), (Values{1, 0}));
  EXPECT_EQ(call1("_is_all_true", {row({1, 0}, DType::Bool)}).item(), 0);
  EXPECT_EQ(call1("_is_any_true", {row({1, 0}, DType::Bool)}).item(), 1);
  auto places = call("where", {Tensor::of({0, 1, 1, 0}, {2, 2}, DType::Bool)});
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].to_vector(), (Values{0, 1}));
  EXPECT_EQ(places[1].to_vector(), (Values{1, 0}));
}

void expect_near(const Tensor& t, const Values& want) {
  const Values got = t.to_vector();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i;
}

TEST_F(CompositeRows, WindowsAndFrequencies) {
  expect_near(call1("hann_window", {n(4)}), {0, 0.5, 1, 0.5});
  expect_near(call1("hann_window.periodic", {n(5), false, DType::F64}), {0, 0.5, 1, 0.5, 0});
  expect_near(call1("hamming_window", {n(2)}), {0.08, 1});
  expect_near(call1("hamming_window.periodic_alpha_beta", {n(2), true, 0.75, 0.25}), {0.5, 1});
  expect_near(call1("blackman_window", {n(2)}), {0, 1});
  expect_near(call1("bartlett_window", {n(4)}), {0, 0.5, 1, 0.5});
  expect_near(call1("kaiser_window.beta", {n(3), false, 2.0}), {1 / 2.2795853, 1, 1 / 2.2795853});
  expect_near(call1("hann_window", {n(1)}), {1});
  expect_near(call1("fft_fftfreq", {n(5)}), {0, 0.2, 0.4, -0.4, -0.2});
  expect_near(call1("fft_fftfreq", {n(4), 0.5}), {0, 0.5, -1, -0.5});
  expect_near(call1("fft_rfftfreq", {n(4)}), {0, 0.25, 0.5});
}

TEST_F(CompositeRows, Quantiles) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto of = [](const Tensor& x, double q, const char* how) { return call1("quantile.scalar", {x, q, {}, false, std::string(how)}).item(); };
  EXPECT_EQ(of(row({3, 1, 2, 4}), 0.5, "linear"), 2.5);
  EXPECT_EQ(of(row({3, 1, 2, 4}), 0.5, "nearest"), 3);
  EXPECT_EQ(of(row({3, 1, 2, 4}), 0.4, "lower"), 2);
  EXPECT_EQ(of(row({3, 1, 2, 4}), 0.4, "higher"), 3);
  EXPECT_EQ(of(row({3, 1, 2, 4}), 0.1, "midpoint"), 1.5);
  EXPECT_TRUE(std::isnan(of(row({3, nan, 2}), 0, "linear")));
  EXPECT_EQ(call1("nanquantile.scalar", {row({nan, 1, 3}), 0.5}).item(), 2);
  for (double q : {-3.0, 7.0, nan}) EXPECT_THROW(call1("quantile", {row({1, 4, 9}), row({0.5, q})}), UserError) << q;
  EXPECT_THROW(call1("quantile.scalar", {row({1, 2}), 1.5}), UserError);
  EXPECT_THROW(call1("quantile.scalar", {row({1, 2}, DType::BF16), 0.5}), UserError);
  EXPECT_THROW(call1("quantile.scalar", {Tensor::full(std::vector<int64_t>{0}, 0), 0.5}), UserError);
  Tensor both = call1("quantile", {Tensor::of({1, 2, 3, 6, 5, 4}, {2, 3}), row({0, 1}), n(1), true});
  EXPECT_EQ(both.sizes(), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(both.to_vector(), (Values{1, 4, 3, 6}));
  EXPECT_THROW(of(row({1, 2}), 0.5, "other"), UserError);
}

TEST_F(CompositeRows, NormsOfMatrices) {
  Tensor x = Tensor::of({1, -2, 3, 4}, {2, 2}), scale = Tensor::of({3, 0, 0, 4}, {2, 2});
  expect_near(call1("linalg_norm", {x}), {std::sqrt(30.0)});
  expect_near(call1("linalg_norm", {x, 1.0}), {6});
  expect_near(call1("linalg_norm", {x, 1.0, Ns{Expr(1)}}), {3, 7});
  expect_near(call1("linalg_matrix_norm", {x, std::numeric_limits<double>::infinity(), Ns{Expr(0), Expr(1)}, true}), {7});
  expect_near(call1("linalg_matrix_norm", {x, -std::numeric_limits<double>::infinity()}), {3});
  expect_near(call1("linalg_norm.ord_str", {x, std::string("fro")}), {std::sqrt(30.0)});
  expect_near(call1("linalg_norm.ord_str", {scale, std::string("nuc")}), {7});
  EXPECT_THROW(call1("linalg_norm", {Tensor::full(std::vector<int64_t>{2, 2, 2}, 1), 2.0}), UserError);
  EXPECT_THROW(call1("linalg_norm.ord_str", {Tensor::full(std::vector<int64_t>{2, 2, 2}, 1), std::string("fro")}), UserError);
  expect_near(call1("linalg_matrix_norm", {scale, 2.0}), {4});
  expect_near(call1("logdet", {scale}), {std::log(12.0)});
  EXPECT_THROW(call1("linalg_matrix_norm", {x, 3.0}), UserError);
}

TEST_F(CompositeRows, OtherNamesOfExportedPrograms) {
  Tensor a = Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3}), b = Tensor::of({1, 0, 0, 1, 1, 1}, {3, 2});
  EXPECT_EQ(call1("tensordot", {a, b, Ns{Expr(1), Expr(0)}, Ns{Expr(0), Expr(1)}}).to_vector(), (Values{15}));
  EXPECT_EQ(call1("tensordot", {a, b, Ns{Expr(1)}, Ns{Expr(0)}}).to_vector(), (Values{4, 5, 10, 11}));
  EXPECT_EQ(call1("tensordot", {a, Tensor::full(std::vector<int64_t>{1, 2}, 2), Ns{Expr(1)}, Ns{Expr(0)}}).dim(), 2)
      << "one element stands for all";
  EXPECT_THROW(call1("tensordot", {a, Tensor::full(std::vector<int64_t>{3, 2}, 1), Ns{Expr(0), Expr(1)}, Ns{Expr(0), Expr(1)}}), UserError);
  EXPECT_EQ(call1("diagflat", {Tensor::of({1, 2}, {2, 1})}).to_vector(), (Values{1, 0, 0, 2}));
  EXPECT_EQ(call1("trapezoid.dx", {a, 2.0}).to_vector(), (Values{8, 20}));
  EXPECT_EQ(call1("cumulative_trapezoid.dx", {a, 1.0, n(0)}).to_vector(), (Values{2.5, 3.5, 4.5}));
  auto distinct = call("unique_dim", {Tensor::of({1, 2, 1, 2, 0, 3}, {3, 2}), n(0)});
  EXPECT_EQ(distinct[1].to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ(distinct[2].to_vector(), (Values{1, 2}));
  EXPECT_EQ(call1("vander", {row({2, 3}), n(3)}).to_vector(), (Values{4, 2, 1, 9, 3, 1}));
  EXPECT_EQ(call("hsplit.array", {a, Ns{Expr(1)}})[1].to_vector(), (Values{2, 3, 5, 6}));
  EXPECT_EQ(call1("float_power.Tensor_Tensor", {row({2, 3}), row({3, 2})}).to_vector(), (Values{8, 9}));
}

TEST_F(CompositeRows, Detection) {
  // Overlaps: 2/3 of the first two boxes, 3/4 of the first and third, 1/2 of the second and third.
  Tensor boxes = Tensor::of({0, 0, 4, 4, 0, 0, 4, 6, 1, 0, 4, 4, 9, 9, 11, 11}, {4, 4});
  EXPECT_EQ(call1("torchvision.nms", {boxes, row({0.5, 0.4, 0.9, 0.1}), 0.6}).to_vector(), (Values{2, 1, 3}));
  EXPECT_EQ(call1("torchvision.nms", {boxes, row({0.5, 0.4, 0.9, 0.1}), 0.8}).to_vector(), (Values{2, 0, 1, 3}));
  // A ramp along the width: each bin's samples average to its middle, pixels lie at whole numbers.
  Tensor ramp = Tensor::of({0, 1, 2, 3, 0, 1, 2, 3}, {1, 1, 2, 4}), rois = Tensor::of({0, 0, 0, 4, 2}, {1, 5});
  auto bins = [&](bool aligned) { return call1("torchvision.roi_align", {ramp, rois, 0.5, n(1), n(2), n(2), aligned}); };
  EXPECT_EQ(bins(false).sizes(), (std::vector<int64_t>{1, 1, 1, 2}));
  expect_near(bins(false), {0.5, 1.5});
  expect_near(bins(true), {0.125, 1});
  EXPECT_THROW(call1("torchvision.roi_align", {ramp, rois, 0.5, n(1), n(2), n(-1), false}), UserError);
}

// As PyTorch's CPU kernels, whose weights have 16 bits; rounding the exact averages gives other bytes.
TEST_F(CompositeRows, AntialiasedBytes) {
  Values x;
  for (int i = 0; i < 42; ++i) x.push_back(i * i * 37 % 251);
  const Tensor image = Tensor::of(x, std::vector<int64_t>{1, 1, 6, 7}, DType::U8);
  auto shrunk = [&](const char* op) { return call1(op, {image, Ns{Expr(3), Expr(4)}, false, {}, {}}).to_vector(); };
  EXPECT_EQ(shrunk("_upsample_bilinear2d_aa"), (Values{68, 151, 140, 139, 107, 181, 146, 144, 126, 180, 157, 156}));
  EXPECT_EQ(shrunk("_upsample_bicubic2d_aa"), (Values{59, 153, 140, 139, 103, 189, 145, 141, 124, 184, 160, 157}));
}

// Rows 0 and 1 belong to the second matrix, row 2 to the third.
TEST_F(CompositeRows, RowsInGroupsHaveTheirMatrices) {
  Tensor rows = Tensor::of({1, 2, 3, 4, 5, 6}, {3, 2}), matrices = Tensor::of({0, 0, 1, 1, 10, 100}, {3, 2, 1});
  EXPECT_EQ(call1("_grouped_mm", {rows, matrices, row({0, 2, 3}, DType::I32)}).to_vector(), (Values{3, 7, 650}));
}

TEST_F(CompositeRows, FourierTransformsTakeLengthsAndNorms) {
  EXPECT_EQ(parts(call1("fft_fft", {row({1, 2, 3, 4})})), (Values{10, 0, -2, 2, -2, 0, -2, -2}));
  EXPECT_EQ(parts(call1("fft_rfft", {row({1, 2, 3, 4})})), (Values{10, 0, -2, 2, -2, 0}));
  EXPECT_EQ(parts(call1("fft_ihfft", {row({1, 2, 3, 4})})), (Values{2.5, 0, -0.5, -0.5, -0.5, 0}));
  EXPECT_EQ(parts(call1("fft_fft", {row({1, 1, 7}), n(2)})), (Values{2, 0, 0, 0}));
  EXPECT_EQ(parts(call1("fft_fft", {row({2, 2, 2, 2}), {}, n(-1), std::string("ortho")})), (Values{4, 0, 0, 0, 0, 0, 0, 0}));
  Tensor half = call1("fft_rfft", {row({1, 2, 3, 4})});
  EXPECT_EQ(call1("fft_irfft", {half}).to_vector(), (Values{1, 2, 3, 4}));
  Tensor plane = Tensor::of({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(parts(call1("fft_fftn", {plane})), (Values{10, 0, -2, 0, -4, 0, 0, 0}));
  EXPECT_EQ(parts(call1("fft_ifft2", {plane})), (Values{2.5, 0, -0.5, 0, -1, 0, 0, 0}));
  EXPECT_EQ(call1("fft_fftshift", {row({0, 1, 2, 3, 4})}).to_vector(), (Values{3, 4, 0, 1, 2}));
  EXPECT_EQ(call1("fft_ifftshift", {row({3, 4, 0, 1, 2})}).to_vector(), (Values{0, 1, 2, 3, 4}));
  EXPECT_THROW(call1("fft_fft", {row({1, 2}), {}, n(-1), std::string("other")}), UserError);
}

// The inverse gives the signal back.
TEST_F(CompositeRows, ShortTimeTransforms) {
  Tensor x = row({1, 2, 3, 4, 5, 6, 7, 8}), window = row({1, 1, 1, 1});
  Tensor spectra = call1("stft.center", {x, n(4), n(2), n(4), window, true, std::string("reflect"), false, {}, true});
  ASSERT_EQ(spectra.sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(parts(call1("select.int", {spectra, n(0), n(0)})), (Values{8, 0, 10, 0, 18, 0, 26, 0, 28, 0}));
  Tensor back = call1("istft", {spectra, n(4), n(2), n(4), window});
  ASSERT_EQ(back.sizes(), x.sizes());
  auto got = back.to_vector(), want = x.to_vector();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
}

TEST_F(CompositeRows, WhatHasNoElementsIsRefusedOrEmpty) {
  Tensor x = Tensor::full(std::vector<int64_t>{2, 6, 6}, 1);
  EXPECT_THROW(call1("fft_rfftn", {x, Ns{0}, {}, {}}), UserError);
  EXPECT_THROW(call1("fft_hfftn", {Tensor::full({}, 1)}), UserError);
  EXPECT_EQ(call("histogram.bins_tensor", {row({1, 1}), row({1})})[0].numel(), 0);
  EXPECT_THROW(call1("scaled_dot_product_attention", {x, x, row({1}), {}, 0.0, false, {}, true}), UserError);
  Tensor flat = Tensor::full(std::vector<int64_t>{6, 6}, 1);
  EXPECT_THROW(call1("scaled_dot_product_attention", {x, x, flat, {}, 0.0, false, {}, true}), UserError);
  EXPECT_THROW(call1("take", {x, row({1, 0}, DType::Bool)}), UserError);
  EXPECT_THROW(call1("index_put", {x, Ts{row({0, 1}, DType::I64)}, Tensor::full(std::vector<int64_t>{3, 6, 6}, 1)}), UserError);
}

TEST_F(CompositeRows, WritingFormsWithNamesOfTheirOwn) {
  for (const char* name : {"pow_.Scalar", "pow_.Tensor", "floor_divide_.Tensor", "__iand__.Tensor", "ldexp_"}) {
    const Op* op = table().find(name);
    ASSERT_TRUE(op && op->inplace_of) << name;
    EXPECT_TRUE(op->schema.params[0].mutated) << name;
  }
}

}  // namespace
}  // namespace toroid::ops
