#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "exec/plan_file.h"
#include "tune/isolate/worker.h"

namespace toroid::tune {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 36;

// Writes, or reads, values one after another by the same functions, so that both sides agree. Launches go as they do in plans.
struct Writer {
  static constexpr bool kWrites = true;
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void operator()(const T& v) { out.integer(static_cast<int64_t>(v)); }
  void operator()(double v) { out.real(v); }
  void operator()(const std::string& s) { out.text(s); }
  void operator()(const exec::Launch& l) { exec::write_launch(out, l); }
  exec::ByteWriter out;
};

struct Reader {
  static constexpr bool kWrites = false;
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void operator()(T& v) { v = static_cast<T>(in.integer("a number")); }
  void operator()(double& v) { v = in.real(); }
  void operator()(std::string& s) { s = in.text("a string"); }
  void operator()(exec::Launch& l) { l = exec::read_launch(in); }
  exec::ByteReader in;
};

template <class S, class T, class F>
void each(S& stream, T& list, F&& f) {
  if constexpr (S::kWrites)
    stream.out.count(list.size());
  else
    list.resize(stream.in.length());
  for (auto& e : list) f(e);
}

template <class S, class R>
void request(S& stream, R& r) {
  auto& j = r.job;
  stream(j.isa), stream(j.gpu);
  each(stream, j.buffers, [&](auto& b) {
    stream(b.dtype), stream(b.numel), stream(b.use), stream(b.seed), stream(b.integers.low), stream(b.integers.high),
        stream(b.integers.distinct), stream(b.contents);
    each(stream, b.integers.strides, [&](auto& v) { stream(v); });
  });
  each(stream, j.kernels, [&](auto& k) { stream(k.source), stream(k.launch); });
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

// Both sides are of one revision: what does not read is no fault of a user's.
template <class F>
void parse(std::string_view bytes, F&& read) {
  Reader reader{exec::ByteReader(bytes, "message of a tuning worker", 0)};
  try {
    read(reader);
    reader.in.end();
  } catch (const UserError& e) {
    fail<InternalError>("{}", e.what());
  }
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
  return std::move(w.out.out);
}

WorkerRequest parse_request(std::string_view bytes) {
  WorkerRequest r;
  parse(bytes, [&](Reader& reader) { request(reader, r); });
  return r;
}

std::string serialize(const WorkerResult& r) {
  Writer w;
  result(w, r);
  return std::move(w.out.out);
}

WorkerResult parse_result(std::string_view bytes) {
  WorkerResult r;
  parse(bytes, [&](Reader& reader) { result(reader, r); });
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
