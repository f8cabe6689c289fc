#include "dist/messages/fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>

#include "base/check.h"
#include "base/text.h"

namespace toroid::distributed::messages {
namespace {

constexpr std::string_view kKinds[] = {"die", "break", "exit", "throw", "sleep", "mismatch", "version"};
constexpr std::string_view kMoments[] = {"hello", "connect"};

struct Fault {
  std::string what, moment;  // no moment: at the collective `number`
  int64_t rank = 0, number = -1, ms = 0;
};

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t whole(std::string_view text) {
  int64_t out = -1;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? out : -1;
}

std::optional<Fault> read_fault() {
  const char* text = std::getenv("TOROID_FAULT");
  if (!text || !*text) return std::nullopt;
  const auto parts = split_list(text, ':');
  Fault f;
  bool is_right = parts.size() == 3 || parts.size() == 4;
  if (is_right) {
    const bool is_at_start = is_one_of(kMoments, parts[2]);
    f = {std::string(parts[0]), std::string(is_at_start ? parts[2] : ""), whole(parts[1]), is_at_start ? -1 : whole(parts[2]),
         parts.size() == 4 ? whole(parts[3]) : 0};
    is_right = f.rank >= 0 && (f.number >= 0 || is_at_start) && f.ms >= 0 && (f.what == "sleep") == (parts.size() == 4) &&
               is_one_of(kKinds, f.what) && (f.what == "version") <= (f.moment == "hello");
  }
  TOROID_USER_CHECK(is_right,
                    "TOROID_FAULT=\"{}\": expected die, break, exit, throw or mismatch with :RANK:NUMBER, or sleep:RANK:NUMBER:MS; in "
                    "place of NUMBER hello or connect, and version:RANK:hello",
                    text);
  return f;
}

const std::optional<Fault>& fault() {
  static const std::optional<Fault> read = read_fault();
  return read;
}

void happen(const Fault& f, const std::string& where) {
  if (f.what == "die" || f.what == "break") ::kill(::getpid(), SIGKILL);
  if (f.what == "exit") ::_exit(3);
  if (f.what == "throw") fail<EnvironmentError>("a fault that TOROID_FAULT asks for, in {}", where);
  if (f.what == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(f.ms));
}

}  // namespace

void apply_fault(int rank, int64_t number, bool is_moving, Collective& told) {
  const auto& f = fault();
  if (!f || f->rank != rank || f->number != number || (f->what == "break") != is_moving) return;
  happen(*f, to_string(told));
  if (f->what == "mismatch") ++told.count;
}

void apply_fault_at_start(int rank, std::string_view moment) {
  if (fault() && is_fault_at_start(fault()->what, rank, moment)) happen(*fault(), fmt::format("distributed::init ({})", moment));
}

bool is_fault_at_start(std::string_view what, int rank, std::string_view moment) {
  const auto& f = fault();
  return f && f->what == what && f->rank == rank && f->moment == moment;
}

}  // namespace toroid::distributed::messages
