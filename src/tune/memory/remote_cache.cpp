#include "tune/memory/remote_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"

namespace toroid::tune {
namespace {

using Time = std::chrono::steady_clock::time_point;
Time now() { return std::chrono::steady_clock::now(); }

constexpr size_t kMostReply = 1 << 20;  // bytes; a decision is a few hundred

// A connection that gives up at a moment. Throws EnvironmentError.
class Socket {
 public:
  Socket(const std::string& host, const std::string& port, Time until) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int e = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); e != 0) fail<EnvironmentError>("{}", ::gai_strerror(e));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
    std::string why = "no address";
    for (const addrinfo* a = found; a; a = a->ai_next) {
      fd_ = ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
      if (fd_ < 0) continue;
      if (::connect(fd_, a->ai_addr, a->ai_addrlen) == 0) return;
      int error = errno;
      if (error == EINPROGRESS) {
        socklen_t size = sizeof error;
        error = wait(POLLOUT, until) && ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : ETIMEDOUT;
        if (error == 0) return;
      }
      why = std::strerror(error);
      ::close(fd_);
      fd_ = -1;
    }
    throw EnvironmentError(why);
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void send(std::string_view bytes, Time until) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n > 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
        continue;
      }
      if (n < 0 && errno != EAGAIN && errno != EINTR) throw EnvironmentError(std::strerror(errno));
      if (!wait(POLLOUT, until)) throw EnvironmentError("it does not answer");
    }
  }

  // Up to "\r\n", which is taken too.
  std::string line(Time until) {
    size_t end;
    while ((end = buffer_.find("\r\n")) == std::string::npos) receive(until);
    std::string out = buffer_.substr(0, end);
    buffer_.erase(0, end + 2);
    return out;
  }
  std::string bytes(size_t n, Time until) {
    while (buffer_.size() < n) receive(until);
    std::string out = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return out;
  }

 private:
  bool wait(short events, Time until) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - now()).count();
    pollfd p{fd_, events, 0};
    return left > 0 && ::poll(&p, 1, static_cast<int>(left)) > 0;
  }

  void receive(Time until) {
    if (buffer_.size() > kMostReply) throw EnvironmentError("its reply does not end");
    char part[4096];
    const ssize_t n = ::recv(fd_, part, sizeof part, 0);
    if (n > 0) return void(buffer_.append(part, static_cast<size_t>(n)));
    if (n == 0) throw EnvironmentError("it has closed the connection");
    if (errno != EAGAIN && errno != EINTR) throw EnvironmentError(std::strerror(errno));
    if (!wait(POLLIN, until)) throw EnvironmentError("it does not answer");
  }

  int fd_ = -1;
  std::string buffer_;
};

std::string command(std::initializer_list<std::string_view> words) {
  std::string out = fmt::format("*{}\r\n", words.size());
  for (std::string_view w : words) out += fmt::format("${}\r\n{}\r\n", w.size(), w);
  return out;
}

class Redis : public RemoteCache {
 public:
  Redis(std::string address, int timeout_ms, int pause_ms) : address_(std::move(address)), timeout_(timeout_ms), pause_(pause_ms) {
    const size_t colon = address_.rfind(':');
    host_ = address_.substr(0, colon);
    port_ = colon == std::string::npos ? "6379" : address_.substr(colon + 1);
  }

  std::optional<std::string> get(const std::string& key) override { return exchange(command({"GET", key})); }
  bool put(const std::string& key, std::string_view value) override { return exchange(command({"SET", key, value})).has_value(); }
  std::string problem() const override {
    std::lock_guard lock(mutex_);
    return problem_;
  }

