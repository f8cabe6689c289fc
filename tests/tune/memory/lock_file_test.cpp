// The text of decisions: written, read, and compared with what a build has.
#include "tune/memory/lock_file.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "errors.h"

namespace toroid::tune {
namespace {

using test::contains;
using test::user_error;

LockFile two() {
  LockFile f;
  f.set("NVIDIA H200", "b2", {"mm \"x\" \\ y", "gemm_wgmma(block_m=128,block_n=256)", "77fe", 0.91249});
  f.set("CPU avx512", "a1", {"conv", "onednn", "", 1});
  f.set("NVIDIA H200", "a1", {"bmm", "template", "00aa", 1});
  return f;
}

constexpr const char* kText = R"-(toroid tuning lock 1
device "CPU avx512"
problem a1 "conv"
  winner "onednn"
  kernels none ratio 1.000
device "NVIDIA H200"
problem a1 "bmm"
  winner "template"
  kernels 00aa ratio 1.000
problem b2 "mm \"x\" \\ y"
  winner "gemm_wgmma(block_m=128,block_n=256)"
  kernels 77fe ratio 0.912
)-";

TEST(LockFile, EqualDecisionsGiveEqualBytes) {
  EXPECT_EQ(two().text(), kText);
  const LockFile read = LockFile::parse(kText);
  EXPECT_EQ(read.text(), kText);
  EXPECT_EQ(read.size(), 3u);
  EXPECT_EQ(*read.find("NVIDIA H200", "b2"), (LockEntry{"mm \"x\" \\ y", "gemm_wgmma(block_m=128,block_n=256)", "77fe", 0.912}));
  EXPECT_EQ(read.find("NVIDIA H200", "c3"), nullptr);
  EXPECT_EQ(read.find("A100", "b2"), nullptr);
  const auto folder = make_temp_dir();
  two().write(folder / "tuning.lock");
  const auto before = std::filesystem::last_write_time(folder / "tuning.lock");
  two().write(folder / "tuning.lock");
  EXPECT_EQ(std::filesystem::last_write_time(folder / "tuning.lock"), before);
  EXPECT_EQ(LockFile::read(folder / "tuning.lock").text(), kText);
  std::filesystem::remove_all(folder);
}

TEST(LockFile, WhatIsWrongHasALine) {
  const auto wrong = [](std::string from, const std::string& to) {
    std::string text = kText;
    text.replace(text.find(from), from.size(), to);
    return user_error([&] { LockFile::parse(text, "x.lock"); });
  };
  EXPECT_TRUE(contains(wrong("lock 1", "lock 2"), "x.lock, line 1: expected \"toroid tuning lock 1\""));
  EXPECT_TRUE(contains(wrong("ratio 0.912", "ratio fast"), "x.lock, line 12: expected a ratio, found \"fast\""));
  EXPECT_TRUE(contains(wrong("ratio 0.912", "ratio 0.9 0.8"), "line 12: \"0.8\" is too much"));
  EXPECT_TRUE(contains(wrong("winner \"onednn\"", "loser \"onednn\""), "line 4: expected winner, found \"loser\""));
  EXPECT_TRUE(contains(wrong("winner \"onednn\"", "winner onednn"), "line 4: expected the winner in quotes"));
  EXPECT_TRUE(contains(wrong("winner \"onednn\"", "winner \"onednn"), "line 4: the quotes of the winner do not end"));
  EXPECT_TRUE(contains(wrong("device \"CPU avx512\"\n", ""), "line 2: a problem before the first device"));
  EXPECT_TRUE(contains(wrong("problem b2", "problem a1"), "line 12: problem a1 was decided before"));
  EXPECT_TRUE(contains(wrong("problem b2", "<<<<<<< HEAD"), "line 10: expected device or problem, found \"<<<<<<<\""));
  EXPECT_TRUE(contains(wrong("\n  kernels 77fe ratio 0.912\n", ""), "line 11: the file ends too early"));
  EXPECT_TRUE(contains(user_error([] { LockFile::parse(""); }), "ends too early"));
  const std::string binary = user_error([] {
    LockFile::parse(std::string("\x7f"
                                "ELF\x02\0\0\x1b[31m",
                                12) +
                    std::string(1000, '\xff'));
  });
  EXPECT_TRUE(contains(binary, "another format") || binary.ends_with(" ...")) << binary;
  EXPECT_TRUE(std::all_of(binary.begin(), binary.end(), [](char c) { return c >= ' ' && c <= '~'; })) << binary;
  LockFile f;
  EXPECT_TRUE(contains(user_error([&] { f.set("d", "p", {"a\nb", "w", "", 1}); }), "line ends"));
  EXPECT_TRUE(contains(user_error([&] { f.set("d", "two words", {"a", "w", "", 1}); }), "must be words"));
}

TEST(LockFile, Drift) {
  const LockFile f = two();
  std::vector<LockFile::Now> now = {{"NVIDIA H200", "a1", {"template", "x"}, "00aa"},
                                    {"NVIDIA H200", "b2", {"x", "gemm_wgmma(block_m=128,block_n=256)"}, "77fe"}};
  EXPECT_TRUE(f.drift(now).empty());
  now[0].kernels = "00ab";
  now[1].candidates.pop_back();
  now.push_back({"NVIDIA H200", "c3", {"x"}, ""});
  EXPECT_EQ(f.drift(now),
            (std::vector<std::string>{"bmm on NVIDIA H200: the kernels of template are 00ab, the file has 00aa",
                                      "mm \"x\" \\ y on NVIDIA H200: there is no candidate gemm_wgmma(block_m=128,block_n=256) any more",
                                      "problem c3 on NVIDIA H200: the file decides nothing"}));
  EXPECT_EQ(f.drift({{"CPU avx512", "z", {}, "", "mm"}}),
            (std::vector<std::string>{"mm, problem z on CPU avx512: the file decides nothing",
                                      "conv on CPU avx512: the build has no problem a1 any more"}));
}

}  // namespace
}  // namespace toroid::tune
