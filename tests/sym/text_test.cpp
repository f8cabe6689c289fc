// Text of expressions, and back, whatever sizes are called.
#include <gtest/gtest.h>

#include <limits>

#include "base/check.h"
#include "errors.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

Expr size_of_name(const std::string& name, bool) { return symbol(name, 0, kInf); }

TEST(SymText, RoundTripsEveryName) {
  const Expr n = symbol("n", 0, kInf);
  for (const std::string name :
       {"n1",    "i0",   "v3",  "_",    "min", "floordiv", "batch size", "past+1", "2x", "",    " ",     "'",  "\\",
        "a'b\\", "a\nb", "x,y", "f(x)", "]",   "größe",    "\x7f\x01",   "é\xff",  "*/", "int", "\\x41", "'x'"}) {
    const Expr size = symbol(name, 0, kInf), e = floor_div(3 * size * n - max(size, n) + mod(n, size + 1), 5);
    const std::string text = to_string(e);
    EXPECT_EQ(parse(text, size_of_name), e) << text;
    EXPECT_EQ(to_string(size), is_identifier(name) ? name : sym::quoted(name));
    EXPECT_EQ(unquoted(sym::quoted(name)), name);
    EXPECT_EQ(end_of_quoted("ab" + sym::quoted(name) + "'", 2), 2 + sym::quoted(name).size());
  }
}

TEST(SymText, ReadsWhatPeopleWrite) {
  const Expr n = symbol("n", 0, kInf);
  EXPECT_EQ(parse(" 2 * ( n - 1 ) + -3 * floordiv( n , 2 ) ", size_of_name), 2 * n - 2 - 3 * floor_div(n, 2));
  EXPECT_EQ(parse("--n", size_of_name), n);
  EXPECT_EQ(parse("'n'", size_of_name), n);
  EXPECT_EQ(parse("9223372036854775807", size_of_name), Expr(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(parse("-9223372036854775807", size_of_name), Expr(-std::numeric_limits<int64_t>::max()));
}

TEST(SymText, QuotedNamesAreToldApart) {
  std::string seen;
  parse("a*'a' + b", [&](const std::string& name, bool quoted) {
    seen += name + (quoted ? "! " : " ");
    return Expr(1);
  });
  EXPECT_EQ(seen, "a a! b ");
}

TEST(SymText, MalformedTextIsRefused) {
  for (const char* text : {"", "2 +", "'n", "'", "(n", "n)", "frob(n, n)", "min(n)", "9223372036854775808", "1234567890123456789012", "n n",
                           "'a' 'b'", "n # m"})
    EXPECT_THROW(parse(text, size_of_name), UserError) << text;
  for (const char* text : {"'a\\b'", "'a\\x4'"})
    EXPECT_TRUE(test::contains(test::user_error([&] { parse(text, size_of_name); }), "after the backslash")) << text;
}

}  // namespace
}  // namespace toroid::sym