 private:
  std::optional<std::string> exchange(const std::string& request) {
    std::lock_guard lock(mutex_);
    if (now() < silent_until_) return std::nullopt;
    for (int tries = 0; tries < 2; ++tries) {
      const Time until = now() + timeout_;
      const bool was_open = socket_ != nullptr;
      try {
        if (!socket_) socket_ = std::make_unique<Socket>(host_, port_, until);
        socket_->send(request, until);
        return reply(until);
      } catch (const EnvironmentError& e) {
        socket_.reset();
        if (was_open && now() < until) continue;  // a server closes connections that were idle
        problem_ = fmt::format("the server of tuning results at {} cannot be used: {}; it is left alone for {} s", address_, e.what(),
                               std::chrono::duration_cast<std::chrono::seconds>(pause_).count());
        if (log_enabled(Artifact::Cache)) log(Artifact::Cache, problem_);
        silent_until_ = now() + pause_;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Nothing for a key that is not there.
  std::optional<std::string> reply(Time until) {
    const std::string head = socket_->line(until);
    if (head.starts_with('+')) return head.substr(1);
    if (head.starts_with('-')) throw EnvironmentError(head.substr(1));
    int64_t size = -1;
    const auto [end, error] = std::from_chars(head.data() + std::min<size_t>(head.size(), 1), head.data() + head.size(), size);
    if (!head.starts_with('$') || error != std::errc() || size < -1 || size > static_cast<int64_t>(kMostReply))
      throw EnvironmentError(fmt::format("its reply \"{}\" is not that of a Redis server", head.substr(0, 40)));
    if (size < 0) return std::nullopt;
    std::string value = socket_->bytes(static_cast<size_t>(size), until);
    socket_->bytes(2, until);
    return value;
  }

  const std::string address_;
  std::string host_, port_;
  const std::chrono::milliseconds timeout_, pause_;
  mutable std::mutex mutex_;  // of all below
  std::unique_ptr<Socket> socket_;
  Time silent_until_{};
  std::string problem_;
};

constexpr std::string_view kFormat = "toroid-decision-1";

std::string key_text(const TuneKey& key, std::vector<std::string> candidates) {
  std::sort(candidates.begin(), candidates.end());
  Hasher h;
  h.add(kFormat).add(key.problem).add(key.device).add(key.toolchain).add(candidates.size());
  for (auto& c : candidates) h.add(c);
  return "toroid:" + h.finish().hex();
}

// Texts with their lengths, as "3:abc".
std::string packed(std::initializer_list<std::string> strings) {
  std::string out;
  for (auto& s : strings) out += fmt::format("{}:{}", s.size(), s);
  return out;
}

std::optional<std::vector<std::string>> unpacked(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    size_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || digits >= text.size() || *end != ':' || size > text.size() - digits - 1) return std::nullopt;
    out.emplace_back(text.substr(digits + 1, size));
    text.remove_prefix(digits + 1 + size);
  }
  return out;
}

double number_of(const std::string& text) {
  double v = 0;
  std::from_chars(text.data(), text.data() + text.size(), v);
  return v;
}

}  // namespace

std::shared_ptr<RemoteCache> redis_cache(std::string address, int timeout_ms, int pause_ms) {
  return std::make_shared<Redis>(std::move(address), timeout_ms, pause_ms);
}

std::shared_ptr<RemoteCache> shared_remote(const std::string& address) {
  static std::mutex mutex;
  static auto& caches = *new std::map<std::string, std::shared_ptr<RemoteCache>>;  // never destroyed: threads may outlive main
  if (address.empty()) return nullptr;
  std::lock_guard lock(mutex);
  auto& c = caches[address];
  if (!c) c = redis_cache(address);
  return c;
}

std::optional<DecisionRecord> get_decision(RemoteCache& cache, const TuneKey& key, const std::vector<std::string>& candidates) {
  const auto value = cache.get(key_text(key, candidates));
  const auto t = value ? unpacked(*value) : std::nullopt;
  if (!t || t->size() != 7 || (*t)[0] != kFormat) return std::nullopt;
  DecisionRecord d{(*t)[1], (*t)[2], candidates, (*t)[3], number_of((*t)[4]), number_of((*t)[5]), number_of((*t)[6])};
  std::sort(d.candidates.begin(), d.candidates.end());
  return d;
}

bool put_decision(RemoteCache& cache, const TuneKey& key, const DecisionRecord& d) {
  return cache.put(key_text(key, d.candidates), packed({std::string(kFormat), d.label, d.winner, d.kernels, fmt::format("{}", d.ratio),
                                                        fmt::format("{}", d.flip), fmt::format("{}", d.regret)}));
}

}  // namespace toroid::tune
