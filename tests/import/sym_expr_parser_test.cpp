#include "import/sym_expr_parser.h"

#include <gtest/gtest.h>

#include "toroid/error.h"

namespace toroid::import {
namespace {

std::string round(std::string_view text) { return to_string(parse_sym_expr(text)); }

TEST(SymExprParser, Srepr) {
  EXPECT_EQ(round("Symbol('s53', positive=True, integer=True)"), "s53");
  EXPECT_TRUE(parse_sym_expr("Symbol('s53', positive=True, integer=True)").positive);
  EXPECT_FALSE(parse_sym_expr("Symbol('u0', integer=True)").positive);
  EXPECT_EQ(round("Add(FloorDiv(Add(Symbol('s0', integer=True), Integer(-1)), Integer(2)), Integer(1))"),
            "Add(FloorDiv(Add(s0, -1), 2), 1)");
  EXPECT_EQ(round("FloatPow(ToFloat(Symbol('s0')), Float('0.5', precision=53))"), "FloatPow(ToFloat(s0), 0.5)");
  EXPECT_EQ(round("Eq(Mul(Rational(1, 2), Symbol('a')), int_oo)"), "Equality(Mul(1/2, a), oo)");
  EXPECT_EQ(round("And(true, StrictLessThan(Symbol('a'), -oo))"), "And(true, StrictLessThan(a, -oo))");
}

TEST(SymExprParser, Infix) {
  EXPECT_EQ(round("2*s0"), "Mul(2, s0)");
  EXPECT_EQ(round("((s0 - 1)//2)"), "FloorDiv(Add(s0, -1), 2)");
  EXPECT_EQ(round("s0**2 + s1*4 - s2"), "Add(Pow(s0, 2), Mul(s1, 4), Mul(-1, s2))");
  EXPECT_EQ(round("-s0**2"), "Mul(-1, Pow(s0, 2))");
  EXPECT_EQ(round("2**3**s0"), "Pow(2, Pow(3, s0))");
  EXPECT_EQ(round("Mod(s0, 2) + s1 % 3"), "Add(Mod(s0, 2), Mod(s1, 3))");
  EXPECT_EQ(round("s0/2"), "Mul(s0, Pow(2, -1))");
  EXPECT_EQ(round("s0 >= 3 & s1 != -4"), "And(GreaterThan(s0, 3), Unequality(s1, -4))");
}

TEST(SymExprParser, IntegersAreExact) {
  EXPECT_EQ(parse_sym_expr("Integer(9223372036854775807)").value, INT64_MAX);
  EXPECT_EQ(parse_sym_expr("-9223372036854775808").value, INT64_MIN);
  EXPECT_THROW(parse_sym_expr("9223372036854775808"), UserError);
}

TEST(SymExprParser, RefusesBadTextAndGreatDepth) {
  for (const char* text :
       {"", "Add(", "Add(1", "s0 s1", "1 +", "Symbol(s0)", "Symbol('s0", "Integer(s0)", "Rational(1, 0)", "a == == b", "1.2.3"})
    EXPECT_THROW(parse_sym_expr(text), UserError) << text;
  EXPECT_THROW(parse_sym_expr(std::string(100000, '(')), UserError);
  EXPECT_THROW(parse_sym_expr(std::string(100000, '-')), UserError);
  std::string chain = "a", sum = "a";
  for (int i = 0; i < 10000; ++i) {
    chain += "//b";
    sum += " + b";
  }
  EXPECT_THROW(parse_sym_expr(chain), UserError);
  EXPECT_EQ(parse_sym_expr(sum).height, 2);
}

}  // namespace
}  // namespace toroid::import
