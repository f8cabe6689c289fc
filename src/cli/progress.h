// What a long command is doing, on the last line of a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace toroid::cli {

class Progress {
 public:
  // Says nothing where `on` is false, or standard error is no terminal.
  explicit Progress(bool on) : on_(on && isatty(2)) {}
  ~Progress() { say(""); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void say(const std::string& what) {
    if (!on_) return;
    std::fprintf(stderr, "\r%-70s\r%s", "", what.c_str());
    std::fflush(stderr);
  }

 private:
  bool on_;
};

}  // namespace toroid::cli
