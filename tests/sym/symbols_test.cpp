// Which symbols are equal: names of sizes decide about sizes alone.
#include <gtest/gtest.h>

#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

TEST(Symbols, KindsAreNeverEqual) {
  for (const char* name : {"i0", "r1", "v0", "v3", "part"}) {
    const Expr size = symbol(name, 0, 9), variable = loop_symbol(name, 10), value = value_symbol(3, 0, 9), other = value_symbol(0, 0, 9);
    const Expr all[] = {size, variable, value, other};
    for (auto& a : all)
      for (auto& b : all) {
        EXPECT_EQ(a == b, &a == &b) << name;
        EXPECT_EQ(same_symbol(*a.node(), *b.node()), &a == &b) << name;
        EXPECT_EQ((a - b) == Expr(0), &a == &b) << name;
        EXPECT_EQ(depends_on(2 * a + 1, b), &a == &b) << name;
        EXPECT_EQ(
            substitute(a, [&](const Node& n) { return same_symbol(n, *b.node()) ? std::optional<Expr>(7) : std::nullopt; }) == Expr(7),
            &a == &b);
      }
  }
}

TEST(Symbols, VariablesEqualThemselvesAlone) {
  const Expr a = loop_symbol("part", 4), b = loop_symbol("part", 4), c = loop_symbol("part");
  EXPECT_EQ(a, a);
  EXPECT_FALSE(a == b);
  EXPECT_FALSE(b == c);
  EXPECT_EQ(bounds(a).hi, 3);
  EXPECT_EQ(bounds(c).hi, kInf);
  EXPECT_FALSE(c.node()->has_extent);
}

TEST(Symbols, SizesEqualByNameValuesByStep) {
  EXPECT_EQ(symbol("n", 1, 9), symbol("n", 1, 9));
  EXPECT_FALSE(symbol("n", 1, 9) == symbol("m", 1, 9));
  EXPECT_FALSE(symbol("", 1, 9) == symbol(" ", 1, 9));
  EXPECT_EQ(value_symbol(12, 0, 9), value_symbol(12, 0, 9));
  EXPECT_FALSE(value_symbol(1, 0, 9) == value_symbol(2, 0, 9));
}

// The order is by making, not by name: "i10" stands before "i9" where it was made before it.
TEST(Symbols, FormsDoNotDependOnNames) {
  auto text = [](const char* first, const char* second) {
    const Expr a = loop_symbol(first, 8), b = loop_symbol(second, 8);
    return to_string(floor_div(max(b, 3 * a) + b * 5 + a * 7, 2),
                     [&](const Node& n) { return std::string(same_symbol(n, *a.node()) ? "first" : "second"); });
  };
  EXPECT_EQ(text("i0", "i1"), text("i10", "i9"));
  EXPECT_EQ(text("i0", "i1"), text("x", "x"));
}

}  // namespace
}  // namespace toroid::sym
