// What a long command is doing, on the last line of a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace toroid::cli {

class Progress {
 public:
  // Says nothing where `on` is false, or standard error is no terminal, or one that cannot write a line anew.
  explicit Progress(bool on) : on_(on && isatty(2) && !is_dumb()) {}
  ~Progress() { say(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(const std::string& what) {
    if (!on_) return;
    std::fprintf(stderr, "\r%-70s\r%s", "", what.c_str());
    std::fflush(stderr);
  }

 private:
  static bool is_dumb() {
    const char* term = std::getenv("TERM");
    return term && std::string_view(term) == "dumb";
  }

  bool on_;
};

}  // namespace toroid::cli
