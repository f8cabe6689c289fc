#include "jit/artefact_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/options.h"
#include "jit/temp_cache.h"

namespace toroid::jit {
namespace {

namespace fs = std::filesystem;
using testing::TempCache;

fs::path object_path(const ArtefactCache& cache, const Hash128& key) { return cache.source_path(key).replace_extension(".o"); }

void set_age(const fs::path& path, int seconds) {
  timespec times[2] = {};
  clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(ArtefactCache, KeepsObjectAndSource) {
  TempCache temp;
  Hash128 key = hash_text("a");
  EXPECT_EQ(temp.open()->load(key), std::nullopt);
  EXPECT_TRUE(temp.open()->store(key, "object", "source"));
  auto cache = temp.open();
  EXPECT_EQ(cache->load(key), "object");
  EXPECT_EQ(read_file(cache->source_path(key)), "source");
  EXPECT_EQ(cache->load(hash_text("b")), std::nullopt);
  CacheStats stats = cache->stats();
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.entries, 1u);
  EXPECT_EQ(cache->list().at(0).key, key.hex());
  EXPECT_EQ(cache->list().at(0).bytes, stats.bytes);
}

TEST(ArtefactCache, DamagedFilesAreMissesAndAreReplaced) {
  TempCache temp;
  auto cache = temp.open();
  Hash128 key = hash_text("a");
  std::string object(200, 'o');
  ASSERT_TRUE(cache->store(key, object, "source"));
  const std::string good = read_file(object_path(*cache, key));
  uint64_t damaged = 0;
  for (size_t n = 0; n < good.size(); n += 7) {  // truncated
    write_file_atomic(object_path(*cache, key), good.substr(0, n));
    EXPECT_EQ(cache->load(key), std::nullopt) << n;
    ++damaged;
  }
  for (size_t at = 0; at < good.size(); ++at) {  // one bit flipped
    std::string bad = good;
    bad[at] = char(bad[at] ^ (1 << at % 8));
    write_file_atomic(object_path(*cache, key), bad);
    EXPECT_EQ(cache->load(key), std::nullopt) << at;
    ++damaged;
  }
  EXPECT_EQ(cache->stats().damaged, damaged);
  ASSERT_TRUE(cache->store(key, object, "source"));
  EXPECT_EQ(cache->load(key), object);
}

TEST(ArtefactCache, AnotherKeysFileIsAMiss) {
  TempCache temp;
  auto cache = temp.open();
  Hash128 a = hash_text("a"), b = hash_text("b");
  ASSERT_TRUE(cache->store(a, "object", "source"));
  fs::create_directories(object_path(*cache, b).parent_path());
  fs::copy_file(object_path(*cache, a), object_path(*cache, b));
  EXPECT_EQ(cache->load(b), std::nullopt);
}

TEST(ArtefactCache, EvictsTheLeastRecentlyUsed) {
  TempCache temp;
  auto cache = temp.open(10000);
  std::vector<Hash128> keys;
  for (int i = 0; i < 8; ++i) {
    keys.push_back(hash_text(std::to_string(i)));
    ASSERT_TRUE(cache->store(keys[i], std::string(1000, 'o'), std::string(100, 's')));
    set_age(object_path(*cache, keys[i]), 100 - i);
  }
  EXPECT_TRUE(cache->load(keys[0]));  // used again: now the youngest
  for (int i = 8; i < 10; ++i) {
    keys.push_back(hash_text(std::to_string(i)));
    ASSERT_TRUE(cache->store(keys[i], std::string(1000, 'o'), std::string(100, 's')));
  }
  EXPECT_LE(cache->stats().bytes, 10000u);
  EXPECT_GT(cache->stats().evictions, 0u);
  EXPECT_TRUE(cache->load(keys[0]));
  EXPECT_FALSE(cache->load(keys[1]));
  EXPECT_FALSE(fs::exists(cache->source_path(keys[1])));
  EXPECT_TRUE(cache->load(keys[9]));
}

TEST(ArtefactCache, CountsWhatOtherProcessesStored) {
  TempCache temp;
  auto mine = temp.open(20000), other = temp.open(1 << 20);
  ASSERT_TRUE(mine->store(hash_text("first"), "x", "y"));
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(other->store(hash_text(std::to_string(i)), std::string(1000, 'o'), ""));
  for (int i = 100; i < 103; ++i) ASSERT_TRUE(mine->store(hash_text(std::to_string(i)), std::string(1000, 'o'), ""));
  EXPECT_LE(mine->stats().bytes, 20000u);
}

TEST(ArtefactCache, ClearRemovesItsOwnFilesAlone) {
  TempCache temp;
  auto cache = temp.open();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(cache->store(hash_text(std::to_string(i)), "o", "s"));
  fs::create_directories(temp.root / "ab");
  std::ofstream(temp.root / "ab" / "notes.c") << "mine";
  std::ofstream(temp.root / "notes.o") << "mine";
  EXPECT_EQ(cache->clear(), 5u);
  EXPECT_EQ(cache->stats().entries, 0u);
  EXPECT_TRUE(fs::exists(temp.root / "ab" / "notes.c"));
  EXPECT_TRUE(fs::exists(temp.root / "notes.o"));
  EXPECT_EQ(cache->load(hash_text("0")), std::nullopt);
}

TEST(ArtefactCache, RefusingDiskIsCountedAndNamed) {
  TempCache temp;
  std::ofstream(temp.root / "file") << "in the way";  // a file where the folder should be: refused even for root
  ArtefactCache cache(temp.root / "file", 1 << 20);
  EXPECT_FALSE(cache.store(hash_text("a"), "object", "source"));
  EXPECT_EQ(cache.stats().errors, 1u);
  EXPECT_NE(cache.last_problem().find("was compiled but not kept"), std::string::npos) << cache.last_problem();
  EXPECT_EQ(cache.load(hash_text("a")), std::nullopt);
}

TEST(ArtefactCache, FullDiskIsNotFatal) {
  TempCache temp;
  ArtefactCache cache(temp.root, 1 << 20);
  // A limit on the size of files stops a write in its middle, as a full disk does.
  auto former = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small{5000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  bool stored = cache.store(hash_text("a"), std::string(8000, 'o'), "source");
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, former);
  EXPECT_FALSE(stored);
  EXPECT_EQ(cache.stats().errors, 1u);
  EXPECT_FALSE(cache.last_problem().empty());
  EXPECT_EQ(cache.load(hash_text("a")), std::nullopt);
  for (const auto& e : fs::directory_iterator(object_path(cache, hash_text("a")).parent_path())) {
    EXPECT_FALSE(e.path().filename().string().starts_with(".toroid-tmp-"));
  }
  EXPECT_TRUE(cache.store(hash_text("a"), std::string(8000, 'o'), "source"));
}

TEST(ArtefactCache, ReadOnlyFolderStillServes) {
  TempCache temp;
  ASSERT_TRUE(temp.open()->store(hash_text("a"), "object", "source"));
  fs::path folder = object_path(*temp.open(), hash_text("a")).parent_path();
  const fs::perms readable{0555};
  fs::permissions(folder, readable);
  fs::permissions(temp.root, readable);
  pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    // Permissions do not bind root: become somebody else.
    if (geteuid() == 0 && setuid(65534) != 0) _exit(77);
    auto cache = temp.open();
    bool good = cache->load(hash_text("a")) == "object" && cache->stats().errors == 0;
    good = good && !cache->store(hash_text("a"), "object", "source") && cache->stats().errors == 1 && !cache->last_problem().empty();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  fs::permissions(temp.root, fs::perms::owner_all);
  fs::permissions(folder, fs::perms::owner_all);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "cannot give up root's rights here";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ArtefactCache, FollowsTheOptions) {
  TempCache temp;
  ScopedOption folder("cache_dir", temp.root.string());
  auto cache = shared_cache();
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->root(), temp.root / "kernels");
  EXPECT_EQ(shared_cache(), cache);
  ScopedOption off("cache", "0");
  std::string problem;
  EXPECT_EQ(shared_cache(&problem), nullptr);
  EXPECT_FALSE(problem.empty());
}

TEST(ArtefactCache, ManyThreadsOnOneSmallCache) {
  TempCache temp;
  auto cache = temp.open(20000);
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          std::string name = std::to_string((i * 7 + t) % 30);
          Hash128 key = hash_text(name);
          std::string object = name + std::string(1000, 'o');
          if (auto found = cache->load(key))
            wrong += *found != object;
          else
            cache->store(key, object, name);
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(cache->stats().damaged, 0u);
}

}  // namespace
}  // namespace toroid::jit
