// Rows of the view, reduction, scan, sort and index families: values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "ops/reference.h"

namespace toroid::ops {
namespace {

using Values = std::vector<double>;

class ShapeRows : public ::testing::Test {
 protected:
  ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

Tensor counting(std::initializer_list<int64_t> sizes, DType dtype = DType::F32) {
  Tensor t = Tensor::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) store_number(t.raw_data() + i * static_cast<int64_t>(size_of(dtype)), dtype, Number::of(i));
  return t;
}
Tensor integers(std::initializer_list<double> v) { return Tensor::of(v, {static_cast<int64_t>(v.size())}, DType::I64); }
Arg<Tensor> n(int64_t v) { return Expr(v); }
using Ns = std::vector<Expr>;
using Ts = std::vector<Tensor>;

// What writing `value` through a view of `base` makes of it.
Tensor write_through(const char* name, CallArgs args, size_t result, const Tensor& value) {
  const Op& op = get(name);
  args = complete(op, args);
  return op.write_back(CallReader(op, args), result, value);
}

TEST_F(ShapeRows, SlicesClampLikePython) {
  Tensor x = counting({5});
  EXPECT_EQ(call1("slice.Tensor", {x, n(0), n(-2)}).to_vector(), (Values{3, 4}));
  EXPECT_EQ(call1("slice.Tensor", {x, n(0), n(-9), n(9), n(2)}).to_vector(), (Values{0, 2, 4}));
  EXPECT_EQ(call1("slice.Tensor", {x, n(0), n(4), n(1)}).numel(), 0);
}

TEST_F(ShapeRows, ReshapeIndexKeepsCorrespondingDimensionsSimple) {
  Expr s = sym::symbol("s", 2, 1000), i = sym::loop_symbol("i", s), j = sym::loop_symbol("j", 64);
  TensorType type{DType::F32, {s, 4, 16}, {}};
  std::vector<Arg<const TensorType*>> args = {&type, Ns{s, Expr(64)}};
  auto index = get("view").index_map(TypeReader(get("view"), args), 0, {i, j});
  ASSERT_EQ(index.size(), 3u);
  EXPECT_EQ(index[0], i);
  EXPECT_EQ(index[1], sym::floor_div(j, 16));
  EXPECT_EQ(index[2], sym::mod(j, 16));
}

TEST_F(ShapeRows, WritesThroughViews) {
  Tensor x = counting({2, 4}), zero = Tensor::full(std::vector<int64_t>{2, 2}, 0);
  EXPECT_EQ(write_through("slice.Tensor", {x, n(1), n(0), n(4), n(2)}, 0, zero).to_vector(), (Values{0, 1, 0, 3, 0, 5, 0, 7}));
  EXPECT_EQ(write_through("split.Tensor", {x, n(2), n(1)}, 1, zero).to_vector(), (Values{0, 1, 0, 0, 4, 5, 0, 0}));
  EXPECT_EQ(write_through("select.int", {x, n(1), n(-1)}, 0, Tensor::of({9, 8}, {2})).to_vector(), (Values{0, 1, 2, 9, 4, 5, 6, 8}));
  EXPECT_EQ(write_through("diagonal", {x, n(1)}, 0, Tensor::of({9, 8}, {2})).to_vector(), (Values{0, 9, 2, 3, 4, 5, 8, 7}));
  EXPECT_EQ(write_through("as_strided", {x, Ns{2}, Ns{3}, n(1)}, 0, Tensor::of({9, 8}, {2})).to_vector(), (Values{0, 9, 2, 3, 8, 5, 6, 7}));
  EXPECT_EQ(write_through("t", {x}, 0, Tensor::of({0, 4, 1, 5, 2, 6, 3, 9}, {4, 2})).to_vector(), (Values{0, 1, 2, 3, 4, 5, 6, 9}));
}

TEST_F(ShapeRows, CombinationsAreInTheOrderOfPlaces) {
  const Tensor x = counting({4});
  EXPECT_EQ(call1("combinations", {x}).to_vector(), (Values{0, 1, 0, 2, 0, 3, 1, 2, 1, 3, 2, 3}));
  EXPECT_EQ(call1("combinations", {x, n(3)}).to_vector(), (Values{0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3}));
  EXPECT_EQ(call1("combinations", {counting({2}), n(3), true}).to_vector(), (Values{0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1}));
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(call1("combinations", {x, n(0)}).sizes(), (Dims{0}));
  EXPECT_EQ(call1("combinations", {counting({1}), n(3)}).sizes(), (Dims{0, 3}));
  EXPECT_EQ(call1("combinations", {counting({0}), n(2), true}).sizes(), (Dims{0, 2}));
  EXPECT_EQ(test::user_error([&] {
              call1("combinations", {counting({2, 2})});
            }),
            "combinations: self must be a vector, it has 2 dimensions");
  EXPECT_EQ(test::user_error([&] { call1("combinations", {x, n(-1)}); }), "combinations: r is -1; it must be 0 or more");
}

// Of open sizes the count is a formula, which must be that of each size, those below r included.
TEST_F(ShapeRows, CombinationsOfOpenSizesAreCounted) {
  const Op& op = get("combinations");
  const Expr s = sym::symbol("s", 0, 1000);
  const TensorType type{DType::F32, {s}, {}};
  for (const bool repeated : {false, true})
    for (const int64_t r : {1, 2, 3, 4}) {
      const std::vector<Arg<const TensorType*>> args = {&type, Expr(r), repeated};
      const Expr count = infer(op, args, {}, {}).at(0).sizes.at(0);
      for (const int64_t size : {0, 1, 2, 3, 7}) {
        const int64_t at_size = sym::evaluate(count, [size](const auto&) { return size; });
        EXPECT_EQ(at_size, call1("combinations", {counting({size}), n(r), repeated}).sizes()[0]) << r << " of " << size;
      }
    }
}

TEST_F(ShapeRows, ChunkGivesFewerPartsWhenTheyDoNotFit) {
  auto parts = call("chunk", {counting({5}), n(4)});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].to_vector(), (Values{4}));
}

