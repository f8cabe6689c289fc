// Windows that do not fit: of the size of the (padded) input there is one, of the next larger size none, which is refused; open sizes too.
#include "errors.h"
#include "front/harness.h"

namespace toroid {
namespace {

using test::user_error;
using Call = Tensor (*)(const Tensor& x, int64_t kernel, int64_t padding, int64_t dilation);

template <int kRank>
Tensor kernel_of(int64_t n) {
  return ones(std::vector<int64_t>(static_cast<size_t>(kRank), 1).size() == 3 ? SizeList{1, 1, n}
              : kRank == 4                                                    ? SizeList{1, 1, n, n}
                                                                              : SizeList{1, 1, n, n, n});
}

struct Window {
  const char* name;
  int rank;  // of the input
  bool dilates;
  Call call;
};
const Window kWindows[] = {
    {"conv1d", 3, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return conv1d(x, kernel_of<3>(k), {}, 1, p, d); }},
    {"conv2d", 4, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return conv2d(x, kernel_of<4>(k), {}, 1, p, d); }},
    {"conv2d, stride 3", 4, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return conv2d(x, kernel_of<4>(k), {}, 3, p, d); }},
    {"conv3d", 5, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return conv3d(x, kernel_of<5>(k), {}, 2, p, d); }},
    {"max_pool1d", 3, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return max_pool1d(x, k, 1, p, d); }},
    {"max_pool2d", 4, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return max_pool2d(x, k, 2, p, d); }},
    {"max_pool3d", 5, true, [](const Tensor& x, int64_t k, int64_t p, int64_t d) { return max_pool3d(x, k, 1, p, d); }},
    {"avg_pool1d", 3, false, [](const Tensor& x, int64_t k, int64_t p, int64_t) { return avg_pool1d(x, k, 1, p); }},
    {"avg_pool2d", 4, false, [](const Tensor& x, int64_t k, int64_t p, int64_t) { return avg_pool2d(x, k, 2, p); }},
    {"avg_pool3d", 5, false, [](const Tensor& x, int64_t k, int64_t p, int64_t) { return avg_pool3d(x, k, 1, p); }},
    {"im2col", 4, true,
     [](const Tensor& x, int64_t k, int64_t p, int64_t d) {
       return im2col(x, {k, k}, {d, d}, {p, p}, {1, 1});
     }},
    {"unfold", 1, false, [](const Tensor& x, int64_t k, int64_t, int64_t) { return unfold(x, 0, k, 1); }},
};

Tensor input(int rank, int64_t size) {
  std::vector<int64_t> sizes(static_cast<size_t>(rank), size);
  for (int i = 0; i < rank - 1 && i < 2; ++i) sizes[static_cast<size_t>(i)] = 1;
  return ones(sizes);
}

TEST(WindowSizes, TheNextLargerKernelIsRefused) {
  for (const Window& w : kWindows)
    for (int64_t padding : {0, 1})
      for (int64_t dilation : {1, 2}) {
        if ((padding && w.rank == 1) || (dilation > 1 && !w.dilates)) continue;
        const int64_t kernel = 3, reach = dilation * (kernel - 1) + 1, fits = reach - 2 * padding;
        EXPECT_GT(w.call(input(w.rank, fits), kernel, padding, dilation).numel(), 0) << w.name;
        for (int64_t missing : {1, 2, 3}) {
          if (fits - missing < 0) continue;
          const auto call = [&] { return w.call(input(w.rank, fits - missing), kernel, padding, dilation); };
          EXPECT_NE(user_error(call), "no error")
              << w.name << ", padding " << padding << ", dilation " << dilation << ", " << missing << " missing";
        }
      }
}

TEST(WindowSizes, OpenSizesAreRefusedInTheRun) {
  for (const Window& w : kWindows) {
    const auto compiled = compile([&](const Tensor& x) { return w.call(x, 3, 0, 1) * 2; });
    for (int64_t size : {7, 8, 9, 3}) EXPECT_GT(compiled(input(w.rank, size)).numel(), 0) << w.name << ' ' << size;
    for (int64_t size : {2, 1}) EXPECT_NE(user_error([&] { compiled(input(w.rank, size)); }), "no error") << w.name << ' ' << size;
    EXPECT_GT(compiled(input(w.rank, 5)).numel(), 0) << w.name;
  }
}

TEST(WindowSizes, TransposesAreRefusedAsInPyTorch) {
  const Tensor x = ones({1, 1, 2, 2}), w = ones({1, 1, 3, 3});
  using Sizes = std::vector<int64_t>;
  EXPECT_TRUE(test::contains(user_error([&] { conv_transpose2d(x, w, {}, 1, 0, 1); }), "output_padding 1 must be less than the stride 1"));
  EXPECT_TRUE(test::contains(user_error([&] { conv_transpose2d(x, w, {}, 2, 0, 2); }), "output_padding 2"));
  EXPECT_TRUE(test::contains(user_error([&] { conv_transpose1d(ones({1, 1, 2}), ones({1, 1, 3}), {}, 1, 0, 1); }), "output_padding 1"));
  EXPECT_EQ(conv_transpose2d(x, w, {}, 2, 0, 1).sizes(), (Sizes{1, 1, 6, 6}));
  EXPECT_EQ(conv_transpose2d(x, w, {}, 1, 0, 1, 1, 2).sizes(), (Sizes{1, 1, 7, 7}));
  EXPECT_TRUE(test::contains(user_error([&] { conv_transpose2d(x, w, {}, 1, 2); }), "the result has no elements in spatial dimension 0"));
  EXPECT_TRUE(test::contains(user_error([&] { conv_transpose2d(ones({1, 1, 1, 1}), ones({1, 1, 2, 2}), {}, 1, 1); }), "has no elements"));
  EXPECT_EQ(conv_transpose2d(ones({1, 1, 1, 1}), w, {}, 1, 1).sizes(), (Sizes{1, 1, 1, 1}));
}

}  // namespace
}  // namespace toroid
