// Decisions on a server: a Redis server where one is installed, and one that this test plays.
#include "tune/memory/remote_cache.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "errors.h"

namespace toroid::tune {
namespace {

using test::contains;

// Listens on a port of its own; answers each request by what `answer` makes of its words, and closes the connection for "".
class Server {
 public:
  explicit Server(std::function<std::string(const std::vector<std::string>&)> answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof a;
    ::bind(listener_, reinterpret_cast<sockaddr*>(&a), size);
    ::listen(listener_, 4);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&a), &size);
    address = "127.0.0.1:" + std::to_string(ntohs(a.sin_port));
    thread_ = std::thread([this] {
      for (int fd; (fd = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(fd)) serve(fd);
    });
  }
  ~Server() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  std::string address;

 private:
  void serve(int fd) {
    FILE* in = ::fdopen(::dup(fd), "r");
    char line[256];
    int count = 0;
    while (::fgets(line, sizeof line, in) && std::sscanf(line, "*%d", &count) == 1) {
      std::vector<std::string> words;
      for (int i = 0; i < count; ++i) {
        size_t size = 0;
        if (!::fgets(line, sizeof line, in) || std::sscanf(line, "$%zu", &size) != 1) break;
        words.emplace_back(size + 2, '\0');
        if (::fread(words.back().data(), 1, size + 2, in) != size + 2) break;
        words.back().resize(size);
      }
      const std::string reply = answer_(words);
      if (reply.empty()) break;
      (void)!::write(fd, reply.data(), reply.size());
    }
    ::fclose(in);
  }

  std::function<std::string(const std::vector<std::string>&)> answer_;
  int listener_ = -1;
  std::thread thread_;
};

const TuneKey kKey{"problem", "H200", "rev"};
const DecisionRecord kDecision{"mm \r\n 3:x", "b(x=1)", {"a", "b(x=1)"}, "00ff", 0.8125, 0.01, 0.002};

void check_decisions(RemoteCache& cache) {
  EXPECT_EQ(get_decision(cache, kKey, {"a", "b(x=1)"}), std::nullopt);
  EXPECT_TRUE(put_decision(cache, kKey, kDecision)) << cache.problem();
  EXPECT_EQ(get_decision(cache, kKey, {"b(x=1)", "a"}), kDecision);
  EXPECT_EQ(get_decision(cache, kKey, {"a"}), std::nullopt);
  EXPECT_EQ(get_decision(cache, {"problem", "H200", "rev 2"}, {"a", "b(x=1)"}), std::nullopt);
  EXPECT_EQ(cache.problem(), "");
}

TEST(RemoteCache, DecisionsByTheProtocol) {
  std::map<std::string, std::string> kept;
  int requests = 0;
  Server server([&](const std::vector<std::string>& w) -> std::string {
    if (++requests % 3 == 2) return "";  // connections end now and then
    if (w[0] == "SET") return kept[w.at(1)] = w.at(2), "+OK\r\n";
    const auto found = kept.find(w.at(1));
    if (found == kept.end()) return "$-1\r\n";
    return "$" + std::to_string(found->second.size()) + "\r\n" + found->second + "\r\n";
  });
  const auto cache = redis_cache(server.address, 5000);
  check_decisions(*cache);
  for (auto& [key, value] : kept) value = "12:damaged";
  EXPECT_EQ(get_decision(*cache, kKey, {"a", "b(x=1)"}), std::nullopt);
}

TEST(RemoteCache, AServerThatIsNotThereCostsOneShortAttempt) {
  std::string address;
  {
    Server gone([](auto&) { return ""; });
    address = gone.address;
  }
  const auto absent = redis_cache(address, 100);
  EXPECT_EQ(absent->get("k"), std::nullopt);
  EXPECT_TRUE(contains(absent->problem(), address + " cannot be used: Connection refused")) << absent->problem();

  int requests = 0;
  Server mute([&](auto&) { return ++requests, std::this_thread::sleep_for(std::chrono::milliseconds(300)), "$-1\r\n"; });
  const auto cache = redis_cache(mute.address, 50);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(cache->put("k", "v"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(2500)) << "each would wait for 50 ms";
  EXPECT_TRUE(contains(cache->problem(), "does not answer")) << cache->problem();
  EXPECT_LE(requests, 1);

  Server other([](auto&) { return "HTTP/1.1 400 Bad Request\r\n"; });
  const auto wrong = redis_cache(other.address, 2000);
  EXPECT_EQ(wrong->get("k"), std::nullopt);
  EXPECT_TRUE(contains(wrong->problem(), "is not that of a Redis server")) << wrong->problem();
  Server locked([](auto&) { return "-NOAUTH Authentication required.\r\n"; });
  const auto refused = redis_cache(locked.address, 2000);
  EXPECT_EQ(refused->get("k"), std::nullopt);
  EXPECT_TRUE(contains(refused->problem(), "NOAUTH")) << refused->problem();
}

TEST(RemoteCache, ARedisServer) {
  if (std::system("command -v redis-server > /dev/null") != 0) GTEST_SKIP() << "redis-server is not installed";
  std::string address;
  {
    Server other([](auto&) { return ""; });  // its port is free afterwards
    address = other.address;
  }
  const std::string port = address.substr(address.rfind(':') + 1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("redis-server", "redis-server", "--port", port.c_str(), "--save", "", "--bind", "127.0.0.1", "--logfile", "/dev/null",
             nullptr);
    ::_exit(1);
  }
  const auto cache = redis_cache(address, 1000, 50);
  for (int i = 0; i < 100 && !cache->put("there", "1"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto fresh = redis_cache(address, 1000);
  check_decisions(*fresh);
  ::kill(child, SIGTERM);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace toroid::tune
