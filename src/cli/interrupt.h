// What a long command says when it is interrupted (Ctrl-C, or SIGTERM), before it ends.
#pragma once

#include <string>

namespace toroid::cli {

// While it lives, SIGINT and SIGTERM end the line that a terminal shows, say the text on standard error, and end the program: exit code 130
// or 143. A signal that is ignored stays so. One at a time.
class OnInterrupt {
 public:
  explicit OnInterrupt(const std::string& text) { say(text); }
  ~OnInterrupt();
  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;
  // Another text from now on.
  void say(const std::string& text);
};

}  // namespace toroid::cli
