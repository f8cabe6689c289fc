#include "tune/isolate/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/options.h"
#include "jit/compiler_library.h"

extern char** environ;

namespace toroid::tune {
namespace fs = std::filesystem;
namespace {

constexpr int kStartMs = 60'000;  // that a worker may take to begin
constexpr const char* kRemedy = "Name another program in the option tune_worker, or set tune_isolated to 0.";

std::string program_of(const WorkerOptions& options) {
  if (!options.program.empty()) return options.program;
  if (const std::string named = get_option(options::kTuneWorker); !named.empty()) return named;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::string looked;
  std::vector<fs::path> folders = {self.parent_path(), self.parent_path() / "../lib/toroid"};
  if (const std::string installed = jit::compiler_folder(); !installed.empty()) folders.emplace_back(installed);
  for (const fs::path& folder : folders) {
    const fs::path p = (folder / "toroid-tune-worker").lexically_normal();
    if (fs::exists(p, error)) return p.string();
    looked += "\n  " + p.string();
  }
  fail<EnvironmentError>(
      "candidates are to run in a process of their own, but there is no toroid-tune-worker; looked for:{}\nName it in the option "
      "tune_worker, or set tune_isolated to 0.",
      looked);
}

std::vector<std::pair<std::string, std::string>> changed_options() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionInfo& o : list_options())
    if (o.scope == "process" && o.value != o.default_value) out.emplace_back(o.name, o.value);
  return out;
}

}  // namespace

WorkerKernel kernel_of(const codegen::KernelText& k, exec::Launch l, const std::function<int64_t(const Expr&)>& value) {
  TOROID_CHECK(l.name == k.name && l.buffers.size() == k.buffers.size());
  const auto all = [&](std::vector<Expr>& list) {
    for (Expr& e : list) e = value(e);
  };
  all(l.params);
  for (Expr* e : {&l.tasks, &l.scratch_bytes_per_thread, &l.gpu.scratch_bytes, &l.gpu.counters}) *e = value(*e);
  for (device::cuda::TensorMap& m : l.gpu.tensor_maps) m.offset = value(m.offset), all(m.sizes), all(m.strides);
  l.bytes = l.flops = 0;  // for reports
  l.where.clear();
  return {k.source, std::move(l)};
}

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {}

Worker::~Worker() { stop(); }

void Worker::start() {
  const std::string program = program_of(options_);
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    fail<EnvironmentError>("a tuning worker cannot be connected: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  for (int fd : {1, 2}) ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  const char* const arguments[] = {program.c_str(), nullptr};
  pid_t child = -1;
  const int error = ::posix_spawn(&child, program.c_str(), &actions, nullptr, const_cast<char**>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pair[1]);
  if (error != 0) {
    ::close(pair[0]);
    fail<EnvironmentError>("the tuning worker {} cannot be started: {}\n{}", program, std::strerror(error), kRemedy);
  }
  process_ = child, socket_ = pair[0];
  ++starts_;
  std::string hello;
  bool late = false;
  const bool answered = receive_message(socket_, hello, kStartMs, &late);
  if (answered && hello == kWorkerHello) return;
  std::string why = answered ? "it is of another revision of Toroid" : late ? fmt::format("it had not begun after {} ms", kStartMs) : "";
  if (why.empty()) await_end();
  const std::string end = stop();
  fail<EnvironmentError>("the tuning worker {} does not work: {}\n{}", program, why.empty() ? "it ended with " + end : why, kRemedy);
}

void Worker::await_end() const {
  // Its socket closes a moment before it can be waited for; then it has a status of its own.
  for (int i = 0; i < 1000; ++i) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOWAIT | WNOHANG) != 0 || ended.si_pid != 0) break;
    ::usleep(1000);
  }
}

std::string Worker::stop() {
  if (process_ < 0) return {};
  ::close(socket_);
  ::kill(process_, SIGKILL);  // one that has ended keeps its own status
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = socket_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

WorkerResult Worker::run(const WorkerJob& job, int timeout_ms) {
  if (timeout_ms <= 0) timeout_ms = options_.timeout_ms;
  std::lock_guard lock(mutex_);
  if (process_ < 0) start();
  WorkerResult r;
  std::string reply;
  bool late = false;
  const std::string request = serialize(WorkerRequest{job, options_.memory_mb, options_.leak_mb, changed_options()});
  if (send_message(socket_, request) && receive_message(socket_, reply, timeout_ms, &late)) {
    r = parse_result(reply);
    // A process whose kernel left its memory, or a GPU, in disorder is of no further use.
    if (r.outcome != Outcome::Timed && r.outcome != Outcome::FailedToCompile) stop();
    return r;
  }
  std::vector<std::string> names;
  for (auto& k : job.kernels) names.push_back(k.launch.name);
  if (late) {
    stop();
    r.outcome = Outcome::TimedOut;
    r.reason = fmt::format("{} had not ended after {} ms", fmt::join(names, ", "), timeout_ms);
  } else {
    await_end();
    r.outcome = Outcome::Crashed;
    r.reason = fmt::format("{} ended its process: {}", fmt::join(names, ", "), stop());
  }
  return r;
}

}  // namespace toroid::tune
