// Padding to a few sizes.
#include "toroid/buckets.h"

#include "front/harness.h"

namespace toroid {
namespace {

TEST(Buckets, AFewSizesCoverARange) {
  for (int64_t most : {1, 2, 7, 100, 256, 4096})
    for (int64_t count : {1, 2, 5, 16}) {
      const auto sizes = bucket_sizes(most, count);
      EXPECT_LE(static_cast<int64_t>(sizes.size()), count);
      EXPECT_EQ(sizes.back(), most);
      for (size_t i = 1; i < sizes.size(); ++i) EXPECT_LT(sizes[i - 1], sizes[i]) << most << " in " << count;
    }
  const auto sizes = bucket_sizes(256);
  for (size_t i = 5; i < sizes.size(); ++i) EXPECT_LT(static_cast<double>(sizes[i]), 1.6 * static_cast<double>(sizes[i - 1]));
}

TEST(Buckets, PadsAnyDimension) {
  const std::vector<int64_t> buckets = {512, 128, 256};
  const Tensor x = test::counting({3, 130, 2});
  for (int64_t dim : {int64_t{1}, int64_t{-2}}) {
    const Padded p = pad_to_bucket(x, buckets, dim, 7);
    EXPECT_EQ(p.tensor.sizes(), (std::vector<int64_t>{3, 256, 2}));
    EXPECT_EQ(std::pair(p.size, p.bucket), std::pair(int64_t{130}, int64_t{256}));
    EXPECT_NEAR(p.waste(), 126.0 / 256, 1e-12);
    EXPECT_EQ(unpad(p.tensor, 130, dim).to_vector(), x.to_vector());
    EXPECT_EQ(p.tensor.to_vector()[130 * 2], 7);
    const auto mask = p.mask().to_vector();
    EXPECT_EQ(std::vector<double>(mask.begin() + 129, mask.begin() + 131), (std::vector<double>{1, 0}));
  }
  EXPECT_EQ(pad_to_bucket(test::counting({128}), buckets).tensor.numel(), 128) << "a bucket's own size needs no padding";
  EXPECT_TRUE(test::contains(test::user_error([&] { pad_to_bucket(test::counting({513}), buckets); }), "no bucket holds the size 513"));
}

TEST(Buckets, ResultsAreCutAndWasteIsReported) {
  int64_t seen = 0;
  const Bucketed f(
      [&](std::span<const Tensor> in) {
        seen = in[0].sizes()[0];
        return std::vector<Tensor>{in[0], in[1]};
      },
      {.sizes = {4, 8}});
  for (int64_t n = 1; n <= 8; ++n) {
    const auto out = f({test::counting({n, 3}), test::counting({5})});
    EXPECT_EQ(seen, n <= 4 ? 4 : 8);
    EXPECT_EQ(out[0].to_vector(), test::counting({n, 3}).to_vector());
    EXPECT_EQ(out[1].numel(), 5);
  }
  const BucketReport r = f.report();
  EXPECT_EQ(r.buckets, (std::vector<std::pair<int64_t, int64_t>>{{4, 4}, {8, 4}}));
  EXPECT_NEAR(r.waste(), 1 - 36.0 / 48, 1e-12);
  const Bucketed two([](std::span<const Tensor> in) { return std::vector<Tensor>(in.begin(), in.end()); },
                     {.sizes = {4}, .inputs = {0, 1}});
  EXPECT_TRUE(test::contains(test::user_error([&] { two({test::counting({2}), test::counting({3})}); }), "input 1 has 3 elements"));
}

// 128 columns, and a bucket of 128 rows: what is as long as the bucket need not be of it.
TEST(Buckets, NamedResultsAloneAreCut) {
  const auto rows_and_columns = [](std::span<const Tensor> in) {
    return std::vector<Tensor>{sum(in[0], {2}), sum(in[0], {1})};  // [1, rows], [1, columns]
  };
  const auto call = [&](std::optional<std::vector<size_t>> outputs) {
    return Bucketed(rows_and_columns, {.sizes = {64, 128}, .dim = 1, .outputs = std::move(outputs)})({test::counting({1, 100, 128})});
  };
  const auto sizes = [](const std::vector<Tensor>& t) { return std::pair(t[0].sizes()[1], t[1].sizes()[1]); };
  EXPECT_EQ(sizes(call({})), std::pair(int64_t{100}, int64_t{100})) << "both are as long as the bucket";
  EXPECT_EQ(sizes(call({{0}})), std::pair(int64_t{100}, int64_t{128}));
  EXPECT_EQ(sizes(call(std::vector<size_t>())), std::pair(int64_t{128}, int64_t{128}));
  EXPECT_TRUE(test::contains(test::user_error([&] { call({{2}}); }), "result 2 is to be cut, and the function returns 2"));
  const Bucketed other(rows_and_columns, {.sizes = {64}, .dim = 1, .outputs = {{1}}});
  for (int64_t rows : {10, 64})
    EXPECT_TRUE(test::contains(test::user_error([&] {
                                 other({test::counting({1, rows, 128})});
                               }),
                               "result 1 is to be cut in dimension 1, which has to be 64 long; it is of sizes [1, 128]"));
}

}  // namespace
}  // namespace toroid
