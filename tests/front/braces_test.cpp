// Where a function takes a number or a list, braces are the list, also around one number of any type.
#include "front/harness.h"

namespace toroid::braces {
namespace {

using namespace test;
using List = std::vector<Tensor>;
using Places = std::vector<SymInt>;

struct Case {
  const char* call;
  List braced, listed;
};

// x is 9 x 6 x 4.
std::vector<Case> cases(const Tensor& x) {
  const SymInt size = x.size(0) - 7;
  const int64_t wide = 2;
  const int narrow = 2;
  const size_t unsigned_number = 2;
  return {
      {"tensor_split(x, {size})", tensor_split(x, {size}), tensor_split(x, Places{2})},
      {"tensor_split(x, {x.size(0) - 7})", tensor_split(x, {x.size(0) - 7}), tensor_split(x, Places{2})},
      {"tensor_split(x, {2})", tensor_split(x, {2}), tensor_split(x, Places{2})},
      {"tensor_split(x, {wide})", tensor_split(x, {wide}), tensor_split(x, Places{2})},
      {"tensor_split(x, {narrow}, 1)", tensor_split(x, {narrow}, 1), tensor_split(x, Places{2}, 1)},
      {"tensor_split(x, {unsigned_number})", tensor_split(x, {unsigned_number}), tensor_split(x, Places{2})},
      {"tensor_split(x, {size, 5})", tensor_split(x, {size, 5}), tensor_split(x, Places{2, 5})},
      {"tensor_split(x, {})", tensor_split(x, {}), {x}},
      {"hsplit(x, {size})", hsplit(x, {size}), tensor_split(x, Places{2}, 1)},
      {"hsplit(x, {2})", hsplit(x, {2}), tensor_split(x, Places{2}, 1)},
      {"vsplit(x, {size})", vsplit(x, {size}), tensor_split(x, Places{2}, 0)},
      {"vsplit(x, {2})", vsplit(x, {2}), tensor_split(x, Places{2}, 0)},
      {"dsplit(x, {size})", dsplit(x, {size}), tensor_split(x, Places{2}, 2)},
      {"dsplit(x, {2})", dsplit(x, {2}), tensor_split(x, Places{2}, 2)},
      {"split(x, {x.size(0)})", split(x, {x.size(0)}), {x}},
      {"split(x, {9})", split(x, {9}), {x}},
      {"split(x, {size, 7})", split(x, {size, 7}), tensor_split(x, Places{2})},
      {"split(x, {wide, narrow, 5})", split(x, {wide, narrow, 5}), tensor_split(x, Places{2, 4})},
  };
}
std::vector<Case> numbers(const Tensor& x) {
  const SymInt size = x.size(0) - 6;
  const int64_t wide = 3;
  return {
      {"tensor_split(x, 3)", tensor_split(x, 3), tensor_split(x, Places{3, 6})},
      {"tensor_split(x, wide)", tensor_split(x, wide), tensor_split(x, Places{3, 6})},
      {"tensor_split(x, size)", tensor_split(x, size), tensor_split(x, Places{3, 6})},
      {"hsplit(x, 3)", hsplit(x, 3), tensor_split(x, Places{2, 4}, 1)},
      {"vsplit(x, 3)", vsplit(x, 3), tensor_split(x, Places{3, 6})},
      {"dsplit(x, 2)", dsplit(x, 2), tensor_split(x, Places{2}, 2)},
      {"split(x, 5)", split(x, 5), tensor_split(x, Places{5})},
      {"split(x, size)", split(x, size), tensor_split(x, Places{3, 6})},
      {"split(x, std::vector<int64_t>{2, 7})", split(x, std::vector<int64_t>{2, 7}), tensor_split(x, Places{2})},
  };
}

void expect_equal(const std::vector<Case>& all) {
  for (const Case& c : all) {
    ASSERT_EQ(c.braced.size(), c.listed.size()) << c.call;
    for (size_t i = 0; i < c.braced.size(); ++i) {
      EXPECT_EQ(c.braced[i].sizes(), c.listed[i].sizes()) << c.call;
      EXPECT_EQ(c.braced[i].to_vector(), c.listed[i].to_vector()) << c.call;
    }
  }
}

TEST(Braces, AreListsAndNumbersNumbers) {
  const Tensor x = counting({9, 6, 4});
  expect_equal(cases(x));
  expect_equal(numbers(x));
}

// An open size within braces stays one.
TEST(Braces, OfOpenSizes) {
  int traces = 0;
  const auto f = compile(
      [&](const Tensor& x) {
        ++traces;
        return List{tensor_split(x, {x.size(0) - 1})[1], split(x, {x.size(0) - 2, 2})[0], vsplit(x, {x.size(0) - 3})[0]};
      },
      by_reference());
  for (const int64_t n : {5, 8, 13}) {
    Tensor x = counting({n, 2});
    mark_dynamic(x, 0, 4, 64);
    const List parts = f(x);
    EXPECT_EQ(parts[0].sizes(), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(parts[1].sizes(), (std::vector<int64_t>{n - 2, 2}));
    EXPECT_EQ(parts[2].sizes(), (std::vector<int64_t>{n - 3, 2}));
  }
  EXPECT_EQ(traces, 1);
}

}  // namespace
}  // namespace toroid::braces
