// How ranks meet without MPI: who is missing, who comes twice, who is no rank at all. Ranks are threads that call tcp::meet.
#include "dist/tcp/rendezvous.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <thread>

#include "base/files.h"
#include "dist/deadline.h"
#include "dist/host.h"
#include "dist/tcp/greeting.h"
#include "dist/tcp/port_file.h"
#include "errors.h"

namespace toroid {
namespace {

using namespace distributed::tcp;
using namespace std::chrono_literals;
using test::contains;

int free_port() { return port_of(listen_at("127.0.0.1", 0)); }

Place at(int port, int rank, int size) {
  return {.rank = rank, .size = size, .address = "127.0.0.1", .port = port, .file = {}, .job = "test"};
}

// What each rank ends with: "met", or its error. The last one of several comes a little later, and none closes its connections before all
// have ended.
std::vector<std::string> meet_all(
    const std::vector<Place>& places, double timeout, const std::function<void()>& meanwhile = [] {}) {
  std::vector<std::string> out(places.size());
  std::vector<std::vector<Socket>> all(places.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        if (i > 0 && i + 1 == places.size()) std::this_thread::sleep_for(50ms);
        const auto& sockets = all[i] = meet(places[i], timeout);
        for (size_t r = 0; r < sockets.size(); ++r)
          EXPECT_EQ(static_cast<bool>(sockets[r]), static_cast<int>(r) != places[i].rank) << "rank " << i << " and " << r;
        out[i] = "met";
      } catch (const UserError& e) {
        out[i] = std::string("user: ") + e.what();
      } catch (const EnvironmentError& e) {
        out[i] = std::string("environment: ") + e.what();
      }
    });
  meanwhile();
  for (auto& t : threads) t.join();
  return out;
}

std::string random_bytes(std::mt19937_64& draw, size_t size) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(draw());
  return out;
}

TEST(Rendezvous, ConnectsEachWithEach) {
  for (int size : {1, 2, 3, 7}) {
    const int port = free_port();
    std::vector<Place> places;
    for (int r = size - 1; r >= 0; --r) places.push_back(at(port, r, size));
    EXPECT_EQ(meet_all(places, 10), std::vector<std::string>(places.size(), "met"));
  }
}

// Bytes of all kinds at the port, all the while: nobody believes them, waits for them or is kept from meeting.
TEST(Rendezvous, PassesOverWhatIsNoRank) {
  const int port = free_port();
  std::mt19937_64 draw(1);
  std::vector<Socket> silent;
  const auto disturb = [&] {
    for (int i = 0; i < 400; ++i) {
      std::string problem;
      auto socket = connect_to("127.0.0.1", port, Clock::now() + 1s, problem);
      if (!socket) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      Hello hello{.secret = secret_of("test"), .rank = static_cast<int32_t>(draw()), .size = 3, .host = "evil\n\x1b"};
      std::string bytes = to_bytes(hello);
      if (i % 4 == 0) bytes = random_bytes(draw, draw() % 300);
      if (i % 4 == 1) bytes.resize(draw() % bytes.size());              // and then nothing
      if (i % 4 == 2) bytes.replace(16, 100, random_bytes(draw, 100));  // the secret is wrong
      if (i % 4 == 3) bytes = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + std::string(5000, 'x');
      write_all(*socket, bytes.data(), bytes.size(), Clock::now() + 1s);
      if (i % 2) silent.push_back(std::move(*socket));
    }
  };
  EXPECT_EQ(meet_all({at(port, 0, 3), at(port, 2, 3), at(port, 1, 3)}, 20, disturb), std::vector<std::string>(3, "met"));
}

