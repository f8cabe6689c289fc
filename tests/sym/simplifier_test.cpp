// The canonical form of expressions: what is equal, what cancels, what bounds prove.
#include <gtest/gtest.h>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

const Expr s = symbol("s", 1, 1000), t = symbol("t", 1, 1000), i = loop_symbol("i", 12), j = loop_symbol("j", s),
           v = value_symbol(3, -5, 5);

void check(const Expr& before, const Expr& after) { EXPECT_EQ(before, after) << to_string(before) << " is not " << to_string(after); }

TEST(Simplifier, Polynomials) {
  check(s + t, t + s);
  check((s + t) * (s - t), s * s - t * t);
  check(s - s, 0);
  check(2 * s + 3 * s - 5 * s, 0);
  check((s + 1) * (t + 1) - s * t - s - t, 1);
  check(-(i - s), s - i);
  check(v * 0, 0);
}

TEST(Simplifier, Divisions) {
  check(floor_div(s * t, t), s);
  check(floor_div(12 * s + 7, 12), s);
  check(floor_div(i, 12), 0);
  check(floor_div(j, s), 0);
  check(floor_div(s * i + j, s), i);
  check(floor_div(floor_div(i, 2), 3), floor_div(i, 6));
  check(floor_div(6 * i + 4, 4), floor_div(3 * i + 2, 2));
  check(ceil_div(4 * s, 4), s);
  check(ceil_div(-2 * s, -1), 2 * s);
  check(ceil_div(-4 * s, -4), s);
  check(ceil_div(7, -2), -3);
  check(floor_div(-7, 2), -4);
  EXPECT_THROW(floor_div(s, 0), UserError);
}

TEST(Simplifier, Remainders) {
  check(mod(s * t, t), 0);
  check(mod(i, 12), i);
  check(mod(s * i + j, s), j);
  check(mod(mod(v + 8, 12), 4), mod(v + 8, 4));
  check(mod(-7, 4), 1);
  check(4 * floor_div(i, 4) + mod(i, 4), i);
  check(4 * t * floor_div(v, 4) + t * mod(v, 4), t * v);
  EXPECT_THROW(mod(s, 0), UserError);
}

TEST(Simplifier, MinimaAndMaxima) {
  check(min(i, 11), i);
  check(min(i, 12), i);
  check(max(s, 0), s);
  check(max(s, t), max(t, s));
  check(min(s, s + t), s);
  check(max(j, s), s);
}

// What is behind the first elements of a dimension, however its length is written.
TEST(Simplifier, WhatIsLeftOfASize) {
  const Expr n = symbol("n", 0, 1000), m = symbol("m", 0, 1000);
  check(n - min(1, n), max(0, n - 1));
  check(max(0, n - min(1, n)), max(0, n - 1));
  check(max(n, m) - m, max(0, n - m));
  check(3 + n - min(n, m), 3 + max(0, n - m));
  check(2 * t * n - 2 * t * min(n, m), 2 * t * max(0, n - m));
  check(min(n + 1, m) - n, 1 - max(0, n + 1 - m));
  EXPECT_EQ(known({Rel::Eq, n - min(n, 3), max(n - 3, 0)}), std::optional<bool>(true));
}

TEST(Simplifier, PartsAreNoLargerThanTheWhole) {
  const Expr n = symbol("n", 0, 1000);
  check(min(n, floor_div(n, 2)), floor_div(n, 2));
  EXPECT_TRUE(known_ge(n, floor_div(n, 2) + floor_div(n, 3)));
  EXPECT_TRUE(known_ge(2 * floor_div(n, 2) + 1, n));
  EXPECT_FALSE(known_ge(floor_div(n, 2) + floor_div(n, 3), n));
  EXPECT_TRUE(known_ge(floor_div(symbol("m", 0, 1000), 2) + n, floor_div(n, 3)));
}

TEST(Simplifier, WhatBoundsProve) {
  EXPECT_TRUE(known_lt(i, 12));
  EXPECT_FALSE(known_lt(i, 11));
  EXPECT_TRUE(known_lt(j, s));
  EXPECT_TRUE(known_ge(s * s, 1));
  EXPECT_TRUE(known_ge(s * t, t));
  EXPECT_FALSE(known_ge(s * t, t + 1));
  EXPECT_TRUE(known_ge(v + 5, 0));
  EXPECT_FALSE(known_ge(v + 4, 0));
  EXPECT_TRUE(known_multiple(6 * s * t, 3 * t));
  EXPECT_FALSE(known_multiple(6 * s + 1, 3));
  EXPECT_EQ(known({Rel::Lt, j, s}), std::optional<bool>(true));
  EXPECT_EQ(known({Rel::Eq, s, t}), std::nullopt);
}

TEST(Simplifier, Substitution) {
  const Expr e = floor_div(s * i + v, 4);
  EXPECT_TRUE(depends_on(e, s) && depends_on(e, i) && depends_on(e, v) && !depends_on(e, j));
  check(substitute(e, [](const Node& n) { return is_loop_var(n) ? std::optional<Expr>(4) : std::nullopt; }), s + floor_div(v, 4));
  ASSERT_TRUE(linear_coefficient(s * i + t, i));
  check(*linear_coefficient(s * i + t, i), s);
  EXPECT_FALSE(linear_coefficient(i * i, i));
  EXPECT_FALSE(linear_coefficient(mod(i, 5), i));
}

}  // namespace
}  // namespace toroid::sym
