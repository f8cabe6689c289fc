// Errors of the C++ library become Toroid's, with path and reason.
#include "base/std_errors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

#include "errors.h"

namespace toroid {
namespace {

using test::contains;
using test::environment_error;

template <class E>
std::string said_of(const E& error) {
  return environment_error([&] { with_our_errors("cannot load \"m\"", [&]() -> int { throw error; }); });
}

TEST(StdErrors, HavePathAndReason) {
  const auto code = std::make_error_code(std::errc::permission_denied);
  EXPECT_EQ(said_of(std::filesystem::filesystem_error("x", "/a", "/b", code)),
            "cannot load \"m\": Permission denied (\"/a\" and \"/b\"); check the path and the permissions of its folders");
  EXPECT_EQ(said_of(std::filesystem::filesystem_error("x", "/a", code)),
            "cannot load \"m\": Permission denied (\"/a\"); check the path and the permissions of its folders");
  EXPECT_EQ(said_of(std::bad_alloc()), "cannot load \"m\": there is not enough memory");
  EXPECT_EQ(said_of(std::bad_array_new_length()), "cannot load \"m\": there is not enough memory");
  EXPECT_EQ(said_of(std::length_error("vector")), "cannot load \"m\": there is not enough memory");
  EXPECT_TRUE(
      contains(said_of(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))), "temporarily unavailable"));
  EXPECT_TRUE(contains(said_of(std::ios_base::failure("cannot read")), "cannot read"));
}

TEST(StdErrors, OthersPassAsTheyAre) {
  EXPECT_EQ(test::user_error([] { with_our_errors("w", []() -> int { throw UserError("mine"); }); }), "mine");
  EXPECT_THROW(with_our_errors("w", []() -> int { throw std::logic_error("bug"); }), std::logic_error);
  EXPECT_THROW(with_our_errors("w", []() -> int { throw 7; }), int);
  EXPECT_EQ(with_our_errors("w", [] { return 5; }), 5);
}

}  // namespace
}  // namespace toroid
