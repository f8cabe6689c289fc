#include "cli/interrupt.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <list>

namespace toroid::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// All that the handler uses: it may call next to nothing. The text that is said is never written to, as the handler may be reading it.
std::atomic<const std::string*> text{nullptr};
std::array<struct sigaction, std::size(kSignals)> before{};

void end(int signal) {
  if (const std::string* said = text.load()) {
    if (::isatty(2)) static_cast<void>(::write(2, "\n", 1) == 1);
    static_cast<void>(::write(2, said->data(), said->size()) >= 0);
  }
  ::_exit(128 + signal);
}

}  // namespace

void OnInterrupt::say(const std::string& what) {
  static std::list<std::string>& all = *new std::list<std::string>;  // a handler may be reading an earlier one
  all.push_back("toroid: interrupted; " + what + "\n");
  const bool is_first = text.exchange(&all.back()) == nullptr;
  if (!is_first) return;
  struct sigaction now {};
  now.sa_handler = end;
  ::sigemptyset(&now.sa_mask);
  for (size_t i = 0; i < before.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &now, nullptr);
  }
}

OnInterrupt::~OnInterrupt() {
  for (size_t i = 0; i < before.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  text = nullptr;
}

}  // namespace toroid::cli
