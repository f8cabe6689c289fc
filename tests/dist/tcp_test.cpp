// Messages over TCP: between transports of one process, and as what carries the groups of ranks that were started without MPI.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <limits>
#include <map>
#include <numeric>
#include <thread>

#include "dist/messages/batch.h"
#include "dist/processes.h"
#include "dist/tcp/tcp_transport.h"
#include "errors.h"

namespace toroid {
namespace {

using distributed::messages::Batch;
using distributed::messages::Transport;
using distributed::tcp::make_transport;
using distributed::tcp::Socket;
using test::contains;
using test::run_apart;

// Two ranks of one process.
struct Pair {
  Pair() {
    int files[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, files), 0);
    other = files[1];
    std::vector<Socket> of_first(2), of_second(2);
    of_first[1] = Socket(files[0]);
    of_second[0] = Socket(files[1]);
    first = make_transport(0, std::move(of_first));
    second = make_transport(1, std::move(of_second));
  }
  std::unique_ptr<Transport> first, second;
  int other;  // the second one's file
};

std::string text_of(const Batch& b, size_t place) {
  const auto got = b.received(place);
  return {reinterpret_cast<const char*>(got.data()), got.size()};
}

TEST(TcpTransport, KeepsTheOrderOfATag) {
  Pair p;
  Batch given(*p.first, 7), other(*p.first, 8);
  other.send(1, "of 8", 4);
  for (const char* text : {"a", "bc", ""}) given.send(1, text, static_cast<int64_t>(std::strlen(text)));
  EXPECT_TRUE(given.poll() && other.poll());
  Batch early(*p.second, 7);
  EXPECT_EQ(early.receive(0, 9), 0u);
  while (!early.poll()) {
  }
  EXPECT_EQ(text_of(early, 0), "a");
  ASSERT_TRUE(p.second->find(8));
  EXPECT_EQ(p.second->find(8)->bytes, 4);
  EXPECT_FALSE(p.second->find(9));
  Batch late(*p.second, 7);
  for (int i = 0; i < 2; ++i) late.receive(0, 9);
  EXPECT_TRUE(late.poll());
  EXPECT_EQ(text_of(late, 0) + "|" + text_of(late, 1), "bc|");
}

// More than the system keeps on its way: both sides take turns, and a receive may be asked for when a part has come.
TEST(TcpTransport, MovesWhatIsLarge) {
  Pair p;
  std::vector<uint32_t> numbers(3'000'000);
  std::iota(numbers.begin(), numbers.end(), 0u);
  const auto bytes = static_cast<int64_t>(numbers.size() * sizeof numbers[0]);
  for (int polls_before : {0, 1, 20}) {
    Batch given(*p.first, 1), taken(*p.second, 1);
    given.send(1, numbers.data(), bytes);
    EXPECT_FALSE(given.poll()) << "it cannot be on its way whole";
    for (int i = 0; i < polls_before; ++i) p.second->progress(), given.poll();
    taken.receive(0, bytes);
    for (bool sent = false, came = false; !sent || !came;) sent = given.poll(), came = taken.poll();
    EXPECT_EQ(std::memcmp(taken.received(0).data(), numbers.data(), static_cast<size_t>(bytes)), 0) << polls_before;
  }
}

// Who gives up leaves no hole in what follows, on neither side.
TEST(TcpTransport, GoesOnAfterBatchesThatEndedEarly) {
  for (int polls : {0, 1, 3}) {
    Pair p;
    const std::string large(4 << 20, 'x');
    {
      Batch given(*p.first, 1), taken(*p.second, 1);
      given.send(1, large.data(), static_cast<int64_t>(large.size()));
      taken.receive(0, static_cast<int64_t>(large.size()));
      for (int i = 0; i < polls; ++i) given.poll(), taken.poll();
    }
    EXPECT_EQ(Batch::sweep(), 0u) << "their memory is free";
    Batch given(*p.first, 2), taken(*p.second, 2);
    given.send(1, "next", 4);
    taken.receive(0, 4);
    for (bool sent = false, came = false; !sent || !came;) sent = given.poll(), came = taken.poll();
    EXPECT_EQ(text_of(taken, 0), "next") << polls;
  }
}

// What was not done when its transport ended is nobody's, and those that come later do not ask for it.
TEST(TcpTransport, EndsWithMessagesOnTheirWay) {
  for (int round = 0; round < 3; ++round) {
    Pair p;
    const std::string large(4 << 20, 'x');
    {
      Batch given(*p.first, 1), taken(*p.second, 2);
      given.send(1, large.data(), static_cast<int64_t>(large.size()));
      taken.receive(0, 4);
      EXPECT_FALSE(given.poll());
    }
    p.first.reset(), p.second.reset();
    EXPECT_EQ(Batch::sweep(), 0u);
  }
}

TEST(TcpTransport, KnowsWhoIsGone) {
  Pair p;
  {
    Batch given(*p.second, 1);
    given.send(0, "last", 4);
  }
  p.second.reset();
  Batch taken(*p.first, 1);
  taken.receive(1, 4);
  taken.receive(1, 4);
  EXPECT_FALSE(taken.poll());
  taken.poll();
  EXPECT_EQ(text_of(taken, 0), "last") << "what was sent before comes";
  EXPECT_EQ(p.first->lost(1), "its connection is closed");
  EXPECT_EQ(taken.awaited(true), std::vector<int>{1});
  taken.send(1, "?", 1);
  EXPECT_FALSE(taken.poll());
}

// The other end closes a little later, which is within any of these.
TEST(TcpTransport, StopsWithoutALimitThatTheClockCannotCount) {
  for (const double seconds : {0.0, 1e9, 1e30, std::numeric_limits<double>::infinity()}) {
    Pair p;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      p.second.reset();
    });
    EXPECT_NO_THROW(p.first->stop(seconds)) << seconds;
    other.join();
  }
  Pair p;
  EXPECT_TRUE(contains(test::environment_error([&] { p.first->stop(0.01); }), "other ranks do not end within 0.01 s"));
}

