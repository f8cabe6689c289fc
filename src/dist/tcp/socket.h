// TCP connections that never wait without a limit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace toroid::distributed::tcp {

using Clock = std::chrono::steady_clock;

inline constexpr int kMostPort = 65535;

// Milliseconds from now on, as ::poll takes them: 0 or more, and never so many that a change elsewhere is missed for long.
int poll_ms(Clock::time_point until);

// Owns a file descriptor. All of them are closed in programs that this process starts, and none waits when it is read or written.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) close(), file_ = std::exchange(other.file_, -1);
    return *this;
  }

  int file() const { return file_; }
  explicit operator bool() const { return file_ >= 0; }
  void close();

 private:
  int file_ = -1;
};

// Listens at an address and a port (0: any that is free). host: a name or number; empty: all addresses of this host. EnvironmentError
// with what the system says where that does not go: "port 29500 of localhost: Address already in use".
Socket listen_at(const std::string& host, int port);
int port_of(const Socket& socket);
// What has asked to be connected; none where nobody has, or who did has gone. EnvironmentError where this process can take no connection:
// "Too many open files".
std::optional<Socket> accept_from(const Socket& listener);
// Tries each address of the host once, until then. Without a connection, why not is in `problem`.
std::optional<Socket> connect_to(const std::string& host, int port, Clock::time_point until, std::string& problem);

// The number of the host at the other end: "10.0.0.7".
std::string peer_address(const Socket& socket);
// Whether only processes of this host can know the address by this name: "localhost", "127.0.0.1", "::1".
bool is_loopback(const std::string& host);

// Reads up to `size` bytes that have come. 0: none yet; -1: no more will come.
int64_t read_some(const Socket& socket, void* to, size_t size);
// Writes all, until then; false where it is over before, or the connection.
bool write_all(const Socket& socket, const void* from, size_t size, Clock::time_point until);

}  // namespace toroid::distributed::tcp
