// The wrapper of a rank of `toroid launch`: mpirun starts it, it starts the program.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>

#include "base/check.h"
#include "cli/launch_report.h"

namespace toroid::cli {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
std::atomic<pid_t> program_of_rank{0};

void pass_on(int signal) {
  if (const pid_t pid = program_of_rank.load()) ::kill(pid, signal);
}

class Reporter {
 public:
  Reporter(const std::filesystem::path& pipe, int rank) : rank_(rank), pipe_(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC)) {
    if (pipe_ < 0) fail<EnvironmentError>("launch: {}: cannot be opened; these are the ranks that `toroid launch` starts", pipe.string());
  }
  ~Reporter() { ::close(pipe_); }
  Reporter(const Reporter&) = delete;

  void tell(LaunchReport::Kind kind, int number, std::string text = {}) const {
    const std::string line = to_line({kind, rank_, number, std::move(text)});
    while (::write(pipe_, line.data(), line.size()) < 0 && errno == EINTR) {
    }
  }

 private:
  const int rank_, pipe_;
};

// One of the two streams of the program.
struct Stream {
  int file;
  LaunchReport::Kind whole, part;
  std::string pending = {};

  void take(std::string_view text, const Reporter& reporter) {
    pending += text;
    size_t begin = 0;
    for (size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) say(begin, end, reporter, whole);
    pending.erase(0, begin);
    if (pending.size() < kMostReportText) return;
    say(0, pending.size(), reporter, part);
    pending.clear();
  }
  void close(const Reporter& reporter) {
    if (!pending.empty()) say(0, pending.size(), reporter, whole);
    pending.clear();
    if (file >= 0) ::close(file);
    file = -1;
  }

 private:
  void say(size_t begin, size_t end, const Reporter& reporter, LaunchReport::Kind last) const {
    for (; end - begin > kMostReportText; begin += kMostReportText) reporter.tell(part, 0, pending.substr(begin, kMostReportText));
    reporter.tell(last, 0, pending.substr(begin, end - begin));
  }
};

struct Child {
  pid_t pid;
  int out, error, failure;  // what to read; failure: errno of an exec that failed, else nothing
};

Child start_child(const std::vector<std::string>& argv) {
  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& p : pipes)
    if (::pipe2(p.data(), O_CLOEXEC) != 0) fail<EnvironmentError>("launch: no pipe can be made (errno {})", errno);
  std::vector<char*> words;
  for (auto& a : argv) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) fail<EnvironmentError>("launch: no process can be started (errno {})", errno);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no orphans
    if (::getppid() != parent) ::_exit(1);
    ::dup2(pipes[0][1], 1);
    ::dup2(pipes[1][1], 2);
    ::execvp(words[0], words.data());
    const int why = errno;
    static_cast<void>(::write(pipes[2][1], &why, sizeof why) > 0);
    ::_exit(127);
  }
  for (auto& p : pipes) ::close(p[1]);
  return {pid, pipes[0][0], pipes[1][0], pipes[2][0]};
}

// Whether more may come.
bool read_some(Stream& s, const Reporter& reporter) {
  std::array<char, 65536> buffer{};
  const ssize_t n = ::read(s.file, buffer.data(), buffer.size());
  if (n > 0) s.take({buffer.data(), static_cast<size_t>(n)}, reporter);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) s.close(reporter);
  return n > 0;
}

// Reads both streams until the program has ended; what its own children write later is nobody's.
int wait_and_read(const Child& child, std::array<Stream, 2>& streams, const Reporter& reporter) {
  for (auto& s : streams) ::fcntl(s.file, F_SETFL, O_NONBLOCK);
  int status = 0;
  for (bool has_ended = false; !has_ended;) {
    has_ended = ::waitpid(child.pid, &status, WNOHANG) == child.pid;
    std::array<pollfd, 2> files{};
    for (size_t i = 0; i < 2; ++i) files[i] = {streams[i].file, POLLIN, 0};
    constexpr int kLookMs = 20;
    if (!has_ended) ::poll(files.data(), files.size(), kLookMs);
    for (auto& s : streams)
      while (s.file >= 0 && read_some(s, reporter)) {
      }
  }
  program_of_rank = 0;
  for (auto& s : streams) s.close(reporter);
  return status;
}

void set_variable(const char* name, const char* from) {
  if (const char* value = std::getenv(from)) ::setenv(name, value, 1);
}

}  // namespace

std::string to_line(const LaunchReport& r) { return fmt::format("{}{} {} {}\n", static_cast<char>(r.kind), r.rank, r.number, r.text); }

LaunchReport report_from(std::string_view line) {
  LaunchReport r{static_cast<LaunchReport::Kind>(line.empty() ? 0 : line[0]), 0};
  const char* const end = line.data() + line.size();
  const auto rank = std::from_chars(line.data() + 1, end, r.rank);
  const auto number = std::from_chars(rank.ptr + 1, end, r.number);
  TOROID_CHECK(!line.empty() && rank.ec == std::errc() && number.ec == std::errc() && number.ptr < end, "report \"{}\"", line);
  r.text.assign(number.ptr + 1, end);
  return r;
}

int run_rank(const std::filesystem::path& folder, const std::vector<std::string>& argv) {
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  TOROID_USER_CHECK(rank && !argv.empty(), "launch: --rank-of is for the ranks that `toroid launch` starts");
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // where mpirun is killed
  set_variable("RANK", "OMPI_COMM_WORLD_RANK");
  set_variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE");
  set_variable("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK");
  const Reporter reporter(report_pipe(folder), std::atoi(rank));
  const Child child = start_child(argv);
  program_of_rank = child.pid;
  ::signal(SIGPIPE, SIG_IGN);  // not the program's
  for (int s : kPassedOn) ::signal(s, pass_on);
  reporter.tell(LaunchReport::Started, child.pid);
  std::array<Stream, 2> streams = {Stream{child.out, LaunchReport::Out, LaunchReport::OutPart},
                                   Stream{child.error, LaunchReport::Error, LaunchReport::ErrorPart}};
  const int status = wait_and_read(child, streams, reporter);
  int why = 0;
  if (::read(child.failure, &why, sizeof why) == sizeof why)
    reporter.tell(LaunchReport::NoProgram, why);
  else if (WIFSIGNALED(status))
    reporter.tell(LaunchReport::Killed, WTERMSIG(status));
  else
    reporter.tell(LaunchReport::Exited, WEXITSTATUS(status));
  return 0;  // the launcher knows
}

}  // namespace toroid::cli