TEST(TcpTransport, BelievesNoHead) {
  for (const std::string& bytes : {std::string(16, '\xff'), std::string("SMOT\1\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f", 16)}) {
    Pair p;
    ASSERT_EQ(::send(p.other, bytes.data(), bytes.size(), 0), 16);
    p.first->progress();
    EXPECT_EQ(p.first->lost(1), "it sent what is no message");
  }
  Pair p;
  Batch given(*p.second, 1), taken(*p.first, 1);
  taken.receive(1, 3);
  given.send(0, "four", 4);
  EXPECT_FALSE(taken.poll());
  EXPECT_EQ(p.first->lost(1), "it sent 4 bytes in place of 3");
}

int times(const std::string& text, const std::string& part) {
  int out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++out;
  return out;
}

void expect_each_done(int ranks, const std::string& body, const std::string& before = "") {
  const auto out = run_apart(ranks, body, before);
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_EQ(times(out.text, ": done\n"), ranks) << out.text;
}

TEST(Tcp, GivesTheBitsOfThreads) { expect_each_done(4, "values"); }
TEST(Tcp, MovesLargeTensorsInPieces) { expect_each_done(3, "large"); }
TEST(Tcp, ToldApartCallsThatDoNotFit) { expect_each_done(3, "mismatch"); }
TEST(Tcp, MakesAndDestroysAThousandGroups) { expect_each_done(3, "groups"); }
TEST(Tcp, IsTheWorldOfAllThreads) { expect_each_done(2, "from_threads"); }
TEST(Tcp, KeepsGroupsOfThreadsApart) { expect_each_done(2, "groups_of_threads"); }
TEST(Tcp, HasWorldsOfOneRank) { expect_each_done(1, "large"); }
TEST(Tcp, MeetsAtAPort) { expect_each_done(3, "local_ranks", test::at_a_port()); }

// All that survive are told who it was, what they wait in, and where that is written; of a process that ended at once.
void expect_survivors_told(const std::string& fault, int ranks, int told, const std::string& reason, double seconds) {
  const auto out = run_apart(ranks, "sums", "TOROID_DIST_TIMEOUT_MS=900 TOROID_FAULT=" + fault);
  EXPECT_NE(out.code, 124) << "a hang\n" << out.text;
  EXPECT_EQ(times(out.text, "told what failed: group \"world\": all_reduce(sum) of f64[20000] at rank_bodies.cpp:"), told) << out.text;
  EXPECT_EQ(times(out.text, "cannot be done: " + reason), 2 * told) << out.text;  // and again where the group is used once more
  EXPECT_LT(out.seconds, seconds) << out.text;
}

const std::string kLastAt = "which was last at all_reduce(sum) of f64[20000] at rank_bodies.cpp:";

TEST(Tcp, NamesARankThatDied) { expect_survivors_told("die:1:6", 4, 3, "rank 1 did not come (its connection is closed), " + kLastAt, 0.8); }
TEST(Tcp, NamesARankThatDiedWhileTheDataMoved) {
  expect_survivors_told("break:1:6", 3, 2, "rank 1 stopped while the data moved (its connection is closed), " + kLastAt, 0.8);
}
TEST(Tcp, NamesARankThatExited) {
  expect_survivors_told("exit:0:6", 2, 1, "rank 0 did not come (its connection is closed), " + kLastAt, 0.8);
}
TEST(Tcp, NamesARankThatIsLate) { expect_survivors_told("sleep:1:6:1500", 3, 3, "rank 1 did not come, " + kLastAt, 3); }

TEST(Tcp, TellsOfARankThatLeaves) {
  const auto out = run_apart(3, "one_leaves", "TOROID_DIST_TIMEOUT_MS=40000");
  EXPECT_EQ(times(out.text, "cannot be done: rank 1 failed: no space left"), 2) << out.text;
  EXPECT_LT(out.seconds, 10) << "nobody waits for the limit";
}

TEST(Tcp, TellsOfARankThatAborts) {
  const auto out = run_apart(3, "one_aborts", "TOROID_DIST_TIMEOUT_MS=40000");
  EXPECT_EQ(times(out.text, "cannot be done: rank 1 failed: it called distributed::abort"), 2) << out.text;
  EXPECT_LT(out.seconds, 10) << "nobody waits for the limit";
}

// A rank that ends before all are connected, at each of the two moments.
TEST(Tcp, NamesARankThatDiesAtTheStart) {
  auto out = run_apart(3, "late_to_init", "TOROID_FAULT=die:1:hello");
  EXPECT_EQ(times(out.text, "told: distributed::init: rank 1 did not come to the file"), 2) << out.text;
  out = run_apart(3, "sums", "TOROID_FAULT=die:2:connect");
  EXPECT_EQ(times(out.text, "rank 2"), 2) << out.text;
  EXPECT_LT(out.seconds, 5) << out.text;
}

TEST(Tcp, NamesARankOfAnotherVersion) {
  const auto out = run_apart(3, "sums", "TOROID_FAULT=version:2:hello");
  EXPECT_EQ(times(out.text, "rank 2 (process"), 3) << out.text;
  EXPECT_EQ(times(out.text, "runs another version of Toroid than rank 0"), 3) << out.text;
}

}  // namespace
}  // namespace toroid
