// Process groups whose ranks are processes: values, what does not fit together, and ranks that fail.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "base/files.h"
#include "dist/processes.h"
#include "errors.h"
#include "toroid/distributed.h"

namespace toroid {
namespace {

using test::contains;
using test::run_ranks;

class Mpi : public testing::Test {
 protected:
  void SetUp() override {
#ifndef TOROID_WITH_MPI
    GTEST_SKIP() << "built without MPI (package libopenmpi-dev)";
#endif
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "mpirun is missing (package openmpi-bin)";
  }
};

int count(const std::string& text, const std::string& part) {
  int out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

void expect_all_done(int ranks, const std::string& body, const std::string& before = "") {
  const auto out = run_ranks(ranks, body, before);
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_EQ(count(out.text, ": done\n"), ranks) << out.text;
}

TEST_F(Mpi, GivesTheBitsOfThreadsOnTwo) { expect_all_done(2, "values"); }
TEST_F(Mpi, MovesLargeTensorsInPieces) { expect_all_done(3, "large"); }
TEST_F(Mpi, ToldApartCallsThatDoNotFit) {
  expect_all_done(2, "mismatch");
  expect_all_done(3, "mismatch");
}
TEST_F(Mpi, MakesAndDestroysAThousandGroups) { expect_all_done(3, "groups"); }
TEST_F(Mpi, IsTheWorldOfAllThreads) { expect_all_done(2, "from_threads"); }
TEST_F(Mpi, KeepsGroupsOfThreadsApart) { expect_all_done(2, "groups_of_threads"); }
TEST_F(Mpi, HasWorldsOfOneRank) { expect_all_done(1, "large"); }

// All that survive are told who it was, what they wait in, and where that is written.
void expect_told(const std::string& fault, int ranks, int told, const std::string& reason) {
  const auto out = run_ranks(ranks, "sums", "TOROID_DIST_TIMEOUT_MS=1500 TOROID_FAULT=" + fault);
  EXPECT_NE(out.code, 124) << "a hang\n" << out.text;
  EXPECT_EQ(count(out.text, "told what failed: group \"world\": all_reduce(sum) of f64[20000] at rank_bodies.cpp:"), told) << out.text;
  EXPECT_EQ(count(out.text, "cannot be done: " + reason), 2 * told) << out.text;  // and again where the group is used once more
  EXPECT_LT(out.seconds, 15) << out.text;
}

const std::string kDidNotCome = "rank 1 did not come, which was last at all_reduce(sum) of f64[20000] at rank_bodies.cpp:";

TEST_F(Mpi, NamesARankThatDied) { expect_told("die:1:6", 4, 3, kDidNotCome); }
TEST_F(Mpi, NamesARankThatDiedWhileTheDataMoved) { expect_told("break:1:6", 3, 2, "rank 1 stopped while the data moved"); }
TEST_F(Mpi, NamesARankThatExited) { expect_told("exit:0:6", 2, 1, "rank 0 did not come, which was last at"); }
TEST_F(Mpi, NamesARankThatIsLate) { expect_told("sleep:1:6:3500", 3, 3, kDidNotCome); }

TEST_F(Mpi, TellsOfARankThatLeaves) {
  const auto out = run_ranks(3, "one_leaves", "TOROID_DIST_TIMEOUT_MS=40000");
  EXPECT_EQ(count(out.text, "told: group \"world\": barrier at rank_bodies.cpp:"), 2) << out.text;
  EXPECT_EQ(count(out.text, "cannot be done: rank 1 failed: no space left"), 2) << out.text;
  EXPECT_LT(out.seconds, 20) << "nobody waits for the limit";
}

TEST_F(Mpi, TellsAllOfAMismatchOnDemand) {
  const auto out = run_ranks(3, "sums", "TOROID_FAULT=mismatch:2:6");
  EXPECT_EQ(count(out.text, "told what is wrong: "), 3) << out.text;
  EXPECT_EQ(count(out.text, "rank 2 called all_reduce(sum) of f64[20001] at rank_bodies.cpp:"), 3) << out.text;
}

TEST_F(Mpi, FinalizeNamesARankThatDied) {
  const auto out = run_ranks(2, "from_threads", "TOROID_DIST_TIMEOUT_MS=1500 TOROID_FAULT=die:1:5");
  EXPECT_TRUE(contains(out.text, "rank 0: failed: group \"world\": barrier at distributed::finalize cannot be done: rank 1 did not come"))
      << out.text;
}

// Within some seconds: a process that was killed may take its time to end, and be listed until its parent looks.
bool ends(const std::string& pid) {
  for (int i = 0; i < 500; ++i) {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string number, name, status;
    if (!(file >> number >> name >> status) || status == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(Mpi, EndsAllWhereOneAborts) {
  const auto out = run_ranks(3, "one_aborts", "", false);
  EXPECT_EQ(out.code, 9) << out.text;
  const std::regex pid("pid ([0-9]+)");
  int seen = 0;
  for (std::sregex_iterator at(out.text.begin(), out.text.end(), pid), end; at != end; ++at, ++seen)
    EXPECT_TRUE(ends((*at)[1])) << "an orphan: " << at->str();
  EXPECT_EQ(seen, 3) << out.text;
}

TEST_F(Mpi, TellsOfARankThatAbortsWhereMpirunEndsNobody) {
  const auto out = run_ranks(3, "one_aborts", "TOROID_DIST_TIMEOUT_MS=40000");
  EXPECT_EQ(count(out.text, "cannot be done: rank 1 failed: it called distributed::abort"), 2) << out.text;
  EXPECT_LT(out.seconds, 20) << "nobody waits for the limit";
}

TEST_F(Mpi, InitNamesRanksThatDoNotCome) {
  const auto folder = make_temp_dir();
  const auto out = run_ranks(2, "late_to_init", "TOROID_LAUNCH=" + folder.string());
  EXPECT_TRUE(contains(out.text, "rank 0: told: distributed::init: rank 1 did not come within 1 s")) << out.text;
  std::filesystem::remove_all(folder);
}

TEST_F(Mpi, SaysWhatToInstall) {
  const auto out = run_ranks(1, "no_library", "TOROID_MPI_LIBRARY=missing/libtoroid_mpi.so");
  EXPECT_TRUE(contains(out.text, "MPI between processes cannot be loaded:")) << out.text;
  EXPECT_TRUE(contains(out.text, "apt-get install libopenmpi-dev openmpi-bin")) << out.text;
}

TEST(ProcessGroups, AreRefusedWhereNobodyStartedRanks) {
  EXPECT_TRUE(contains(test::user_error([] { distributed::init(); }), "run the program by `toroid launch -n 4 PROGRAM` or mpirun"));
  EXPECT_TRUE(contains(test::user_error([] { distributed::finalize(); }), "call distributed::init first"));
  EXPECT_TRUE(contains(test::user_error([] { distributed::abort(0); }), "expected 1 to 255"));
  EXPECT_TRUE(contains(test::user_error([] { distributed::abort(1); }), "call distributed::init first"));
}

}  // namespace
}  // namespace toroid
