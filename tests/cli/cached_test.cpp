// toroid run and verify take whole programs from the cache.
#include <gtest/gtest.h>

#include "cli/harness.h"
#include "errors.h"
#include "temp_folder.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using test::contains;

// The second process compiles nothing, and gives the same; what is expected wrongly is still seen.
TEST(CachedCommand, TheSecondCallFindsTheProgram) {
  const test::TempFolder folder;
  const std::string cases = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/encoder", model = cases + "/core.pt2";
  const std::string own = "TOROID_CACHE_PROGRAMS=1 TOROID_LOGS=cache TOROID_CACHE_DIR=";
  const std::string run = "run " + model + " --inputs " + cases + "/in.safetensors --outputs ";
  const std::string first = folder / "first.safetensors", second = folder / "second.safetensors";
  auto out = test::toroid_command(run + first, own + (folder / "run"));
  ASSERT_TRUE(out.code == 0 && contains(out.text, "is kept as")) << out.text;
  out = test::toroid_command(run + second + " --expect " + cases + "/out.safetensors", own + (folder / "run"));
  EXPECT_TRUE(out.code == 0 && contains(out.text, "all outputs match") && !contains(out.text, "is kept as")) << out.text;
  EXPECT_TRUE(contains(out.text, "is on disk (")) << out.text;
  out = test::toroid_command("run " + model + " --inputs " + cases + "/in.safetensors --expect " + cases + "/in.safetensors",
                             own + (folder / "run"));
  EXPECT_TRUE(out.code == 1 && contains(out.text, "differs")) << out.text;
  out = test::toroid_command(run + second, own + (folder / "run") + " TOROID_CACHE_PROGRAMS=0");
  EXPECT_FALSE(contains(out.text, "is on disk (")) << "the caller asked for a compile: " << out.text;
  for (const bool again : {false, true}) {
    out = test::toroid_command("verify " + cases, own + (folder / "verify"));
    EXPECT_EQ(out.code, 0) << out.text;
    EXPECT_EQ(contains(out.text, "is on disk ("), again) << out.text;
  }
}

}  // namespace
}  // namespace toroid
