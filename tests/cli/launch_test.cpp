// toroid launch: what ranks say, how they end, and that none is left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "cli/harness.h"
#include "errors.h"

namespace toroid {
namespace {

using test::contains;
using test::toroid_command;

class LaunchCommand : public testing::Test {
 protected:
  void SetUp() override {
#ifndef TOROID_WITH_MPI
    GTEST_SKIP() << "built without MPI (package libopenmpi-dev)";
#endif
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "mpirun is missing (package openmpi-bin)";
  }
};

TEST_F(LaunchCommand, PutsTheRankBeforeEachLine) {
  const auto out =
      toroid_command(R"(launch -n 3 -- bash -c 'echo "rank $RANK of $WORLD_SIZE: $0 $1"; echo problem >&2; printf rest' a --b)");
  EXPECT_EQ(out.code, 0) << out.text;
  for (int r = 0; r < 3; ++r)
    for (const std::string& line : {fmt::format("rank {} of 3: a --b", r), std::string("problem"), std::string("rest")})
      EXPECT_TRUE(contains("\n" + out.text, fmt::format("\n[{}] {}\n", r, line))) << out.text;
}

TEST_F(LaunchCommand, LosesNoOutput) {
  const auto out = toroid_command("launch -n 2 bash -c 'seq 20000; head -c 9000 /dev/zero | tr \"\\0\" x; echo; kill -9 $$'");
  EXPECT_EQ(out.code, 128 + 9);
  std::istringstream lines(out.text);
  int next[2] = {1, 1};
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 5 || line[0] != '[' || line[4] == 'x') continue;
    int& expected = next[line[1] - '0'];
    ASSERT_EQ(line.substr(4), std::to_string(expected)) << line;
    ++expected;
  }
  EXPECT_EQ(next[0], 20001);
  EXPECT_EQ(next[1], 20001);
}

TEST_F(LaunchCommand, SaysWhoFailedFirstAndHow) {
  auto out = toroid_command("launch --grace=0.1 -n 3 bash -c '[ $RANK != 2 ] || exit 7; sleep 60'");
  EXPECT_EQ(out.code, 7) << out.text;
  EXPECT_TRUE(contains(out.text, "toroid: rank 2 ended with exit code 7; it was the first that failed")) << out.text;
  out = toroid_command("launch --grace 0.1 -n 2 bash -c '[ $RANK = 0 ] || kill -SEGV $$; trap \"\" TERM; sleep 0.5; echo stays'");
  EXPECT_EQ(out.code, 128 + 11) << out.text;
  EXPECT_TRUE(contains(out.text, "rank 1 was ended by signal 11 (Segmentation fault)")) << out.text;
  out = toroid_command("launch -n 2 missing-program");
  EXPECT_EQ(out.code, 127);
  EXPECT_TRUE(contains(out.text, "could not be started: missing-program: No such file")) << out.text;
}

// Signals reach the ranks; a launcher that is killed takes all with it.
TEST_F(LaunchCommand, PassesSignalsOnAndLeavesNobody) {
  const auto folder = make_temp_dir();
  const std::string file = (folder / "up").string();
  const auto wait_for_two = "while [ \"$(cat " + file + ".* 2>/dev/null | wc -l)\" != 2 ]; do sleep 0.05; done; ";
  const std::string body = "bash -c 'trap \"echo heard; exit 0\" TERM; echo $$ > " + file + ".$RANK; while true; do sleep 0.05; done'";
  auto out = toroid_command("launch -n 2 " + body + " & " + wait_for_two + "kill -TERM $!; wait $!; true");
  EXPECT_TRUE(contains(out.text, "[0] heard") && contains(out.text, "[1] heard")) << out.text;
  std::filesystem::remove(file + ".0");
  std::filesystem::remove(file + ".1");
  toroid_command("launch -n 2 " + body + " & " + wait_for_two + "kill -KILL $!; wait $! 2>/dev/null; true");
  for (const char* rank : {".0", ".1"}) {
    const std::string pid = read_file(file + rank).substr(0, read_file(file + rank).find('\n'));
    bool is_there = true;
    for (int i = 0; i < 1000 && is_there; ++i) {
      std::ifstream stat("/proc/" + pid + "/stat");
      std::string number, name, status;
      is_there = static_cast<bool>(stat >> number >> name >> status) && status != "Z";
      if (is_there) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_FALSE(is_there) << "an orphan: " << pid;
  }
  std::filesystem::remove_all(folder);
}

TEST(LaunchCalls, BadOnesSayWhatIsMissing) {
  EXPECT_TRUE(contains(toroid_command("launch true").text, "how many ranks? `toroid launch -n 4 PROGRAM ARGUMENTS`"));
  EXPECT_TRUE(contains(toroid_command("launch -n 2").text, "which program?"));
  EXPECT_TRUE(contains(toroid_command("launch --rank 2 true").text, "did you mean \"--ranks\""));
  const auto out = toroid_command("launch -n 2 true", "PATH=/nowhere");
  EXPECT_EQ(out.code, 3);
  EXPECT_TRUE(contains(out.text, "install Open MPI (Debian: apt-get install openmpi-bin)")) << out.text;
}

}  // namespace
}  // namespace toroid