TEST_F(ShapeRows, IndicesApartPutTheirDimensionsFirst) {
  Tensor x = counting({2, 3, 4});
  Tensor y = call1("index.Tensor", {x, Ts{integers({1, 0, -1}), Tensor(), integers({0, 3, 1})}});
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(y.to_vector(), (Values{12, 16, 20, 3, 7, 11, 13, 17, 21}));
  EXPECT_THROW(call1("index.Tensor", {x, Ts{integers({2})}}), UserError);
}

TEST_F(ShapeRows, MasksPickAndPut) {
  Tensor x = counting({2, 2}), mask = Tensor::of({1, 0, 0, 1}, {2, 2}, DType::Bool);
  EXPECT_EQ(call1("index.Tensor", {x, Ts{mask}}).to_vector(), (Values{0, 3}));
  EXPECT_EQ(call1("index_put", {x, Ts{mask}, Tensor::of({5, 6}, {2})}).to_vector(), (Values{5, 1, 2, 6}));
  EXPECT_EQ(call1("masked_scatter", {x, mask, Tensor::of({7, 8, 9}, {3})}).to_vector(), (Values{7, 1, 2, 8}));
}

TEST_F(ShapeRows, AccumulationSeesEveryIndex) {
  Tensor zero = Tensor::full(std::vector<int64_t>{3}, 0), ones = Tensor::full(std::vector<int64_t>{4}, 1);
  EXPECT_EQ(call1("index_add", {zero, n(0), integers({0, 2, 2, 2}), ones}).to_vector(), (Values{1, 0, 3}));
  EXPECT_EQ(call1("index_add", {zero, n(0), integers({0, 2, 2, 2}), ones, 0.5}).to_vector(), (Values{0.5, 0, 1.5}));
  const Tensor none = integers({0, 0, 0});
  EXPECT_EQ(call1("index_add", {none, n(0), integers({1, 1}), integers({4, 5}), n(-2)}).to_vector(), (Values{0, -18, 0}));
  EXPECT_THROW(call1("index_add", {none, n(0), integers({1, 1}), integers({4, 5}), 0.5}), UserError);
  EXPECT_EQ(call1("scatter_reduce.two", {zero, n(0), integers({0, 1, 1, 0}), counting({4}), std::string("mean"), false}).to_vector(),
            (Values{1.5, 1.5, 0}));
}

