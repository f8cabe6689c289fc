// toroid launch: a program as several ranks on this machine, started by mpirun.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/launch_report.h"

namespace toroid::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSignalsForRanks[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
std::atomic<uint64_t> caught_signals{0};

void catch_signal(int signal) { caught_signals |= uint64_t{1} << signal; }

bool is_in_path(const char* name) {
  const char* path = std::getenv("PATH");
  for (std::string_view folder : split_list(path ? path : "", ':'))
    if (::access((std::filesystem::path(folder) / name).c_str(), X_OK) == 0) return true;
  return false;
}

// A folder of its own for a launch, removed at the end, with the pipe that ranks report to.
class LaunchFolder {
 public:
  LaunchFolder() : path_(make_temp_dir("toroid-launch")) {
    const auto pipe = report_pipe(path_);
    if (::mkfifo(pipe.c_str(), 0600) != 0) fail<EnvironmentError>("launch: {}: {}", pipe.string(), std::strerror(errno));
    reports_ = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);  // a writer, too: there is no end of file between two ranks
    if (reports_ < 0) fail<EnvironmentError>("launch: {}: {}", pipe.string(), std::strerror(errno));
  }
  ~LaunchFolder() {
    ::close(reports_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LaunchFolder(const LaunchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  int reports() const { return reports_; }

 private:
  const std::filesystem::path path_;
  int reports_ = -1;
};

class Launch {
 public:
  explicit Launch(const LaunchArgs& args) : args_(args), ranks_(static_cast<size_t>(args.ranks)) {}

  int run() {
    for (int s : kSignalsForRanks) ::signal(s, catch_signal);
    start();
    while (ended_ < ranks_.size()) {
      pass_signals_on();
      end_what_remains();
      const bool is_over = has_starter_ended();  // asked first: what it reported before is read below
      listen();
      if (is_over && ended_ < ranks_.size()) return without_starter();
    }
    end_starter();
    return outcome();
  }

 private:
  struct Rank {
    pid_t pid = 0;  // while it runs
    bool has_ended = false;
    std::array<bool, 2> is_within_line{};
  };
  struct End {
    int rank;
    std::string how;
    int code;
  };

  void start() {
    if (!is_in_path("mpirun")) fail<EnvironmentError>("launch: there is no mpirun; install Open MPI (Debian: apt-get install openmpi-bin)");
    std::vector<std::string> words = {"mpirun",
                                      "--allow-run-as-root",
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "--enable-recovery",
                                      "-n",
                                      std::to_string(args_.ranks),
                                      std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "launch",
                                      "--rank-of",
                                      folder_.path().string(),
                                      "--"};
    words.insert(words.end(), args_.program.begin(), args_.program.end());
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    ::setenv("TOROID_LAUNCH", folder_.path().c_str(), 1);
    // Copies between processes that the system may refuse; messages are copied once more instead.
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) fail<EnvironmentError>("launch: no pipe can be made: {}", std::strerror(errno));
    starter_ = ::fork();
    if (starter_ < 0) fail<EnvironmentError>("launch: no process can be started: {}", std::strerror(errno));
    if (starter_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::setpgid(0, 0);  // a terminal's Ctrl-C comes here, and is passed on once
      const int nothing = ::open("/dev/null", O_RDONLY);
      ::dup2(nothing, 0);
      ::dup2(pipe[1], 1);
      ::dup2(pipe[1], 2);
      for (int s : kSignalsForRanks) ::signal(s, SIG_DFL);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
    ::fcntl(pipe[0], F_SETFL, O_NONBLOCK);
    starter_output_ = pipe[0];
  }

  void pass_signals_on() {
    const uint64_t signals = caught_signals.exchange(0);
    for (int s : kSignalsForRanks)
      if (signals >> s & 1) {
        for (auto& r : ranks_)
          if (r.pid) ::kill(r.pid, s);
        if (s != SIGUSR1 && s != SIGUSR2 && !told_to_end_) told_to_end_ = s, limit_ = Clock::now() + kLong;
      }
  }

  // Those that run where one has failed, or where all should end and do not.
  void end_what_remains() {
    if (!limit_ || Clock::now() < *limit_) return;
    const int signal = has_asked_ ? SIGKILL : SIGTERM;
    for (auto& r : ranks_)
      if (r.pid) ::kill(r.pid, signal);
    if (has_asked_ && started_ < ranks_.size()) ::kill(starter_, SIGKILL);
    has_asked_ = true;
    limit_ = Clock::now() + kLong;
  }

  void listen() {
    std::array<pollfd, 2> files = {pollfd{folder_.reports(), POLLIN, 0}, pollfd{starter_output_, POLLIN, 0}};
    constexpr int kLookMs = 50;
    ::poll(files.data(), files.size(), kLookMs);
    std::array<char, 65536> buffer{};
    ssize_t n;
    while ((n = ::read(starter_output_, buffer.data(), buffer.size())) > 0) starter_said_.append(buffer.data(), static_cast<size_t>(n));
    if (n == 0) {
      ::close(starter_output_);
      starter_output_ = -1;  // which poll and read pass over
    }
    while ((n = ::read(folder_.reports(), buffer.data(), buffer.size())) > 0) {
      pending_.append(buffer.data(), static_cast<size_t>(n));
      size_t begin = 0;
      for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1)
        take(report_from(std::string_view(pending_).substr(begin, end - begin)));
      pending_.erase(0, begin);
    }
    std::fflush(stdout);
  }

  void take(const LaunchReport& r) {
    Rank& rank = ranks_.at(static_cast<size_t>(r.rank));
    switch (r.kind) {
      case LaunchReport::Started:
        rank.pid = r.number;
        ++started_;
        if (told_to_end_) ::kill(rank.pid, told_to_end_);
        return;
      case LaunchReport::Exited:
        return take_end(r.rank, fmt::format("ended with exit code {}", r.number), r.number);
      case LaunchReport::Killed:
        return take_end(r.rank, fmt::format("was ended by signal {} ({})", r.number, ::strsignal(r.number)), 128 + r.number);
      case LaunchReport::NoProgram:
        return take_end(r.rank, fmt::format("could not be started: {}: {}", args_.program[0], std::strerror(r.number)), 127);
      case LaunchReport::Out:
      case LaunchReport::OutPart:
        return print(r, 0, stdout, r.kind == LaunchReport::Out);
      case LaunchReport::Error:
      case LaunchReport::ErrorPart:
        return print(r, 1, stderr, r.kind == LaunchReport::Error);
    }
    TOROID_CHECK(false, "a report of the kind '{}'", static_cast<char>(r.kind));
  }

  void take_end(int rank, const std::string& how, int code) {
    ranks_[static_cast<size_t>(rank)].pid = 0;
    ranks_[static_cast<size_t>(rank)].has_ended = true;
    ++ended_;
    if (code == 0 || first_failure_) return;
    first_failure_ = End{rank, how, code};
    if (!limit_) limit_ = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(args_.grace_seconds * 1000));
  }

  // Long lines come in parts. What another rank says between two parts ends the line: each line has its rank before it.
  void print(const LaunchReport& r, size_t stream, std::FILE* file, bool is_end) {
    for (size_t other = 0; other < ranks_.size(); ++other)
      if (other != static_cast<size_t>(r.rank) && std::exchange(ranks_[other].is_within_line[stream], false)) std::fputc('\n', file);
    bool& is_within_line = ranks_[static_cast<size_t>(r.rank)].is_within_line[stream];
    if (!is_within_line) fmt::print(file, "[{}] ", r.rank);
    std::fwrite(r.text.data(), 1, r.text.size(), file);
    if (is_end) std::fputc('\n', file);
    is_within_line = !is_end;
  }

  bool has_starter_ended() {
    if (!has_starter_ended_) has_starter_ended_ = ::waitpid(starter_, nullptr, WNOHANG) == starter_;
    return has_starter_ended_;
  }

  void end_starter() {
    for (const auto begin = Clock::now(); !has_starter_ended(); ::usleep(2000)) {
      if (Clock::now() - begin > kLong) ::kill(starter_, SIGKILL);
    }
  }

  int without_starter() {
    for (auto& r : ranks_)
      if (r.pid) ::kill(r.pid, SIGKILL);
    if (first_failure_ || told_to_end_) return outcome();
    fail<EnvironmentError>("launch: mpirun ended before the ranks did{}{}", starter_said_.empty() ? "" : "; it says:\n", starter_said_);
  }

  int outcome() const {
    if (told_to_end_) return 128 + told_to_end_;
    if (!first_failure_) return kOk;
    std::fflush(stdout);
    fmt::print(stderr, "toroid: rank {} {}; it was the first that failed\n", first_failure_->rank, first_failure_->how);
    return first_failure_->code;
  }

  static constexpr auto kLong = std::chrono::seconds(5);

  const LaunchArgs& args_;
  const LaunchFolder folder_;
  std::vector<Rank> ranks_;
  size_t started_ = 0, ended_ = 0;
  pid_t starter_ = -1;  // mpirun
  bool has_starter_ended_ = false;
  int starter_output_ = -1;
  std::string starter_said_, pending_;
  std::optional<End> first_failure_;
  std::optional<Clock::time_point> limit_;  // when what remains is ended
  bool has_asked_ = false;                  // what remains, to end
  int told_to_end_ = 0;                     // by this signal
};

}  // namespace

int launch(const LaunchArgs& args) {
  if (!args.rank_of.empty()) return run_rank(args.rank_of, args.program);
  TOROID_USER_CHECK(args.ranks >= 1, "launch: how many ranks? `toroid launch -n 4 PROGRAM ARGUMENTS`");
  TOROID_USER_CHECK(!args.program.empty(), "launch: which program? `toroid launch -n {} PROGRAM ARGUMENTS`", args.ranks);
  return Launch(args).run();
}

}  // namespace toroid::cli
