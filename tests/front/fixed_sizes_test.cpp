// Open sizes that a function makes numbers: the report says which operation and line did it. A slice does not.
#include <gtest/gtest.h>

#include "errors.h"
#include "temp_folder.h"
#include "toroid/compile.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using test::contains;

// A table's first rows, as positions of a sequence are.
TEST(FixedSizes, ASliceOfOpenLengthStaysOpen) {
  const Tensor table = randn({16, 3});
  const auto first = [table](const Tensor& x) { return x + slice(table, 0, 0, x.size(0)); };
  auto f = compile(first);
  for (const int64_t n : {4, 5, 7, 16, 2}) {
    const Tensor x = randn({n, 3});
    EXPECT_EQ(f(x).to_vector(), first(x).to_vector()) << n;
  }
  EXPECT_EQ(f.report().compiles, 2) << to_string(f.report()) << "one for 4, one for open sizes";
  EXPECT_FALSE(contains(to_string(f.report()), "is a number in the program")) << to_string(f.report());
  EXPECT_THROW(f(randn({17, 3})), UserError) << "17 rows and 16";
  EXPECT_EQ(f(randn({9, 3})).size(0), 9);
}

TEST(FixedSizes, APackageSlicesItsTable) {
  const test::TempFolder folder;
  const Tensor table = randn({16, 3}), x = randn({4, 3});
  mark_dynamic(x, 0, 1, 16);
  const auto fn = [table](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * slice(table, 0, 0, in[0].size(0))}; };
  save_package(fn, {x}, folder / "f.tpk");
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  for (const int64_t n : {1, 3, 16}) {
    const Tensor y = randn({n, 3});
    EXPECT_EQ(session.run({y})[0].to_vector(), fn({y})[0].to_vector()) << n;
  }
  const Tensor more = randn({4, 3});
  mark_dynamic(more, 0, 1, 17);
  const std::string said = test::user_error([&] { save_package(fn, {more}, folder / "f.tpk"); });
  EXPECT_TRUE(contains(said, "was marked dynamic from 1 to 17, but") && contains(said, "fixed_sizes_test.cpp:")) << said;
}

TEST(FixedSizes, TheReportNamesOperationAndLine) {
  const Tensor w = ones({4, 3});
  auto f = compile([w](const Tensor& x, const Tensor& y) { return x * y + w; });
  f(ones({1, 3}), ones({1, 3})), f(ones({4, 3}), ones({4, 3}));
  const std::string first = to_string(f.report());
  EXPECT_TRUE(
      contains(first, "guard: the size of dimension 0 of input 0 is a number in the program because add.Tensor (fixed_sizes_test.cpp:"))
      << first;
  EXPECT_TRUE(contains(first, "guard: the size of dimension 0 of input 1 is a number in the program because"))
      << first << "as the two are equal";
}

TEST(FixedSizes, TheReasonOfARecompileHasIt) {
  auto f = compile([](const Tensor& x) { return x.sizes()[0] > 2 ? x : x * 2; }, {.name = "plain"});
  f(ones({3})), f(ones({4})), f(ones({5}));
  const std::string said = to_string(f.report());
  EXPECT_TRUE(contains(said,
                       "recompile: input 0: size of dimension 0 was 4, is 5; it is a number in the program because the use of a size as a "
                       "plain number at the start of the function requires s0 == 4"))
      << said;
  EXPECT_FALSE(contains(said, "was 3, is 4;")) << said << "which was no open size yet";
  f(ones({5}));
  EXPECT_EQ(f.report().compiles, 3);
}

// Of open sizes that do not fit the names say nothing to a caller.
TEST(FixedSizes, AnErrorOfOpenSizesSaysWhatTheyAre) {
  auto f = compile([](const Tensor& x, const Tensor& mask) { return where(mask > 0, x, zeros({1})); });
  const Tensor x = ones({2, 3}), mask = ones({2, 4});
  mark_dynamic(x, 1), mark_dynamic(mask, 1);
  const std::string said = test::user_error([&] { f(x, mask); });
  EXPECT_TRUE(test::contains(said, "is 3 (size of dimension 1 of input 0)") &&
              test::contains(said, "is 4 (size of dimension 1 of input 1)"))
      << said;
  EXPECT_EQ(said.find(" is 3"), said.rfind(" is 3")) << said;
  const std::string attention = test::user_error([&] {
    const Tensor q = ones({1, 2, 5, 8}), m = full({1, 1, 5, 6}, 1, DType::Bool);
    mark_dynamic(q, 2), mark_dynamic(m, 3);
    compile([](const Tensor& a, const Tensor& b) { return scaled_dot_product_attention(a, a, a, b); })(q, m);
  });
  EXPECT_TRUE(test::contains(attention, "is 5 (") && test::contains(attention, "is 6 (")) << attention;
}

}  // namespace
}  // namespace toroid
