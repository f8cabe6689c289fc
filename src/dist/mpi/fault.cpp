#include "dist/mpi/fault.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/text.h"

namespace toroid::distributed::mpi {
namespace {

struct Fault {
  std::string what;
  int64_t rank = 0, number = 0, ms = 0;
};

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
    f = {std::string(parts[0]), whole(parts[1]), whole(parts[2]), parts.size() == 4 ? whole(parts[3]) : 0};
    is_right = f.rank >= 0 && f.number >= 0 && f.ms >= 0 && (f.what == "sleep") == (parts.size() == 4);
    bool is_known = false;
    for (const char* known : {"die", "break", "exit", "throw", "sleep", "mismatch"}) is_known = is_known || f.what == known;
    is_right = is_right && is_known;
  }
  TOROID_USER_CHECK(is_right,
                    "TOROID_FAULT=\"{}\": expected die, break, exit, throw or mismatch with :RANK:NUMBER, or sleep:RANK:NUMBER:MS", text);
  return f;
}

}  // namespace

void apply_fault(int rank, int64_t number, bool is_moving, Collective& told) {
  static const std::optional<Fault> fault = read_fault();
  if (!fault || fault->rank != rank || fault->number != number || (fault->what == "break") != is_moving) return;
  if (fault->what == "die" || fault->what == "break") ::kill(::getpid(), SIGKILL);
  if (fault->what == "exit") ::_exit(3);
  if (fault->what == "throw") fail<EnvironmentError>("a fault that TOROID_FAULT asks for, in {}", to_string(told));
  if (fault->what == "sleep") std::this_thread::sleep_for(std::chrono::milliseconds(fault->ms));
  if (fault->what == "mismatch") ++told.count;
}

}  // namespace toroid::distributed::mpi
