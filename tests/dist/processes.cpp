#include "dist/processes.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/files.h"
#include "dist/tcp/socket.h"

namespace toroid::test {

namespace {

constexpr int kMostSeconds = 50;
// Leaks of MPI itself are none of Toroid's.
const std::string kEnvironment = "OMPI_MCA_btl_vader_single_copy_mechanism=none ASAN_OPTIONS=detect_leaks=0:intercept_tls_get_addr=0 ";

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

RanksOutcome outcome_of(const std::string& command) {
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

}  // namespace

RanksOutcome run_ranks(int ranks, const std::string& body, const std::string& before, bool survive) {
  return outcome_of(
      fmt::format("{} {} timeout -k 1 {} mpirun --allow-run-as-root --oversubscribe --bind-to none {} -n {} {} --rank-body {} 2>&1",
                  kEnvironment, before, kMostSeconds, survive ? "--enable-recovery" : "", ranks, own_program(), body));
}

RanksOutcome run_apart(int ranks, const std::string& body, const std::string& before, const std::map<int, std::string>& each) {
  const auto folder = make_temp_dir();
  std::string script;
  for (int r = 0; r < ranks; ++r)
    script += fmt::format("RANK={} {} {} --rank-body {} & pids=\"$pids $!\"; ", r, each.count(r) ? each.at(r) : "", own_program(), body);
  const bool meets = before.find("MASTER_ADDR") != std::string::npos || before.find("TOROID_RENDEZVOUS") != std::string::npos;
  const std::string file = meets ? "" : "TOROID_RENDEZVOUS=file:" + (folder / "port").string();
  auto out = outcome_of(
      fmt::format("{} {} WORLD_SIZE={} {} timeout -k 1 {} sh -c '{} code=0; for p in $pids; do wait $p || code=$?; done; exit $code' 2>&1",
                  kEnvironment, file, ranks, before, kMostSeconds, script));
  std::filesystem::remove_all(folder);
  return out;
}

std::string at_a_port() {
  const auto free = distributed::tcp::listen_at("127.0.0.1", 0);
  return fmt::format("MASTER_ADDR=127.0.0.1 MASTER_PORT={}", distributed::tcp::port_of(free));
}

std::string told_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  return "?";
}

}  // namespace toroid::test
