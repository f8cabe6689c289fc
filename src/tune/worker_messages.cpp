#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "tune/worker.h"

namespace toroid::tune {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 36;

// Writes, or reads, values one after another by the same functions, so that both sides agree.
class Writer {
 public:
  static constexpr bool kWrites = true;
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(const T& v) {
    out.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void operator()(const std::string& s) {
    (*this)(static_cast<uint64_t>(s.size()));
    out += s;
  }
  std::string out;
};

class Reader {
 public:
  static constexpr bool kWrites = false;
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void operator()(T& v) { std::memcpy(&v, take(sizeof v), sizeof v); }
  void operator()(std::string& s) {
    uint64_t size = 0;
    (*this)(size);
    s.assign(take(size), size);
  }
  void end() const { TOROID_CHECK(rest_.empty(), "a message of a tuning worker is too long"); }

 private:
  const char* take(uint64_t n) {
    TOROID_CHECK(n <= rest_.size(), "a message of a tuning worker ends too early");
    const char* p = rest_.data();
    rest_.remove_prefix(n);
    return p;
  }
  std::string_view rest_;
};

template <class S, class T, class F>
void each(S& stream, T& list, F&& f) {
  uint64_t n = list.size();
  stream(n);
  if constexpr (!S::kWrites) {
    TOROID_CHECK(n <= 1 << 24, "a message of a tuning worker has a list of {}", n);
    list.resize(n);
  }
  for (auto& e : list) f(e);
}

template <class S, class E>
void number(S& stream, E& e) {
  int64_t v = 0;
  if constexpr (S::kWrites) v = sym::evaluate(e, [](const sym::Node&) -> int64_t { return 0; });
  stream(v);
  if constexpr (!S::kWrites) e = Expr(v);
}

template <class S, class M>
void tensor_map(S& stream, M& m) {
  stream(m.buffer), stream(m.dtype), stream(m.tf32), number(stream, m.offset);
  each(stream, m.sizes, [&](auto& e) { number(stream, e); });
  each(stream, m.strides, [&](auto& e) { number(stream, e); });
  each(stream, m.box, [&](auto& e) { stream(e); });
  stream(m.swizzle);
  bool window = m.window.has_value();
  stream(window);
  if constexpr (!S::kWrites)
    if (window) m.window.emplace();
  if (!window) return;
  for (int i = 0; i < 2; ++i) stream(m.window->first[i]), stream(m.window->last[i]), stream(m.window->step[i]);
}

template <class S, class K>
void kernel(S& stream, K& k) {
  stream(k.name), stream(k.source);
  each(stream, k.buffers, [&](auto& b) { stream(b); });
  each(stream, k.params, [&](auto& p) { stream(p); });
  stream(k.tasks), stream(k.serial), stream(k.scratch_bytes), stream(k.counters), stream(k.block), stream(k.shared_bytes);
  stream(k.overlaps);
  each(stream, k.tensor_maps, [&](auto& m) { tensor_map(stream, m); });
}

template <class S, class R>
void request(S& stream, R& r) {
  auto& j = r.job;
  stream(j.isa), stream(j.gpu);
  each(stream, j.buffers, [&](auto& b) {
    stream(b.dtype), stream(b.numel), stream(b.use), stream(b.seed), stream(b.integers.low), stream(b.integers.high),
        stream(b.integers.distinct), stream(b.contents);
  });
  each(stream, j.kernels, [&](auto& k) { kernel(stream, k); });
  stream(j.runs), stream(j.nan_is_wrong), stream(j.contents), stream(r.memory_mb), stream(r.leak_mb);
  each(stream, r.options, [&](auto& o) { stream(o.first), stream(o.second); });
}

template <class S, class R>
void result(S& stream, R& r) {
  stream(r.outcome), stream(r.reason), stream(r.nan), stream(r.compile_ms);
  each(stream, r.ns, [&](auto& v) { stream(v); });
  each(stream, r.hashes, [&](auto& v) { stream(v); });
  each(stream, r.contents, [&](auto& v) { stream(v); });
}

using Steady = std::chrono::steady_clock;

bool receive(int socket, char* to, uint64_t n, Steady::time_point until, bool timed, bool* late) {
  while (n > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Steady::now()).count();
    pollfd p{socket, POLLIN, 0};
    const int ready = timed && left <= 0 ? 0 : ::poll(&p, 1, timed ? static_cast<int>(left) : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      if (late) *late = ready == 0;
      return false;
    }
    const ssize_t got = ::recv(socket, to, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    n -= static_cast<uint64_t>(got);
  }
  return true;
}

}  // namespace

std::string serialize(const WorkerRequest& r) {
  Writer w;
  request(w, r);
  return std::move(w.out);
}

WorkerRequest parse_request(std::string_view bytes) {
  Reader reader(bytes);
  WorkerRequest r;
  request(reader, r);
  reader.end();
  return r;
}

std::string serialize(const WorkerResult& r) {
  Writer w;
  result(w, r);
  return std::move(w.out);
}

WorkerResult parse_result(std::string_view bytes) {
  Reader reader(bytes);
  WorkerResult r;
  result(reader, r);
  reader.end();
  return r;
}

bool send_message(int socket, std::string_view bytes) {
  const uint64_t size = bytes.size();
  std::string all(reinterpret_cast<const char*>(&size), sizeof size);
  all += bytes;
  for (std::string_view rest = all; !rest.empty();) {
    const ssize_t n = ::send(socket, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool receive_message(int socket, std::string& bytes, int timeout_ms, bool* late) {
  if (late) *late = false;
  const auto until = Steady::now() + std::chrono::milliseconds(std::max(timeout_ms, 0));
  uint64_t size = 0;
  if (!receive(socket, reinterpret_cast<char*>(&size), sizeof size, until, timeout_ms >= 0, late) || size > kMostBytes) return false;
  bytes.resize(size);
  return receive(socket, bytes.data(), size, until, timeout_ms >= 0, late);
}

}  // namespace toroid::tune
