#include "base/options.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>

#include "base/compile_options.h"
#include "base/log.h"
#include "base/option_table.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "errors.h"
#include "log_scope.h"
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
  const int64_t before = get_option(options::kCacheSizeMb);
  const uint64_t version = options_version();
  {
    const ScopedOption scope("cache_size_mb", "3");
    EXPECT_EQ(get_option(options::kCacheSizeMb), 3);
    EXPECT_GT(options_version(), version);
  }
  EXPECT_EQ(get_option(options::kCacheSizeMb), before);
}

TEST(Options, UnknownNameOffersTheNearest) {
  EXPECT_EQ(message_of("recompile_limits", "3"), "there is no option \"recompile_limits\"; did you mean \"recompile_limit\"?");
}

TEST(Options, BadValuesSayWhatIsExpected) {
  EXPECT_NE(message_of("cache", "maybe")
                .find("option cache: \"maybe\" is not a bool; expected 1/true/on/yes or 0/false/off/no (the default is 1; 1: "),
            std::string::npos);
  EXPECT_NE(message_of("verify_passes", "maybe").find("(the default is 0; 1: "), std::string::npos);
  EXPECT_NE(message_of("compile_debug", "/tmp/x").find("into debug_dir"), std::string::npos) << "the option that takes the folder";
  for (const char* bad : {"", "-1", "12x", "99999999999999999999", " 1"})
    EXPECT_NE(message_of("threads", bad).find("expected an integer from 0 to 1024"), std::string::npos) << bad;
  EXPECT_NE(message_of("isa", "sse").find("expected auto, avx2, avx512 or scalar"), std::string::npos);
  EXPECT_NE(message_of("logs", "guard").find("did you mean \"guards\""), std::string::npos);
}

TEST(Options, EveryRowIsDocumentedAndNamedOnce) {
  std::set<std::string_view> names;
  for (const OptionInfo& row : list_options()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.doc.size(), 20u) << row.name;
    EXPECT_EQ(row.environment.empty(), row.scope == "compile only") << row.name;
    if (!row.environment.empty()) {
      EXPECT_EQ(row.environment.substr(0, 7), "TOROID_");
    }
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kOptionCount));
}

// A value that an option may have, not its default.
std::string another_value(const OptionRow& row) {
  if (row.type == OptionType::Bool) return row.default_value == "1" ? "0" : "1";
  if (row.type == OptionType::Int) return std::to_string(row.max - 1);
  static const std::map<std::string_view, std::string> listed = {{"logs", "guards,cache"},
                                                                 {"isa", "scalar"},
                                                                 {"gemm_backends", "onednn,template"},
                                                                 {"conv_backends", "cudnn"},
                                                                 {"capture_results", "pool-clone"},
                                                                 {"capture_over_budget", "refuse"},
                                                                 {"collective_order", "any"},
                                                                 {"tune_backends", "none"},
                                                                 {"fusion_types", "prologue"},
                                                                 {"mode", "max-autotune"},
                                                                 {"fusion", "per-node"},
                                                                 {"activation_memory_budget", "0.25"},
                                                                 {"tune_choices", "gemm.*"}};
  const auto it = listed.find(row.name);
  return it == listed.end() ? "a \"file\"\\\n= x" : it->second;
}

TEST(Options, EveryRowHasOneFormOfItsValuesAndRefusesOthers) {
  for (const OptionRow& row : option_rows()) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(canonical(row, row.default_value, "it"), row.default_value);
    const std::string other = another_value(row);
    EXPECT_EQ(canonical(row, other, "it"), other);
    EXPECT_NE(other, row.default_value);
    if (row.type == OptionType::Bool) {
      EXPECT_EQ(canonical(row, "yes", "it") + canonical(row, "off", "it"), "10");
    }
    if (row.type == OptionType::Int) {
      EXPECT_EQ(canonical(row, "007", "it"), "7");
    }
    if (row.type != OptionType::String) {
      EXPECT_THROW(canonical(row, "-1", "it"), UserError);
    }
    if (row.canonical && row.name != "tune_choices") {
      EXPECT_THROW(canonical(row, "no such value", "it"), UserError);
    }
  }
  EXPECT_EQ(canonical(find_option("gemm_backends"), " onednn , template", "it"), "onednn,template");
  EXPECT_EQ(canonical(find_option("fusion"), "off", "it"), "none");
  EXPECT_THROW(canonical(find_option("tune_choices"), "(", "it"), UserError);
}

