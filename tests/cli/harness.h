// Runs the command that lies beside the test, as a user does.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace toroid::test {

struct Outcome {
  int code = -1;
  std::string text;  // stdout and stderr
};

// `before`: shell text in front of the command, for example "TOROID_CACHE=0".
inline Outcome toroid_command(const std::string& arguments, const std::string& before = "") {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "toroid";
  Outcome out;
  FILE* pipe = ::popen(("{ " + before + " " + program.string() + " " + arguments + "; } 2>&1").c_str(), "r");
  if (!pipe) return out;
  std::array<char, 4096> buffer{};
  size_t n;
  while ((n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) out.text.append(buffer.data(), n);
  int status = ::pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

}  // namespace toroid::test
