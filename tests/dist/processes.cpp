#include "dist/processes.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>

namespace toroid::test {

RanksOutcome run_ranks(int ranks, const std::string& body, const std::string& before, bool survive) {
  constexpr int kMostSeconds = 50;
  // Leaks of MPI itself are none of Toroid's.
  const std::string environment = "OMPI_MCA_btl_vader_single_copy_mechanism=none ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0 ";
  const std::string command = fmt::format(
      "{} {} timeout -k 1 {} mpirun --allow-run-as-root --oversubscribe --bind-to none {} -n {} {} --rank-body {} 2>&1", environment,
      before, kMostSeconds, survive ? "--enable-recovery" : "", ranks, std::filesystem::read_symlink("/proc/self/exe").string(), body);
  RanksOutcome out;
  const auto begin = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(command.c_str(), "r");
  if (!pipe) return out;
  std::array<char, 4096> buffer{};
  size_t n;
  while ((n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) out.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

}  // namespace toroid::test
