// What is remembered, and what happens where it cannot be.
#include "tune/memory/database.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

#include "base/files.h"
#include "base/options.h"
#include "errors.h"
#include "tune/memory/sqlite.h"

namespace toroid::tune {
namespace {

namespace fs = std::filesystem;
using test::contains;

struct DatabaseTest : testing::Test {
  fs::path folder = make_temp_dir();
  fs::path file = folder / "tuning.sqlite";
  ~DatabaseTest() override { fs::remove_all(folder); }
};

const TuneKey kKey{"problem", "H200", "rev 1"};

CandidateRecord record(const std::string& name, double ratio) {
  return {name, Outcome::Timed, "", ratio, ratio * 0.99, ratio * 1.01, 1000 * ratio, 0.004, 18, 77, "k"};
}

// The exit status of a process that does this: 0 where it returns true. 77 is handed through.
int in_process(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 1;
    try {
      status = body();
    } catch (const std::exception& e) {
      fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(DatabaseTest, RemembersCandidatesAndDecisions) {
  const std::vector<CandidateRecord> records = {
      record("a", 1), record("b", 0.8), {"c", Outcome::NotEquivalent, "result 0 is nan", 0, 0, 0, 0, 0, 0, 78, ""}};
  const DecisionRecord d{"mm", "b", {"a", "b", "c"}, "00ff", 0.8, 0.01, 0.002};
  {
    Database db(file);
    EXPECT_TRUE(db.records(kKey).empty());
    EXPECT_TRUE(db.store(kKey, records)) << db.problem();
    EXPECT_TRUE(db.store(kKey, d)) << db.problem();
    EXPECT_EQ(db.problem(), "");
  }
  Database db(file);
  EXPECT_EQ(db.records(kKey), records);
  EXPECT_EQ(db.decision(kKey, {"c", "b", "a"}), d);
  EXPECT_EQ(db.decision(kKey, {"b", "a"}), std::nullopt);  // another set of candidates
  for (const TuneKey& other : {TuneKey{"p", "H200", "rev 1"}, TuneKey{"problem", "A100", "rev 1"}, TuneKey{"problem", "H200", "rev 2"}}) {
    EXPECT_TRUE(db.records(other).empty());
    EXPECT_EQ(db.decision(other, {"a", "b", "c"}), std::nullopt);
  }
  const CandidateRecord again = record("b", 0.7);
  EXPECT_TRUE(db.store(kKey, std::span(&again, 1)));
  EXPECT_EQ(db.records(kKey)[1], again);
  ASSERT_EQ(db.decisions().size(), 1u);
  EXPECT_EQ(db.decisions()[0].key, kKey);
}

TEST_F(DatabaseTest, OneMissingCandidateIsTimedAlone) {
  const std::vector<std::string> names = {"default", "x", "y", "new", "bad", "hung"};
  std::vector<CandidateRecord> known = {
      record("default", 1), record("x", 0.9), record("y", 0.7), {"bad", Outcome::NotEquivalent, "error 3"}};
  known.push_back({"hung", Outcome::TimedOut, "60 s", 0, 0, 0, 0, 0, 0, 1000, ""});
  Missing m = missing(names, known, 1, 1000 + 3599);
  EXPECT_EQ(m.time, (std::vector<size_t>{0, 2, 3}));  // the default, the best known and the new one
  EXPECT_EQ(m.refusals[4], "not equivalent: error 3");
  EXPECT_EQ(m.refusals[5], "timed out: 60 s");
  m = missing(names, known, 1, 1000 + 3600);
  EXPECT_EQ(m.time, (std::vector<size_t>{0, 2, 3, 5}));  // tried again after a while
  EXPECT_EQ(missing(names, known, 0, 1000).time, (std::vector<size_t>{0, 2, 3, 5}));
  known.push_back(record("new", 2));
  EXPECT_TRUE(missing(names, known, 1, 1001).time.empty());
  EXPECT_EQ(missing(names, {}, 1, 0).time.size(), names.size());
}

TEST_F(DatabaseTest, VerdictsAreRemembered) {
  const std::vector<std::string> names = {"default", "fast", "broken", "hopeless"};
  const double us[] = {100, 80, 0, 900};
  const Verdict v = measure(4, [&](size_t i) { return i == 2 ? throw EnvironmentError("no") : us[i] * 1000; });
  const auto records = records_of(v, names);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_NEAR(records[1].ratio, 0.8, 1e-9);
  EXPECT_EQ(records[2].outcome, Outcome::Failed);
  EXPECT_EQ(records[2].reason, "no");
  EXPECT_EQ(records[3].ratio, 9);
  Database db(file);
  EXPECT_TRUE(db.store(kKey, records));
  const Missing m = missing(names, db.records(kKey), 1, seconds_now());
  EXPECT_TRUE(m.time.empty());
  EXPECT_EQ(m.refusals[2], "failed: no");
  Verdict late;
  late.candidates.resize(1);
  late.candidates[0].status = "not run: the budget was used before";
  EXPECT_TRUE(records_of(late, std::span(names).first(1)).empty());
}

TEST_F(DatabaseTest, EightProcessesAtOnce) {
  constexpr int kProcesses = 8, kEach = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      Database db(file, 20'000);
      bool good = true;
      for (int i = 0; i < kEach; ++i) {
        const CandidateRecord r = record(std::to_string(p) + "." + std::to_string(i), 1);
        good = db.store(kKey, std::span(&r, 1)) && good;
        good = db.store({"shared", "", ""}, DecisionRecord{"x", "w", {"w"}, "", 1, 0, 0}) && good;
        good = db.decision({"shared", "", ""}, {"w"}).has_value() && good;
        if (p == 7 && i == kEach - 1) ::kill(::getpid(), SIGKILL);  // one ends without closing anything
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (int p = 0; p < kProcesses; ++p) {
    int status = 0;
    ::waitpid(children[static_cast<size_t>(p)], &status, 0);
    EXPECT_TRUE(p == 7 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0) << p;
  }
  Database db(file);
  EXPECT_EQ(db.records(kKey).size(), static_cast<size_t>(kProcesses * kEach));
  EXPECT_EQ(db.problem(), "");
}

TEST_F(DatabaseTest, ThreadsAndForks) {
  Database db(file);
  const CandidateRecord r = record("before", 1);
  EXPECT_TRUE(db.store(kKey, std::span(&r, 1)));
  EXPECT_EQ(in_process([&] {  // has a connection of its own
              const CandidateRecord other = record("forked", 1);
              return db.records(kKey).size() == 1 && db.store(kKey, std::span(&other, 1)) ? 0 : 1;
            }),
            0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const CandidateRecord other = record(std::to_string(t * 10 + i), 1);
        EXPECT_TRUE(db.store(kKey, std::span(&other, 1)));
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(db.records(kKey).size(), 42u);
}

TEST_F(DatabaseTest, Locked) {
  Database db(file, 50);
  const CandidateRecord r = record("a", 1);
  EXPECT_TRUE(db.store(kKey, std::span(&r, 1)));
  {
    Sqlite other(file.string(), Sqlite::Mode::Write, 0);
    other.run("BEGIN EXCLUSIVE");
    const CandidateRecord b = record("b", 1);
    EXPECT_FALSE(db.store(kKey, std::span(&b, 1)));
    EXPECT_TRUE(contains(db.problem(), "locked")) << db.problem();
    EXPECT_EQ(db.records(kKey).size(), 1u);  // reading goes on
    other.run("ROLLBACK");
  }
  EXPECT_TRUE(db.store(kKey, std::span(&r, 1)));
}

TEST_F(DatabaseTest, DamagedFilesAreMovedAside) {
  const CandidateRecord r = record("a", 1);
  {
    Database db(file);
    EXPECT_TRUE(db.store(kKey, std::span(&r, 1)));
  }
  const std::string good = read_file(file);
  std::string half = good;
  for (size_t i = 100; i < half.size(); ++i) half[i] = static_cast<char>(i * 31);
  int number = 0;
  for (const std::string& bad :
       {std::string("this is no database, but long enough to be taken for one"), half, good.substr(0, good.size() / 2)}) {
    std::ofstream(file, std::ios::binary) << bad;
    Database db(file);
    db.records(kKey);
    EXPECT_TRUE(db.store(kKey, std::span(&r, 1))) << db.problem();
    EXPECT_TRUE(contains(db.problem(), "was damaged")) << db.problem();
    const fs::path aside = file.string() + ".damaged-" + std::to_string(++number);
    EXPECT_TRUE(fs::exists(aside));
    EXPECT_EQ(db.records(kKey).size(), 1u);
    fs::remove(file.string() + "-wal"), fs::remove(file.string() + "-shm");
  }
}

TEST_F(DatabaseTest, AFileThatIsReplacedMeanwhile) {
  Database db(file);
  const CandidateRecord a = record("a", 1), b = record("b", 1);
  EXPECT_TRUE(db.store(kKey, std::span(&a, 1)));
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file.string() + suffix);
  EXPECT_TRUE(db.store(kKey, std::span(&b, 1))) << db.problem();
  EXPECT_EQ(Database(file).records(kKey).size(), 1u);
  fs::remove_all(folder);  // the folder is made again
  EXPECT_TRUE(db.store(kKey, std::span(&b, 1))) << db.problem();
  EXPECT_EQ(Database(file).records(kKey).size(), 1u);
}

TEST_F(DatabaseTest, FoldersThatCannotBeWritten) {
  const CandidateRecord r = record("a", 1);
  Database none("/proc/toroid/tuning.sqlite");
  EXPECT_TRUE(none.records(kKey).empty());
  EXPECT_FALSE(none.store(kKey, std::span(&r, 1)));
  EXPECT_TRUE(contains(none.problem(), "unable to open")) << none.problem();
  {
    Database db(file);
    EXPECT_TRUE(db.store(kKey, std::span(&r, 1)));
  }
  const int status = in_process([&] {  // what was remembered can be read where nothing can be written
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr) != 0 ||
        ::mount("none", folder.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return 77;
    Database db(file);
    if (db.records(kKey).size() != 1 || db.store(kKey, std::span(&r, 1))) return 1;
    return db.problem().empty() ? 2 : 0;
  });
  if (status == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(status, 0);
}

TEST_F(DatabaseTest, FullDisk) {
  const int status = in_process([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=160k") != 0)
      return 77;
    Database db(file);
    int stored = 0;
    for (; stored < 10'000; ++stored) {
      const CandidateRecord r = record(std::to_string(stored) + std::string(500, 'x'), 1);
      if (!db.store(kKey, std::span(&r, 1))) break;
    }
    if (stored == 0 || stored == 10'000 || !contains(db.problem(), "full"))
      return fprintf(stderr, "%d %s\n", stored, db.problem().c_str()), 1;
    return Database(file).records(kKey).size() == static_cast<size_t>(stored) ? 0 : 2;
  });
  if (status == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_EQ(status, 0);
}

TEST_F(DatabaseTest, TheOneThatTheOptionsName) {
  ScopedOption dir("cache_dir", folder.string());
  EXPECT_EQ(shared_database("")->file(), folder / "tuning-1.sqlite");
  EXPECT_EQ(shared_database(""), shared_database(""));
  EXPECT_EQ(shared_database(file.string())->file(), file);
  std::string problem;
  EXPECT_EQ(shared_database("none", &problem), nullptr);
  EXPECT_TRUE(contains(problem, "none"));
}

}  // namespace
}  // namespace toroid::tune