// An index without dimensions picks one element of the source, which must be there.
TEST_F(ShapeRows, ScattersReadNoSourceThatIsEmpty) {
  const Tensor number = Tensor::full(std::vector<int64_t>{}, 3), index = Tensor::full(std::vector<int64_t>{}, 0, DType::I64);
  const Tensor none = Tensor::full(std::vector<int64_t>{0}, 0), one = Tensor::full(std::vector<int64_t>{1}, 4);
  EXPECT_EQ(call1("scatter_add", {number, n(0), index, one}).to_vector(), Values{7});
  for (const char* op : {"scatter_add", "scatter.src"})
    EXPECT_EQ(test::user_error([&] {
                call1(op, {number, n(0), index, none});
              }),
              std::string(op) + ": the index has size 1 in dimension 0, the source 0");
  EXPECT_THROW(call1("scatter_reduce.two", {number, n(0), index, none, std::string("sum"), true}), UserError);
  EXPECT_EQ(call1("scatter_add", {number, n(0), Tensor::full(std::vector<int64_t>{0}, 0, DType::I64), none}).to_vector(), Values{3});
}

TEST_F(ShapeRows, ExtremaTakeTheFirstAndNanWins) {
  Tensor x = Tensor::of({1, 3, 3, 2}, {4}), with_nan = Tensor::of({1, NAN, 3, NAN}, {4});
  EXPECT_EQ(call1("argmax", {x}).item(), 1);
  EXPECT_EQ(call1("argmin", {with_nan}).item(), 1);
  EXPECT_TRUE(std::isnan(call1("amax", {with_nan}).item()));
  EXPECT_THROW(call1("amax", {Tensor::empty({0}, DType::F32)}), UserError);
}

TEST_F(ShapeRows, TheMaximumOfNothingIsTheLowestValueWhereThatIsAskedFor) {
  const auto of_nothing = [](DType t) { return call1("amax", {Tensor::empty({2, 0}, t), Ns{1}, false, true}).to_vector(); };
  EXPECT_EQ(of_nothing(DType::F32), (Values{-INFINITY, -INFINITY}));
  EXPECT_EQ(of_nothing(DType::I8), (Values{-128, -128}));
  EXPECT_EQ(of_nothing(DType::I64), (Values{-9223372036854775808.0, -9223372036854775808.0}));
  EXPECT_EQ(of_nothing(DType::U8), (Values{0, 0}));
  EXPECT_EQ(of_nothing(DType::Bool), (Values{0, 0}));
  EXPECT_EQ(call1("amax", {counting({3}), Ns{}, false, true}).item(), 2);
}

TEST_F(ShapeRows, WrongRanksAreRefusedAsWrongSizesAre) {
  const auto said = [](const char* op, CallArgs args) { return test::user_error([&] { call(op, std::move(args)); }); };
  const auto expect = [&](const char* op, const CallArgs& args, const char* part) {
    EXPECT_TRUE(test::contains(said(op, args), part)) << op << ": " << said(op, args);
  };
  const Tensor x = counting({1, 2, 4}), w = counting({3, 2, 2}), boxes = counting({3, 4}), rows = integers({0, 1, 1}),
               table = counting({2, 2});
  const Tensor flat = counting({3}), deep = counting({3, 1}), edges = counting({2, 2});
  for (const Tensor& bias : {counting({2}), deep, Tensor::full(std::vector<int64_t>{}, 1)})
    expect("conv1d", {x, w, bias}, "must have one number for each of 3 channels");
  for (const Tensor& scores : {counting({2}), deep})
    expect("torchvision.nms", {boxes, scores, 0.5}, "expected boxes [n, 4] and a score for each");
  for (const Tensor& wrong : {deep, flat, counting({3, 4, 1})})
    expect("torchvision.nms", {wrong, flat, 0.5}, "expected boxes [n, 4] and a score for each");
  for (const Tensor& weights : {counting({2}), deep}) {
    expect("bincount", {rows, weights}, "weights and elements must be equally many");
    expect("embedding_bag", {table, rows, integers({0}), false, n(0), false, weights}, "one weight is needed for each index");
  }
  for (const Tensor& wrong : {edges, Tensor::full(std::vector<int64_t>{0}, 1)}) {
    expect("histogram.bins_tensor", {flat, wrong}, "bins must be one dimension of edges");
    expect("_histogramdd_from_bin_tensors", {deep, Ts{wrong}}, "bins must be one dimension of edges");
  }
  expect("_histogramdd_from_bin_tensors", {flat, Ts{counting({2})}}, "expected points [..., n], got f32[3]");
  expect("_histogramdd_bin_edges", {flat, Ns{2}}, "expected points [..., n], got f32[3]");
  expect("_histogramdd_bin_edges", {boxes, Ns{2}}, "1 numbers of bins for points of 4 dimensions");
}

