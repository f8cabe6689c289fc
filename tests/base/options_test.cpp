#include "base/options.h"

#include <gtest/gtest.h>

#include <set>

#include "base/log.h"
#include "base/text.h"
#include "toroid/error.h"

namespace toroid {
namespace {

std::string message_of(std::string_view name, std::string_view value) {
  try {
    set_option(name, value);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Options, ScopedOptionSetsAndRestores) {
  const int64_t before = get_option(options::kRecompileLimit);
  const uint64_t version = options_version();
  {
    const ScopedOption scope("recompile_limit", "3");
    EXPECT_EQ(get_option(options::kRecompileLimit), 3);
    EXPECT_GT(options_version(), version);
  }
  EXPECT_EQ(get_option(options::kRecompileLimit), before);
}

TEST(Options, UnknownNameOffersTheNearest) {
  EXPECT_EQ(message_of("recompile_limits", "3"), "there is no option \"recompile_limits\"; did you mean \"recompile_limit\"?");
}

TEST(Options, BadValuesSayWhatIsExpected) {
  EXPECT_EQ(message_of("cache", "maybe"), "option cache: \"maybe\" is not a truth value; expected 1/true/on/yes or 0/false/off/no");
  for (const char* bad : {"", "-1", "12x", "99999999999999999999", " 1"})
    EXPECT_NE(message_of("threads", bad).find("expected a whole number from 0 to 1024"), std::string::npos) << bad;
  EXPECT_NE(message_of("isa", "sse").find("expected auto, avx2, avx512 or scalar"), std::string::npos);
  EXPECT_NE(message_of("logs", "guard").find("did you mean \"guards\""), std::string::npos);
}

TEST(Options, EveryRowIsDocumentedAndNamedOnce) {
  std::set<std::string_view> names;
  for (const OptionInfo& row : list_options()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.doc.size(), 20u) << row.name;
    EXPECT_EQ(row.environment.substr(0, 7), "TOROID_");
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kOptionCount));
}

TEST(Log, OnlyEnabledArtifactsReachTheSink) {
  std::string seen;
  const LogSink before = set_log_sink(
      [&](Artifact artifact, std::string_view message) { seen += std::string(name_of(artifact)) + ":" + std::string(message) + ";"; });
  log(Artifact::Guards, "silent");
  {
    const ScopedOption logs("logs", "guards, cache");
    EXPECT_TRUE(log_enabled(Artifact::Cache));
    EXPECT_FALSE(log_enabled(Artifact::Perf));
    log(Artifact::Guards, "one");
    log(Artifact::Perf, "two");
  }
  log(Artifact::Guards, "late");
  set_log_sink(before);
  EXPECT_EQ(seen, "guards:one;");
}

TEST(Text, DistanceCountsASwapAsOne) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("matmul", "matmlu"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance(std::string(100000, 'a'), std::string(100000, 'b')), 64);
}

TEST(Text, NothingNearGivesNoSuggestion) {
  const std::string_view names[] = {"relu", "gelu", "softmax"};
  EXPECT_EQ(did_you_mean("convolution", names), "");
  EXPECT_EQ(did_you_mean("rleu", names), "; did you mean \"relu\" or \"gelu\"?");
  EXPECT_EQ(did_you_mean("soft", names), "; did you mean \"softmax\"?");
}

TEST(Text, SplitListTrimsAndDropsEmptyParts) {
  const auto parts = split_list(" a, b ,,c");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[1], "b");
  EXPECT_TRUE(split_list("").empty());
}

}  // namespace
}  // namespace toroid
