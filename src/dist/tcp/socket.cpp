#include "dist/tcp/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace toroid::distributed::tcp {
namespace {

constexpr int kBacklog = 4096;  // the system takes its own limit where that is less

void set(int file, int level, int option, int value) { ::setsockopt(file, level, option, &value, sizeof value); }

struct Addresses {
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list{nullptr, ::freeaddrinfo};
  std::string problem;
};

// Of a name that may not be known yet: the problem is told, not thrown.
Addresses addresses_of(const std::string& host, int port) {
  addrinfo wanted{}, *list = nullptr;
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  Addresses out;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &list);
  if (code == 0)
    out.list.reset(list);
  else
    out.problem = ::gai_strerror(code);
  return out;
}

Socket open_socket(int family) { return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

// errno of what does not go, else 0.
int listen_on(Socket& socket, const sockaddr* address, socklen_t size) {
  if (!socket) return errno;
  set(socket.file(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.file(), address, size) != 0 || ::listen(socket.file(), kBacklog) != 0) return errno;
  return 0;
}

// IPv6, which takes IPv4, too, or that alone where the host has no other.
int listen_everywhere(Socket& socket, int port) {
  socket = open_socket(AF_INET6);
  if (socket) {
    set(socket.file(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(port));
    const int code = listen_on(socket, reinterpret_cast<sockaddr*>(&any), sizeof any);
    if (code == 0 || code == EADDRINUSE) return code;
  }
  socket = open_socket(AF_INET);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<uint16_t>(port));
  return listen_on(socket, reinterpret_cast<sockaddr*>(&any), sizeof any);
}

void tune(const Socket& socket) {
  set(socket.file(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket.file(), SOL_SOCKET, SO_KEEPALIVE, 1);
}

// errno, or 0 where it is connected.
int connect_within(const Socket& socket, const addrinfo& to, Clock::time_point until) {
  if (!socket) return errno;
  if (::connect(socket.file(), to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd file{socket.file(), POLLOUT, 0};
  while (::poll(&file, 1, poll_ms(until)) <= 0)
    if (Clock::now() >= until) return ETIMEDOUT;
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &code, &size);
  return code;
}

// A port that nobody listens at may be the one that the system gives the caller's own end: it is then connected to itself, and whoever
// wants to listen there finds the port taken.
bool is_own_end(const Socket& socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  return ::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(socket.file(), reinterpret_cast<sockaddr*>(&other), &other_size) == 0 && own_size == other_size &&
         std::memcmp(&own, &other, own_size) == 0;
}

}  // namespace

int poll_ms(Clock::time_point until) {
  constexpr int64_t kMost = 100;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, kMost));
}

void Socket::close() {
  if (file_ >= 0) ::close(std::exchange(file_, -1));
}

Socket listen_at(const std::string& host, int port) {
  Socket socket;
  int code = 0;
  if (host.empty()) {
    code = listen_everywhere(socket, port);
  } else {
    const Addresses all = addresses_of(host, port);
    if (!all.list) fail<EnvironmentError>("port {} of {}: {}", port, host, all.problem);
    for (const addrinfo* a = all.list.get(); a; a = a->ai_next) {
      socket = open_socket(a->ai_family);
      code = listen_on(socket, a->ai_addr, a->ai_addrlen);
      if (code == 0 || code == EADDRINUSE) break;
    }
  }
  if (code != 0) fail<EnvironmentError>("port {} of {}: {}", port, host.empty() ? "this host" : host, std::strerror(code));
  return socket;
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail<EnvironmentError>("a socket has no port: {}", std::strerror(errno));
  // sin_port and sin6_port lie in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::optional<Socket> accept_from(const Socket& listener) {
  Socket made(::accept4(listener.file(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!made) {
    // What is wrong with one connection, or with the way to it, is no trouble of others (accept(2)). The rest stays: whoever asks again at
    // once would ask for ever.
    constexpr std::array kOfOne = {EAGAIN,     EWOULDBLOCK, EINTR,     ECONNABORTED, EPROTO,       ENOPROTOOPT, EPERM,
                                   EOPNOTSUPP, ENETDOWN,    EHOSTDOWN, ENONET,       EHOSTUNREACH, ENETUNREACH};
    const int code = errno;
    if (std::find(kOfOne.begin(), kOfOne.end(), code) != kOfOne.end()) return std::nullopt;
    fail<EnvironmentError>("port {}: no connection can be taken: {}", port_of(listener), std::strerror(code));
  }
  tune(made);
  return made;
}

std::optional<Socket> connect_to(const std::string& host, int port, Clock::time_point until, std::string& problem) {
  const Addresses all = addresses_of(host, port);
  problem = all.problem;
  for (const addrinfo* a = all.list.get(); a; a = a->ai_next) {
    Socket socket = open_socket(a->ai_family);
    const int code = connect_within(socket, *a, until);
    if (code == 0 && is_own_end(socket)) {
      problem = std::strerror(ECONNREFUSED);
      continue;
    }
    if (code == 0) {
      tune(socket);
      return socket;
    }
    problem = std::strerror(code);
  }
  return std::nullopt;
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  if (::getpeername(socket.file(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "an unknown address";
  const std::string out = text.data();
  constexpr const char* kMapped = "::ffff:";  // an IPv4 address that came to an IPv6 socket
  return out.starts_with(kMapped) ? out.substr(std::strlen(kMapped)) : out;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

int64_t read_some(const Socket& socket, void* to, size_t size) {
  const ssize_t n = ::recv(socket.file(), to, size, MSG_DONTWAIT);
  if (n > 0) return n;
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

bool write_all(const Socket& socket, const void* from, size_t size, Clock::time_point until) {
  const char* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t n = ::send(socket.file(), at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      size -= static_cast<size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
    if (Clock::now() >= until) return false;
    pollfd file{socket.file(), POLLOUT, 0};
    ::poll(&file, 1, poll_ms(until));
  }
  return true;
}

}  // namespace toroid::distributed::tcp
