// Nothing travels but while somebody waits: there is no thread. A message is a head and its bytes; what comes before it is asked for is
// kept. What is sent stays with its sender until the system has taken it.
#include "dist/tcp/tcp_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "dist/deadline.h"
#include "dist/tcp/greeting.h"

namespace toroid::distributed::tcp {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMostBytes = (int64_t{1} << 31) - 1;
constexpr int kMostTag = (1 << 30) - 1;

struct Head {
  uint32_t magic;
  int32_t tag;
  int64_t bytes;
};
constexpr uint32_t kHeadMagic = 0x544f4d53;

using Bytes = std::vector<std::byte>;

// One that the group's code has opened. Who asks first gets first, as in MPI.
struct Open {
  int rank;
  int tag;
  bool is_receive;
  bool is_done = false;
  const std::byte* from = nullptr;  // of a send
  std::byte* to = nullptr;          // of a receive; null where it is given up: what comes is dropped
  int64_t bytes;                    // of a receive: the most; when done, those that came
  int64_t moved = 0;                // of a send: with its head
  std::optional<Bytes> own = {};    // of a send that nobody waits for any more: its bytes
};

struct Peer {
  Socket socket;
  std::string lost;      // why nothing comes any more
  bool is_deaf = false;  // it takes nothing any more; what it has sent may still come
  std::deque<Open*> sends;
  std::map<int, std::deque<Open*>> receives;  // by tag
  std::map<int, std::deque<Bytes>> kept;      // by tag: what no receive has asked for yet
  // What is being read: a head, then its bytes.
  Head head{};
  size_t of_head = 0;
  int64_t of_body = 0;
  Open* reader = nullptr;  // whose bytes they are, else `body`
  Bytes body;
  bool is_dropped = false;  // the body is nobody's
  // What has been read of the connection and not been looked at.
  std::array<std::byte, 16384> buffer;
  size_t begin = 0, end = 0;
};

class TcpTransport : public messages::Transport {
 public:
  TcpTransport(int rank, std::vector<Socket> connections) : rank_(rank) {
    for (auto& c : connections) {
      peers_.push_back(std::make_unique<Peer>());
      peers_.back()->socket = std::move(c);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  int most_tag() const override { return kMostTag; }
  std::string engine() const override { return "tcp"; }
  std::string version() const override { return fmt::format("TCP, protocol {}", kProtocol); }

  Request send(const std::byte* data, int64_t bytes, int to, int tag) override {
    TOROID_CHECK(bytes >= 0 && bytes <= kMostBytes, "a message of {} bytes", bytes);
    std::lock_guard lock(mutex_);
    auto* m = new Open{.rank = to, .tag = tag, .is_receive = false, .from = data, .bytes = bytes};
    Peer& p = peer(to);
    p.sends.push_back(m);
    if (p.sends.size() == 1) write(p);
    return m;
  }

  Request receive(std::byte* data, int64_t bytes, int from, int tag) override {
    std::lock_guard lock(mutex_);
    auto* m = new Open{.rank = from, .tag = tag, .is_receive = true, .to = data, .bytes = bytes};
    Peer& p = peer(from);
    if (const auto kept = p.kept.find(tag); kept != p.kept.end()) {
      finish(*m, kept->second.front());
      kept->second.pop_front();
      if (kept->second.empty()) p.kept.erase(kept);
    } else {
      p.receives[tag].push_back(m);
    }
    return m;
  }

  std::optional<int64_t> test(Request& request) override {
    std::lock_guard lock(mutex_);
    auto* m = static_cast<Open*>(request);
    if (!m->is_done) return std::nullopt;
    const int64_t bytes = m->is_receive ? m->bytes : 0;
    delete m;
    request = nullptr;
    return bytes;
  }

  void cancel(Request request) override {
    std::lock_guard lock(mutex_);
    auto* m = static_cast<Open*>(request);
    if (m->is_done) return;
    Peer& p = peer(m->rank);
    if (m->is_receive) {
      if (p.reader == m) {
        p.reader = nullptr;
        p.body.resize(static_cast<size_t>(p.head.bytes));  // its rest goes there, and is nobody's
        p.is_dropped = true;
      } else {
        drop(p.receives, m);
      }
    } else if (m->moved == 0 || p.is_deaf) {
      std::erase(p.sends, m);
    } else {
      // A part has gone: the rest must follow, from memory of its own.
      auto* rest = new Open(*m);
      rest->own.emplace(m->from, m->from + m->bytes);
      rest->from = rest->own->data();
      *std::find(p.sends.begin(), p.sends.end(), m) = rest;
    }
    m->is_done = true;
    m->bytes = 0;
  }

  std::optional<Waiting> find(int tag) override {
    std::lock_guard lock(mutex_);
    for (int r = 0; r < size(); ++r)
      if (const auto kept = peer(r).kept.find(tag); kept != peer(r).kept.end())
        return Waiting{r, static_cast<int64_t>(kept->second.front().size())};
    return std::nullopt;
  }

  void progress() override {
    std::lock_guard lock(mutex_);
    for (auto& p : peers_) {
      if (!p->socket) continue;
      if (!p->sends.empty()) write(*p);
      read(*p);
    }
  }

  // A processor that others may need is given up at once: the system wakes who waits for what comes.
  void pause(std::chrono::steady_clock::duration) override {
    std::vector<pollfd> files;
    {
      std::lock_guard lock(mutex_);
      for (auto& p : peers_)
        if (p->socket)
          files.push_back({p->socket.file(), static_cast<short>(p->sends.empty() || p->is_deaf ? POLLIN : POLLIN | POLLOUT), 0});
    }
    // Another thread may read what this one waits for.
    constexpr int kSoonMs = 1;
    if (files.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(kSoonMs));
    else
      ::poll(files.data(), files.size(), kSoonMs);
  }

  std::string lost(int rank) override {
    std::lock_guard lock(mutex_);
    return peer(rank).lost;
  }

  // What was sent may still be on its way: a connection is closed when the other end has said that nothing more comes.
  void stop(double seconds) override {
    const auto until = deadline(seconds);
    for (auto& p : peers_)
      if (p->socket) ::shutdown(p->socket.file(), SHUT_WR);
    const auto is_open = [](auto& p) { return static_cast<bool>(p->socket); };
    while (std::any_of(peers_.begin(), peers_.end(), is_open)) {
      if (Clock::now() > until)
        fail<EnvironmentError>("distributed::finalize: other ranks do not end within {} s (timeout_seconds of init)", seconds);
      pause({});
      progress();
    }
  }

  void abort(int exit_code) override {
    progress();
    ::_exit(exit_code);
  }

 private:
  Peer& peer(int rank) { return *peers_[static_cast<size_t>(rank)]; }

  static void drop(std::map<int, std::deque<Open*>>& lists, Open* m) {
    const auto at = lists.find(m->tag);
    if (at == lists.end()) return;
    std::erase(at->second, m);
    if (at->second.empty()) lists.erase(at);
  }

  static void finish(Open& m, const Bytes& bytes) {
    if (static_cast<int64_t>(bytes.size()) > m.bytes)
      fail<EnvironmentError>("rank {} sent {} bytes in place of {}", m.rank, bytes.size(), m.bytes);
    if (!bytes.empty()) std::memcpy(m.to, bytes.data(), bytes.size());
    m.bytes = static_cast<int64_t>(bytes.size());
    m.is_done = true;
  }

  void write(Peer& p) {
    while (!p.sends.empty() && !p.is_deaf && p.socket) {
      Open& m = *p.sends.front();
      const Head head = {kHeadMagic, m.tag, m.bytes};
      constexpr auto kHead = static_cast<int64_t>(sizeof head);
      const int64_t of_head = std::min(m.moved, kHead), of_body = m.moved - of_head;
      std::array<iovec, 2> parts = {
          iovec{const_cast<char*>(reinterpret_cast<const char*>(&head)) + of_head, static_cast<size_t>(kHead - of_head)},
          iovec{const_cast<std::byte*>(m.from) + of_body, static_cast<size_t>(m.bytes - of_body)}};
      msghdr message{};
      message.msg_iov = parts.data();
      message.msg_iovlen = parts.size();
      const ssize_t n = ::sendmsg(p.socket.file(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) p.is_deaf = true;
        return;
      }
      m.moved += n;
      if (m.moved < kHead + m.bytes) return;
      p.sends.pop_front();
      if (m.own)
        delete &m;
      else
        m.is_done = true;
    }
  }

  void read(Peer& p) {
    while (p.socket) {
      if (!take_from_buffer(p)) return;
      // Large bodies go to their place at once.
      const int64_t left = p.of_head == sizeof p.head ? p.head.bytes - p.of_body : 0;
      const bool is_direct = left >= static_cast<int64_t>(p.buffer.size());
      p.begin = p.end = 0;
      const int64_t n =
          is_direct ? read_some(p.socket, place_of(p), static_cast<size_t>(left)) : read_some(p.socket, p.buffer.data(), p.buffer.size());
      if (n < 0) return close(p, "its connection is closed");
      if (n == 0) return;
      if (is_direct) {
        p.of_body += n;
        continue;
      }
      p.end = static_cast<size_t>(n);
      if (p.end < p.buffer.size()) {  // there is no more now
        take_from_buffer(p);
        return;
      }
    }
  }

  static std::byte* place_of(Peer& p) { return (p.reader ? p.reader->to : p.body.data()) + p.of_body; }

  // False where the connection is of no use any more.
  bool take_from_buffer(Peer& p) {
    while (true) {
      if (p.of_head < sizeof p.head) {
        const size_t n = std::min(sizeof p.head - p.of_head, p.end - p.begin);
        std::memcpy(reinterpret_cast<std::byte*>(&p.head) + p.of_head, p.buffer.data() + p.begin, n);
        p.begin += n, p.of_head += n;
        if (p.of_head < sizeof p.head) return true;
        if (!begin_body(p)) return false;
      }
      const auto n = std::min<int64_t>(p.head.bytes - p.of_body, static_cast<int64_t>(p.end - p.begin));
      if (n > 0) std::memcpy(place_of(p), p.buffer.data() + p.begin, static_cast<size_t>(n));
      p.begin += static_cast<size_t>(n), p.of_body += n;
      if (p.of_body < p.head.bytes) return true;
      end_body(p);
    }
  }

  bool begin_body(Peer& p) {
    const Head& h = p.head;
    if (h.magic != kHeadMagic || h.tag < 0 || h.tag > kMostTag || h.bytes < 0 || h.bytes > kMostBytes) {
      close(p, "it sent what is no message");
      return false;
    }
    p.of_body = 0;
    p.reader = nullptr;
    p.is_dropped = false;
    if (const auto open = p.receives.find(h.tag); open != p.receives.end()) {
      Open* const m = open->second.front();
      if (h.bytes > m->bytes) {
        close(p, fmt::format("it sent {} bytes in place of {}", h.bytes, m->bytes));
        return false;
      }
      p.reader = m;
      drop(p.receives, m);
    } else {
      p.body.resize(static_cast<size_t>(h.bytes));
    }
    return true;
  }

  void end_body(Peer& p) {
    p.of_head = 0;
    if (p.reader) {
      p.reader->bytes = p.head.bytes;
      p.reader->is_done = true;
      p.reader = nullptr;
    } else if (!std::exchange(p.is_dropped, false)) {
      // It may have been asked for since its begin came.
      if (const auto open = p.receives.find(p.head.tag); open != p.receives.end()) {
        Open* const m = open->second.front();
        finish(*m, p.body);
        drop(p.receives, m);
      } else {
        p.kept[p.head.tag].push_back(std::move(p.body));
      }
    }
    p.body.clear();
  }

  static void close(Peer& p, const std::string& why) {
    p.lost = why;
    p.is_deaf = true;
    p.socket.close();
  }

  const int rank_;
  std::mutex mutex_;  // of all below
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace

std::unique_ptr<messages::Transport> make_transport(int rank, std::vector<Socket> connections) {
  return std::make_unique<TcpTransport>(rank, std::move(connections));
}

}  // namespace toroid::distributed::tcp
