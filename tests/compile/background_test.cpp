// Work that is done when its caller has gone on.
#include "compile/background.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace toroid {
namespace {

using compiler::after_return;
using compiler::beside_calls;
using compiler::wait_for_background;

TEST(Background, DoesAllInTheOrderGiven) {
  std::vector<int> done;
  std::mutex held;
  held.lock();
  for (int i = 0; i < 50; ++i)
    after_return([&, i] {
      std::lock_guard lock(held);  // whoever did it before returning would wait for itself
      done.push_back(i);
      if (i == 20) after_return([&] { done.push_back(100); });
    });
  held.unlock();
  wait_for_background();
  ASSERT_EQ(done.size(), 51u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_EQ(done.back(), 100);
}

TEST(Background, TakesWorkOfManyThreads) {
  std::atomic<int> done = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        after_return([&] { ++done; });
        if (i % 40 == 0) wait_for_background();  // the thread ends, and another begins
      }
    });
  threads.clear();
  wait_for_background();
  EXPECT_EQ(done, 800);
}

// Long work does not hold up what is done after a return.
TEST(Background, TuningHasAThreadOfItsOwn) {
  std::atomic<bool> written = false, tuned = false;
  EXPECT_TRUE(beside_calls([&] {
    written.wait(false);  // for ever, if both had one thread
    tuned = true;
  }));
  after_return([&] {
    written = true;
    written.notify_all();
  });
  wait_for_background();
  EXPECT_TRUE(tuned);
  EXPECT_FALSE(compiler::background_ends());
}

// A fork has no thread but its own; what it is given is done, and it does not wait for what its parent was given.
TEST(Background, OfAForkIsItsOwn) {
  std::mutex held;
  held.lock();
  std::atomic<bool> done = false;
  after_return([&] {
    std::lock_guard lock(held);
    done = true;
  });
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<bool> own = false;
    after_return([&] { own = true; });
    wait_for_background();
    ::_exit(own && !done ? 7 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  held.unlock();
  wait_for_background();
  EXPECT_TRUE(done);
}

// What was given is done before the process ends.
TEST(Background, IsWaitedForByTheEndOfTheProcess) {
  EXPECT_EXIT(
      {
        after_return([] {
          ::usleep(50000);
          ::dprintf(2, "done");
        });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "done");
}

}  // namespace
}  // namespace toroid
