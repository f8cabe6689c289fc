#include "dist/tcp/greeting.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "base/text.h"

namespace toroid::distributed::tcp {
namespace {

constexpr char kHelloMagic[] = "TOROIDHI", kPeerMagic[] = "TOROIDPE";
constexpr uint32_t kAnswerMagic = 0x544f5241;
constexpr size_t kMagic = 8, kMostAnswer = size_t{8} << 20, kAnswerHead = 3 * sizeof(uint32_t), kHost = 64;

template <class T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(std::string_view& bytes) {
  T out{};
  std::memcpy(&out, bytes.data(), sizeof out);
  bytes.remove_prefix(sizeof out);
  return out;
}

// What somebody else has written may be shown.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, text.find('\0')));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return out;
}

std::optional<int> port_from(std::string_view text) {
  int port = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), port);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || port < 1 || port > kMostPort) return std::nullopt;
  return port;
}

}  // namespace

Secret random_secret() {
  Secret out{};
  if (::getrandom(out.data(), sizeof out, 0) != sizeof out) fail<EnvironmentError>("the system gives no random bytes");
  return out;
}

Secret secret_of(const std::string& job) {
  const Hash128 h = hash_text(job);
  return {h.hi, h.lo};
}

std::string to_hex(const Secret& s) { return fmt::format("{:016x}{:016x}", s[0], s[1]); }

std::optional<Secret> secret_from_hex(std::string_view text) {
  constexpr size_t kDigits = 16;
  constexpr int kHex = 16;
  if (text.size() != 2 * kDigits) return std::nullopt;
  Secret out{};
  for (size_t i = 0; i < 2; ++i) {
    const char* const begin = text.data() + i * kDigits;
    const auto end = std::from_chars(begin, begin + kDigits, out[i], kHex);
    if (end.ec != std::errc() || end.ptr != begin + kDigits) return std::nullopt;
  }
  return out;
}

std::string to_bytes(const Hello& h) {
  std::string out = kHelloMagic;
  put(out, h.protocol);
  put(out, uint32_t{0});
  put(out, h.secret);
  for (int32_t v : {h.rank, h.size, h.pid, h.port}) put(out, v);
  out += h.host.substr(0, kHost - 1);
  out.resize(kHelloBytes);
  return out;
}

std::optional<Hello> hello_from(std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !bytes.starts_with(kHelloMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic);
  Hello h;
  h.protocol = take<uint32_t>(bytes);
  take<uint32_t>(bytes);
  h.secret = take<Secret>(bytes);
  h.rank = take<int32_t>(bytes), h.size = take<int32_t>(bytes), h.pid = take<int32_t>(bytes), h.port = take<int32_t>(bytes);
  h.host = printable(bytes);
  return h;
}

std::string to_string(const Hello& h) { return fmt::format("rank {} (process {} of {})", h.rank, h.pid, h.host); }

std::string to_bytes(const PeerHello& h) {
  std::string out = kPeerMagic;
  put(out, h.secret);
  put(out, h.rank);
  return out;
}

std::optional<PeerHello> peer_hello_from(std::string_view bytes) {
  if (bytes.size() != kPeerHelloBytes || !bytes.starts_with(kPeerMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic);
  PeerHello h;
  h.secret = take<Secret>(bytes);
  h.rank = take<int32_t>(bytes);
  return h;
}

std::string to_bytes(const Answer& a) {
  std::string out;
  put(out, kAnswerMagic);
  put(out, static_cast<uint32_t>(a.kind));
  put(out, static_cast<uint32_t>(a.text.size()));
  return out + a.text;
}

Reading answer_from(std::string_view bytes, Answer& out) {
  // A magic number that begins otherwise is known as soon as its first bytes are there.
  if (std::memcmp(bytes.data(), &kAnswerMagic, std::min(bytes.size(), sizeof kAnswerMagic)) != 0) return Reading::Foreign;
  if (bytes.size() < kAnswerHead) return Reading::Part;
  take<uint32_t>(bytes);
  const auto kind = take<uint32_t>(bytes), size = take<uint32_t>(bytes);
  if (kind < Answer::Missing || kind > Answer::Problem || size > kMostAnswer) return Reading::Foreign;
  if (bytes.size() < size) return Reading::Part;
  out = {static_cast<Answer::Kind>(kind), std::string(bytes)};
  return Reading::Whole;
}

size_t answer_lacks(std::string_view bytes) {
  if (bytes.size() < kAnswerHead) return kAnswerHead - bytes.size();
  std::string_view rest = bytes.substr(2 * sizeof(uint32_t));
  return kAnswerHead + take<uint32_t>(rest) - bytes.size();
}

std::string to_text(const World& w) {
  std::string out = to_hex(w.secret);
  for (auto& e : w.ends) out += fmt::format("\n{} {}", e.address.empty() ? "-" : e.address, e.port);
  return out;
}

std::optional<World> world_from(const std::string& text) {
  const auto lines = split_list(text, '\n');
  if (lines.empty()) return std::nullopt;
  World w;
  const auto secret = secret_from_hex(lines[0]);
  if (!secret) return std::nullopt;
  w.secret = *secret;
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t space = lines[i].find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const auto port = port_from(lines[i].substr(space + 1));
    if (!port) return std::nullopt;
    const std::string address(lines[i].substr(0, space));
    w.ends.push_back({address == "-" ? "" : address, *port});
  }
  return w;
}

}  // namespace toroid::distributed::tcp