TEST(Options, EachBelongsToTheProcessOrToCompiles) {
  for (const OptionRow& row : option_rows()) {
    SCOPED_TRACE(row.name);
    const std::string value = another_value(row), name(row.name);
    CompileOptions options;
    if (row.scope == OptionScope::Process) {
      std::string variable = "TOROID_";
      for (char c : name) variable += static_cast<char>(std::toupper(c));
      EXPECT_EQ(test::user_error([&] { options.set(name, value); }),
                "option " + name + " belongs to the process, and one compile cannot have a value of its own: set it by set_option(\"" +
                    name + "\", ...) or the environment variable " + variable);
      continue;
    }
    options.set(name, value);
    EXPECT_NE(options, CompileOptions());
    EXPECT_EQ(CompileOptions::parse(options.text()), options) << options.text();
    if (row.scope == OptionScope::Function) {
      EXPECT_EQ(message_of(name, value),
                "option " + name +
                    " belongs to one compile, and the process has no value for it: give it in the options of compile() or Model::load");
    } else {
      const ScopedOption scope(name, value);
      EXPECT_EQ(CompileOptions::of_process(), options);
    }
    EXPECT_EQ(CompileOptions::of_process(), CompileOptions());
  }
}

TEST(CompileOptions, TextsOfRandomValuesRoundTrip) {
  std::mt19937 random(7);
  std::vector<const OptionRow*> rows;
  for (const OptionRow& row : option_rows())
    if (row.scope != OptionScope::Process) rows.push_back(&row);
  for (int round = 0; round < 300; ++round) {
    std::shuffle(rows.begin(), rows.end(), random);
    const size_t n = random() % rows.size();
    CompileOptions a;
    std::string backwards;
    for (size_t i = 0; i < n; ++i) {
      std::string value = another_value(*rows[i]);
      if (rows[i]->type == OptionType::Int) value = std::to_string(random() % (static_cast<uint64_t>(rows[i]->max) + 1));
      if (rows[i]->type == OptionType::String && !rows[i]->canonical)
        for (size_t k = random() % 9; k > 0; --k) value += static_cast<char>(random() % 255 + 1);
      a.set(rows[i]->name, value);
      CompileOptions one;
      one.set(rows[i]->name, value);
      backwards = one.text() + " \n" + backwards;
    }
    EXPECT_EQ(CompileOptions::parse(a.text()), a) << a.text();
    EXPECT_EQ(CompileOptions::parse(backwards), a) << backwards;
    EXPECT_EQ(CompileOptions::parse(backwards).text(), a.text());
  }
}

TEST(CompileOptions, TextsAreSortedAndRefusedWhereTheyAreNone) {
  CompileOptions options;
  for (auto [name, value] : {std::pair("tune_lock", "a file"), {"mode", "max-autotune"}, {"allow_tf32", "on"}, {"fusion", "all"}})
    options.set(name, value);
  EXPECT_EQ(options.text(), "allow_tf32=1 mode=max-autotune tune_lock=\"a file\"");
  EXPECT_EQ(CompileOptions().text(), "");
  for (auto [text, why] : {std::pair("allow_tf32", "expected name=value"),
                           {"=1", "expected name=value"},
                           {"allow_tf32=", "expected a value"},
                           {"tune_lock=\"a", "expected a closing quote"},
                           {"tune_lock=\"a\"b", "expected a blank or the end"},
                           {"allow_tf32=1 allow_tf32=0", "allow_tf32 is there twice"},
                           {"allow_tf23=1", "did you mean \"allow_tf32\""},
                           {"allow_tf32=2", "option allow_tf32: \"2\" is not a bool"},
                           {"threads=2", "belongs to the process"}})
    EXPECT_TRUE(test::contains(test::user_error([&] { CompileOptions::parse(text); }), why)) << text;
}

