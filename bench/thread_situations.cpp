// How long a program of many small kernels takes in one situation: alone, beside busy processes, with several callers, on so many threads.
// Prints one line: runs a second of all callers together, and the median, 90th and 99th percentile of a call in milliseconds.
//   bench_thread_situations [mlp|FILE.pt2] [--seconds S] [--callers N] [--threads N] [--model-threads N] [--busy N] [--mode MODE]
// --threads: the option of the process; --model-threads: of the program; --busy: busy processes beside; bench/thread_situations.sh runs all
// situations, and also those that need a control group.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "toroid/compile.h"
#include "toroid/error.h"
#include "toroid/model.h"
#include "toroid/options.h"
#include "toroid/random.h"

namespace {

using namespace toroid;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string subject = "mlp", mode = "default";
  double seconds = 2;
  int callers = 1, threads = 0, model_threads = 0, busy = 0;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (name == "--seconds")
      a.seconds = std::atof(value());
    else if (name == "--callers")
      a.callers = std::atoi(value());
    else if (name == "--threads")
      a.threads = std::atoi(value());
    else if (name == "--model-threads")
      a.model_threads = std::atoi(value());
    else if (name == "--busy")
      a.busy = std::atoi(value());
    else if (name == "--mode")
      a.mode = value();
    else
      a.subject = name;
  }
  return a;
}

// Processes that do nothing but work, for the life of this object.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i)
      if (const pid_t pid = ::fork(); pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile unsigned x = 0;;) x = x + 1;
      } else {
        pids_.push_back(pid);
      }
  }
  ~BusyProcesses() {
    for (pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  BusyProcesses(const BusyProcesses&) = delete;

 private:
  std::vector<pid_t> pids_;
};

std::function<void()> make_mlp(const Arguments& a) {
  CompileConfig config{.mode = a.mode == "reduce-overhead" ? Mode::ReduceOverhead : Mode::Default};
  if (a.model_threads > 0) config.options["max_threads"] = std::to_string(a.model_threads);
  config.options["freezing"] = "1";
  auto w1 = randn({256, 1024}), w2 = randn({1024, 16});
  auto fn = compile([=](const Tensor& x) { return matmul(gelu(matmul(x, w1)), w2); }, config);
  return [fn, x = randn({8, 256})] { fn(x); };
}

std::function<void()> make_model(const Arguments& a) {
  ModelOptions options{.mode = a.mode == "reduce-overhead" ? Mode::ReduceOverhead : Mode::Default};
  options.threads = a.model_threads;
  return [model = std::make_shared<Model>(Model::load(a.subject, options)), x = randn({1, 3, 224, 224})] { model->run({x}); };
}

double at(const std::vector<double>& sorted, double q) { return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))]; }

int run(const Arguments& a) {
  const BusyProcesses busy(a.busy);  // forked before this process has threads
  if (a.threads > 0) set_option("threads", std::to_string(a.threads));
  const auto call = a.subject == "mlp" ? make_mlp(a) : make_model(a);
  for (int i = 0; i < 10; ++i) call();
  std::vector<std::vector<double>> times(static_cast<size_t>(a.callers));
  std::vector<std::thread> callers;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(a.seconds);
  for (auto& mine : times)
    callers.emplace_back([&] {
      for (auto t = Clock::now(); t < end;) {
        call();
        const auto now = Clock::now();
        mine.push_back(std::chrono::duration<double, std::milli>(now - t).count());
        t = now;
      }
    });
  for (auto& c : callers) c.join();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<double> all;
  for (auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  std::printf("runs/s %.1f  ms/run %.4f  median %.4f  p90 %.4f  p99 %.4f  runs %zu\n", static_cast<double>(all.size()) / seconds,
              1e3 * seconds / static_cast<double>(all.size()), at(all, 0.5), at(all, 0.9), at(all, 0.99), all.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = read_arguments(argc, argv);
  try {
    return run(a);
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
