// Locks that are files: one holder at a time, and none that has died.
#include "base/file_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>

#include "base/files.h"
#include "temp_folder.h"

namespace toroid {
namespace {

TEST(FileLock, OneHolderAtATime) {
  const test::TempFolder folder;
  const auto path = folder.path / "lock";
  std::optional<FileLock> first(std::in_place, path, 0);
  ASSERT_TRUE(first->held() && !first->waited()) << first->refusal();
  {
    const FileLock second(path, 20);
    EXPECT_TRUE(!second.held() && second.waited());
    EXPECT_NE(second.refusal().find("20 ms"), std::string::npos) << second.refusal();
  }
  EXPECT_TRUE(std::filesystem::exists(path)) << "who has not got it may not remove it";
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    first.reset();
  });
  const FileLock third(path, 10'000);
  release.join();
  EXPECT_TRUE(third.held() && third.waited()) << third.refusal();
}

TEST(FileLock, OfAProcessThatDiedIsFree) {
  const test::TempFolder folder;
  const auto path = folder.path / "lock";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(path, 0);
    const char got = lock.held() ? 'y' : 'n';
    if (::write(ready[1], &got, 1) == 1) ::pause();
    ::_exit(1);
  }
  char got = 0;
  ASSERT_EQ(::read(ready[0], &got, 1), 1);
  EXPECT_EQ(got, 'y');
  EXPECT_FALSE(FileLock(path, 0).held());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock(path, 1000).held());
  ::close(ready[0]), ::close(ready[1]);
}

TEST(FileLock, AFolderThatIsMissingIsSaid) {
  const FileLock lock("/no/such/folder/lock", 1000);
  EXPECT_TRUE(!lock.held() && lock.refusal().find("/no/such/folder/lock") != std::string::npos) << lock.refusal();
}

}  // namespace
}  // namespace toroid