// What a key leaves out makes nothing else.
TEST(CompileOptions, KeysHaveWhatDecides) {
  const auto key = [](std::initializer_list<std::pair<const char*, const char*>> list) { return CompileOptions().with(list).key(); };
  EXPECT_EQ(key({{"compile_debug", "1"}, {"recompile_limit", "3"}, {"tune_strict", "1"}, {"capture_results", "pool"}}), "");
  EXPECT_EQ(key({{"tune_strict", "1"}, {"mode", "max-autotune-no-cudagraphs"}, {"capture_results", "pool"}}),
            "mode=max-autotune-no-cudagraphs tune_strict=1");
  EXPECT_EQ(key({{"capture_results", "pool"}, {"mode", "reduce-overhead"}}), "capture_results=pool mode=reduce-overhead");
  EXPECT_EQ(key({{"gemm_backends", "onednn"}}), "gemm_backends=onednn");
  const CompileOptions none, strict = none.with(std::map<std::string, std::string>{{"tune_strict", "1"}});
  EXPECT_EQ(difference(none, strict), "");
  EXPECT_EQ(number_of_key(none), number_of_key(strict));
  const CompileOptions tf32 = none.with(std::map<std::string, std::string>{{"allow_tf32", "1"}});
  EXPECT_EQ(difference(none, tf32), "the option allow_tf32 was false, is true");
  EXPECT_NE(number_of_key(none), number_of_key(tf32));
  const ScopedOption scope("allow_tf32", "1");
  EXPECT_EQ(process_key_number(), number_of_key(tf32));
}

// What the environment says, in a process of its own.
std::string complaint_with(const char* variable, const char* value) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    std::string said;
    for (const std::string& line : unknown_variables()) said += line;
    const bool written = write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string out(4096, '\0');
  out.resize(static_cast<size_t>(std::max<ssize_t>(0, read(ends[0], out.data(), out.size()))));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return out;
}

TEST(Options, VariablesThatNameNoOptionAreFound) {
  EXPECT_EQ(complaint_with("TOROID_THREDS", "2"),
            "environment variable TOROID_THREDS: there is no such option; did you mean \"TOROID_THREADS\"?");
  EXPECT_EQ(complaint_with("TOROID_FREEZING", "1"),
            "environment variable TOROID_FREEZING: option freezing belongs to one compile, and the process has no value for it: give it in "
            "the options of compile() or Model::load");
  EXPECT_EQ(complaint_with("TOROID_SOMETHING_ELSE_AGAIN", "1"),
            "environment variable TOROID_SOMETHING_ELSE_AGAIN: there is no such option");
  EXPECT_EQ(complaint_with("TOROID_THREADS", "2"), "");
  EXPECT_EQ(complaint_with("TOROID_JIT_LIBRARY", "x"), "");
}

TEST(Options, WhatComesTooLateIsRefused) {
  ThreadPool::global();
  const std::string before = [] {
    for (const OptionInfo& o : list_options())
      if (o.name == "spin_us") return o.value;
    return std::string();
  }();
  const std::string message = message_of("spin_us", before == "3" ? "4" : "3");
  EXPECT_TRUE(test::contains(message, "comes too late, as the kernel threads were started with")) << message;
  EXPECT_TRUE(test::contains(message, "TOROID_SPIN_US")) << message;
  EXPECT_EQ(message_of("spin_us", before), "no error");
}

// Whoever switches an artifact on gets its messages, without a sink of his own.
TEST(Log, MessagesGoToStderrFromTheStart) {
  const ScopedOption logs("logs", "recompiles");
  testing::internal::CaptureStderr();
  log(Artifact::Recompiles, "said");
  log(Artifact::Guards, "unsaid");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "toroid recompiles: said\n");
}

TEST(Log, OnlyEnabledArtifactsReachTheSink) {
  std::string seen;
  const test::LogScope lines(
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