TEST(Rendezvous, NamesRanksThatDoNotCome) {
  const int port = free_port();
  const auto begin = Clock::now();
  for (auto& told : meet_all({at(port, 0, 4), at(port, 2, 4)}, 0.4))
    EXPECT_EQ(told, fmt::format("environment: distributed::init: rank 1, rank 3 did not come to port {} of 127.0.0.1 within 0.4 s "
                                "(timeout_seconds)",
                                port));
  const std::string alone = meet_all({at(port, 1, 2)}, 0.3)[0];
  EXPECT_TRUE(contains(alone, fmt::format("rank 1 has not found rank 0 at port {} of 127.0.0.1 within 0.3 s (timeout_seconds): Connection "
                                          "refused",
                                          port)))
      << alone;
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST(Rendezvous, NamesARankThatComesTwice) {
  const int port = free_port();
  for (auto& told : meet_all({at(port, 0, 3), at(port, 1, 3), at(port, 1, 3)}, 0.6))
    EXPECT_TRUE(contains(told, "user: distributed::init: two processes are the same rank: rank 1 (process ")) << told;
}

TEST(Rendezvous, NamesWhoCountsOtherwise) {
  const int port = free_port();
  for (auto& told : meet_all({at(port, 0, 3), at(port, 1, 3), at(port, 2, 4)}, 5))
    EXPECT_TRUE(contains(told, "user: distributed::init: the ranks disagree about their number: rank 2 (process ") &&
                contains(told, "has 4, rank 0 3"))
        << told;
}

TEST(Rendezvous, NamesWhoRunsAnotherVersion) {
  const int port = free_port();
  const auto told = meet_all({at(port, 0, 2)}, 5, [&] {
    std::string problem;
    std::optional<Socket> socket;
    while (!socket) socket = connect_to("127.0.0.1", port, Clock::now() + 1s, problem);
    const std::string bytes = to_bytes(Hello{.protocol = kProtocol + 1, .secret = secret_of("test"), .rank = 1, .size = 2, .host = "old"});
    write_all(*socket, bytes.data(), bytes.size(), Clock::now() + 1s);
    std::this_thread::sleep_for(100ms);
  });
  EXPECT_TRUE(contains(told[0], "rank 1 (process 0 of old) runs another version of Toroid than rank 0")) << told[0];
}

// The others could not connect to it, and would not know why.
TEST(Rendezvous, NamesWhoListensNowhere) {
  for (const int wrong : {-1, 0, 65536, 1 << 30}) {
    const int port = free_port();
    const auto told = meet_all({at(port, 0, 2)}, 5, [&] {
      std::string problem;
      std::optional<Socket> socket;
      while (!socket) socket = connect_to("127.0.0.1", port, Clock::now() + 1s, problem);
      const std::string bytes = to_bytes(Hello{.secret = secret_of("test"), .rank = 1, .size = 2, .port = wrong, .host = "node"});
      write_all(*socket, bytes.data(), bytes.size(), Clock::now() + 1s);
      std::this_thread::sleep_for(50ms);
    });
    EXPECT_TRUE(contains(told[0], fmt::format("environment: distributed::init: rank 1 (process 0 of node) says that it listens at port {}; "
                                              "expected 1 to 65535",
                                              wrong)))
        << told[0];
  }
}

// Seconds that the clock cannot count.
TEST(Rendezvous, HasNoLimitWhereItIsBeyondTheClock) {
  for (const double timeout : {0.0, 1e9, 1e30, std::numeric_limits<double>::infinity()}) {
    const int port = free_port();
    EXPECT_EQ(meet_all({at(port, 0, 3), at(port, 1, 3), at(port, 2, 3)}, timeout), std::vector<std::string>(3, "met")) << timeout;
    EXPECT_EQ(distributed::deadline(timeout), Clock::time_point::max()) << timeout;
  }
  const auto now = Clock::now();
  const auto in_a_day = distributed::deadline(86400) - now;
  EXPECT_TRUE(in_a_day >= 24h && in_a_day < 25h);
}

TEST(Sockets, TellThatNoMoreCanBeOpened) {
  const Socket listener = listen_at("127.0.0.1", 0);
  EXPECT_FALSE(accept_from(listener)) << "nobody has come";
  std::string problem;
  const auto comes = connect_to("127.0.0.1", port_of(listener), Clock::now() + 1s, problem);
  ASSERT_TRUE(comes) << problem;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string told = test::environment_error([&] { accept_from(listener); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(told, fmt::format("port {}: no connection can be taken: Too many open files", port_of(listener)));
  EXPECT_TRUE(accept_from(listener)) << "it still waits";
}

// Jobs that were given the same port, and ports that something else listens at.
TEST(Rendezvous, LeavesOthersAlone) {
  const int port = free_port();
  Place other = at(port, 1, 2);
  other.job = "another";
  auto told = meet_all({at(port, 0, 2), other}, 0.5);
  EXPECT_TRUE(contains(told[0], "rank 1 did not come")) << told[0];
  EXPECT_TRUE(contains(told[1], "what answers there is no rank of this job") || contains(told[1], "Connection refused")) << told[1];
  const Socket taken = listen_at("127.0.0.1", port);
  told = meet_all({at(port, 0, 2)}, 0.5);
  EXPECT_TRUE(contains(told[0], fmt::format("port {} of 127.0.0.1: Address already in use", port))) << told[0];
  std::mt19937_64 draw(7);
  std::atomic<bool> is_over = false;
  std::thread answers([&] {
    while (!is_over) {
      if (const auto socket = accept_from(taken)) {
        std::string bytes = random_bytes(draw, 64);
        if (draw() % 2) bytes.replace(0, 12, to_bytes(Answer{Answer::All, std::string(50, 'x')}).substr(0, 12));
        write_all(*socket, bytes.data(), bytes.size(), Clock::now() + 1s);
      }
      std::this_thread::sleep_for(1ms);
    }
  });
  told = meet_all({at(port, 1, 2)}, 0.5);
  is_over = true;
  answers.join();
  EXPECT_TRUE(contains(told[0], "what answers there is no rank of this job")) << told[0];
}

TEST(Rendezvous, ByAFile) {
  const auto folder = make_temp_dir();
  const auto by = [&](int rank, int size) {
    return Place{.rank = rank, .size = size, .address = {}, .port = 0, .file = folder / "port", .job = {}};
  };
  const auto none = meet_all({by(1, 2)}, 0.2)[0];
  EXPECT_TRUE(contains(none, "has not found rank 0 at the file " + (folder / "port").string() + " within 0.2 s")) << none;
  // What an earlier run has left, or somebody else has written, is passed over.
  for (const std::string& before : {std::string(), std::string("garbage\n"),
                                    fmt::format("toroid-rendezvous-1 {} {} {:032x}\n", distributed::host_id(), free_port(), 5)}) {
    std::ofstream(folder / "port") << before;
    EXPECT_EQ(meet_all({by(1, 3), by(2, 3), by(0, 3)}, 10), std::vector<std::string>(3, "met"));
    EXPECT_FALSE(std::filesystem::exists(folder / "port")) << "it is removed when all have come";
  }
  write_port_file(folder / "port", {"elsewhere", 4711, {1, 2}});
  const auto elsewhere = meet_all({by(1, 2)}, 0.2)[0];
  EXPECT_TRUE(contains(elsewhere, "another host wrote it; ranks of several hosts meet at an address")) << elsewhere;
  std::filesystem::remove_all(folder);
}

// Whatever the bytes are: read as what they say, or refused.
TEST(Greetings, OfAnyBytes) {
  std::mt19937_64 draw(3);
  const std::string good[] = {to_bytes(Hello{.secret = {1, 2}, .rank = 1, .size = 2, .host = "node"}), to_bytes(PeerHello{{3, 4}, 5}),
                              to_bytes(Answer{Answer::Missing, "rank 1"}), to_text({{5, 6}, {{"10.0.0.1", 80}, {"", 81}}})};
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good[i % 4];
    for (uint64_t k = draw() % 4; k > 0; --k) bytes[draw() % bytes.size()] = static_cast<char>(draw());
    if (draw() % 3 == 0) bytes.resize(draw() % (bytes.size() + 9));
    if (const auto h = hello_from(bytes)) {
      EXPECT_EQ(to_bytes(*h).size(), kHelloBytes);
    }
    if (const auto h = peer_hello_from(bytes)) {
      EXPECT_EQ(to_bytes(*h), bytes);
    }
    Answer a;
    if (answer_from(bytes, a) == Reading::Whole) {
      EXPECT_LE(a.text.size(), bytes.size());
    }
    if (answer_from(bytes, a) == Reading::Part) {
      EXPECT_GT(answer_lacks(bytes), 0u);
    }
    if (const auto w = world_from(bytes)) {
      EXPECT_TRUE(world_from(to_text(*w)).has_value());
    }
  }
  const auto world = world_from(good[3]);
  ASSERT_TRUE(world && world->ends.size() == 2);
  EXPECT_EQ(world->ends[0].address + world->ends[1].address, "10.0.0.1");
  EXPECT_EQ(world->ends[1].port, 81);
}

// The variables of an environment, and what find_place makes of it.
class Places : public testing::Test {
 protected:
  void TearDown() override { set({}); }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const char* name :
         {"TOROID_RENDEZVOUS", "TOROID_JOB", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PMIX_RANK", "SLURM_PROCID",
          "SLURM_NTASKS", "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_LOCALID"})
      ::unsetenv(name);
    for (auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string refused(std::map<std::string, std::string> variables, const std::string& name, const std::string& value) {
    variables[name] = value;
    if (value.empty()) variables.erase(name);
    set(variables);
    return test::user_error([] { find_place({}); });
  }
};

TEST_F(Places, OfTorchrun) {
  set({});
  EXPECT_FALSE(find_place({}));
  const std::map<std::string, std::string> all = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  set(all);
  const auto p = find_place({});
  ASSERT_TRUE(p);
  EXPECT_EQ(fmt::format("{} {} {} {}", p->rank, p->size, p->address, p->port), "1 4 node7 29500");
  EXPECT_TRUE(contains(refused(all, "RANK", "4"), "RANK is \"4\"; expected a whole number from 0 to 3"));
  EXPECT_TRUE(contains(refused(all, "RANK", "1x"), "RANK is \"1x\""));
  EXPECT_TRUE(contains(refused(all, "WORLD_SIZE", "0"), "WORLD_SIZE is \"0\""));
  EXPECT_TRUE(contains(refused(all, "WORLD_SIZE", ""), "WORLD_SIZE is not set"));
  EXPECT_TRUE(contains(refused(all, "MASTER_PORT", "70000"), "MASTER_PORT is \"70000\""));
  EXPECT_TRUE(contains(refused(all, "MASTER_ADDR", ""), "MASTER_ADDR is not set"));
  EXPECT_TRUE(contains(refused(all, "TOROID_RENDEZVOUS", "udp://x"), "\"udp://x\" is no way to meet"));
  EXPECT_TRUE(contains(refused(all, "TOROID_RENDEZVOUS", "tcp://x"), "expected tcp://HOST:PORT"));
  set({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}});
  EXPECT_FALSE(find_place({})) << "MPI started it";
}

TEST_F(Places, OfSlurmAndOptions) {
  set({{"SLURM_PROCID", "5"},
       {"SLURM_NTASKS", "8"},
       {"SLURM_STEP_NODELIST", "gpu[03-07,9],other"},
       {"SLURM_JOB_ID", "1234567"},
       {"SLURM_STEP_ID", "0"}});
  auto p = find_place({});
  ASSERT_TRUE(p);
  EXPECT_EQ(fmt::format("{} {} {} {} {}", p->rank, p->size, p->address, p->port, p->job), "5 8 gpu03 24567 1234567.0");
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("rack[1,3]-node,c"), "rack1-node");
  for (const char* wrong : {"", ",a", "a[", "a[]"})
    EXPECT_TRUE(contains(test::user_error([&] { first_host(wrong); }), "set MASTER_ADDR")) << wrong;
  p = find_place({.rendezvous = "tcp://[::1]:99", .rank = 0, .ranks = 2});
  EXPECT_EQ(fmt::format("{} {} {} {}", p->rank, p->size, p->address, p->port), "0 2 ::1 99");
  EXPECT_TRUE(contains(test::user_error([] { find_place({.rendezvous = "file:x", .rank = 2, .ranks = 2}); }), "rank 2 of 2"));
}

}  // namespace
}  // namespace toroid