TEST_F(ShapeRows, Losses) {
  Tensor scores = Tensor::of({0, 0, 0, 0}, {2, 2}), target = integers({1, -100});
  EXPECT_NEAR(call1("cross_entropy_loss", {scores, target}).item(), std::log(2.0), 1e-6);
  const auto told = [](const char* op, const Tensor& x, const std::vector<int64_t>& targets) {
    return test::user_error([&] { call1(op, {x, Tensor::full(targets, 0, DType::I64)}); });
  };
  for (const char* op : {"cross_entropy_loss", "nll_loss_nd"}) {
    EXPECT_TRUE(test::contains(told(op, Tensor::full(std::vector<int64_t>{6, 10}, 0), {4}), "the targets must be [6], they are [4]")) << op;
    EXPECT_TRUE(
        test::contains(told(op, Tensor::full(std::vector<int64_t>{2, 3, 10}, 0), {2, 3}), "the targets must be [2, 10], they are [2, 3]"))
        << op;
  }
  EXPECT_NEAR(call1("mse_loss", {counting({4}), Tensor::full(std::vector<int64_t>{4}, 0)}).item(), 3.5, 1e-6);
  EXPECT_NEAR(call1("binary_cross_entropy_with_logits", {Tensor::of({0}, {1}), Tensor::of({1}, {1})}).item(), std::log(2.0), 1e-6);
}

TEST_F(ShapeRows, UniqueCountsAndPositions) {
  auto r = call("_unique2", {integers({3, 1, 3, 3}), true, true, true});
  EXPECT_EQ(r[0].to_vector(), (Values{1, 3}));
  EXPECT_EQ(r[1].to_vector(), (Values{1, 0, 1, 1}));
  EXPECT_EQ(r[2].to_vector(), (Values{1, 3}));
}

TEST_F(ShapeRows, SortPutsNanLastAndKeepsTheOrderOfEquals) {
  auto r = call("sort", {Tensor::of({NAN, 2, 1, 2}, {4})});
  EXPECT_EQ(r[1].to_vector(), (Values{2, 1, 3, 0}));
  EXPECT_EQ(call("sort", {Tensor::of({NAN, 2, 1, 2}, {4}), n(0), true})[1].to_vector(), (Values{0, 1, 3, 2}));
}

TEST_F(ShapeRows, PaddingReflectsAndCrops) {
  Tensor x = counting({1, 4});
  EXPECT_EQ(call1("reflection_pad1d", {x, Ns{2, 1}}).to_vector(), (Values{2, 1, 0, 1, 2, 3, 2}));
  EXPECT_EQ(call1("constant_pad_nd", {x, Ns{-1, 2}, 9.0}).to_vector(), (Values{1, 2, 3, 9, 9}));
  EXPECT_THROW(call1("reflection_pad1d", {x, Ns{4, 0}}), UserError);
}

TEST_F(ShapeRows, BadInputIsTheUsersError) {
  Tensor x = counting({2, 3});
  EXPECT_THROW(call1("view", {x, Ns{4}}), UserError);
  EXPECT_THROW(call1("expand", {x, Ns{4, 3}}), UserError);
  EXPECT_THROW(call1("permute", {x, Ns{0, 0}}), UserError);
  EXPECT_THROW(call1("gather", {x, n(0), Tensor::of({5}, {1, 1}, DType::I64)}), UserError);
  EXPECT_THROW(call1("as_strided", {x, Ns{7}, Ns{1}}), UserError);
  EXPECT_THROW(call1("select.int", {x, n(0), n(2)}), UserError);
  EXPECT_THROW(call1("cat", {Ts{x, counting({2, 2})}}), UserError);
}

}  // namespace
}  // namespace toroid::ops
