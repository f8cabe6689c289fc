// What it takes ranks to agree on a decision (distributed::agree of a text of 40 characters): microseconds, for ranks that are threads, and
// for processes by TCP and by MPI; and to compare calls beside collectives (CallCheck), nanoseconds a call in a steady order. On fewer
// processors than ranks they take turns.
//   bench_agreement         2 and 4 ranks of each kind; exit code 1 where some fail
//   bench_agreement --rank  as one of the ranks that something else has started
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/agree.h"
#include "dist/call_check.h"
#include "dist/group.h"
#include "toroid/distributed.h"

using namespace toroid;

namespace {

void measure() {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 51, kCalls = 200;
  distributed::Group& all = distributed::current_world().world();
  const std::string decision(40, 'x');
  std::vector<double> us;
  for (int r = 0; r <= kRounds; ++r) {  // the first one warms up
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) distributed::agree(all, "the decision", decision);
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kCalls);
  }
  us.erase(us.begin());
  std::sort(us.begin(), us.end());
  if (all.rank() == 0)
    fmt::print("{:<8} {} ranks {:>7.1f} us a decision (least {:.1f}, 90 % {:.1f})\n", all.engine(), all.size(), us[kRounds / 2], us.front(),
               us[kRounds * 9 / 10]);
  distributed::CallCheck check(all);
  const distributed::Collective layer{.count = 4096, .where = "layer.cpp:7"}, last{.kind = distributed::Kind::AllGather, .count = 128};
  const auto prepared = check.prepare(layer);
  double ns[2] = {};
  for (int way = 0; way < 2; ++way)
    for (int r = 0; r <= kRounds; ++r) {
      const auto begin = Clock::now();
      for (int i = 0; i < kCalls; ++i) way == 0 ? check.note(layer) : check.note(prepared);
      check.note(last);
      if (r > 2) ns[way] += std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / (kCalls + 1) / (kRounds - 2);
    }
  distributed::agree(all, "the end", "");
  check.compare();
  if (all.rank() == 0)
    fmt::print("{:<8} {} ranks {:>7.1f} ns to compare a call, {:.1f} a recorded one; {} of {} were told\n", all.engine(), all.size(), ns[0],
               ns[1], check.posted(), check.calls());
  std::fflush(stdout);
}

int as_rank() {
  distributed::init();
  measure();
  distributed::finalize();
  return 0;
}

// Whether all ranks have ended well.
bool by_tcp(const char* program, int ranks) {
  const std::string file = fmt::format("/tmp/bench_agreement.{}", ::getpid());
  ::setenv("TOROID_RENDEZVOUS", ("file:" + file).c_str(), 1);
  ::setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  std::vector<pid_t> processes;
  for (int r = 0; r < ranks; ++r) {
    processes.push_back(::fork());
    if (processes.back() == 0) {
      ::setenv("RANK", std::to_string(r).c_str(), 1);
      ::execl(program, program, "--rank", nullptr);
      ::_exit(127);
    }
  }
  bool is_good = true;
  for (size_t r = 0; r < processes.size(); ++r) {
    int status = 0;
    if (processes[r] > 0 && ::waitpid(processes[r], &status, 0) == processes[r] && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    fmt::print("tcp      {} ranks: rank {} fails\n", ranks, r);
    is_good = false;
  }
  ::unsetenv("TOROID_RENDEZVOUS");
  ::unsetenv("WORLD_SIZE");
  return is_good;
}

bool by_mpi(const char* program, int ranks) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) return true;
  const std::string command =
      fmt::format("OMPI_MCA_btl_vader_single_copy_mechanism=none mpirun --allow-run-as-root --oversubscribe --bind-to none -n {} {} --rank",
                  ranks, program);
  if (std::system(command.c_str()) == 0) return true;
  fmt::print("mpi      {} ranks: it fails\n", ranks);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--rank") return as_rank();
  for (int ranks : {2, 4}) distributed::run_local(ranks, measure);
  bool is_good = true;
  for (int ranks : {2, 4}) is_good &= by_tcp(argv[0], ranks);
  for (int ranks : {2, 4}) is_good &= by_mpi(argv[0], ranks);
  return is_good ? 0 : 1;
}
