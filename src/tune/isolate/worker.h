// Runs kernels in a process of their own, so that one that crashes, hangs, leaks or writes where it must not costs no more than a reason.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/kernel_text.h"
#include "exec/plan.h"
#include "tune/check/inputs.h"
#include "tune/memory/database.h"

namespace toroid::tune {

// Memory that kernels are given. What begins with generated contents (see tune/check/inputs.h; beyond the first 2^20 elements they are
// repeated) is what the first kernel that uses it reads. Write and Temporary begin as bytes of ones: NaN in floats, so that elements that
// nobody writes show; what becomes of a Temporary is not looked at.
struct WorkerBuffer {
  enum class Use : uint8_t { Read, Write, Both, Temporary };
  DType dtype = DType::F32;
  int64_t numel = 0;
  Use use = Use::Read;
  uint64_t seed = 0;
  Integers integers{};     // what integers are drawn from
  std::string contents{};  // not empty: what Read and Both begin with
};

// A launch whose sizes are known, and the text that the worker compiles.
struct WorkerKernel {
  std::string source;
  exec::Launch launch;  // its buffers are positions in the job's
};
// The sizes that `value` gives are put in.
WorkerKernel kernel_of(const codegen::KernelText& kernel, exec::Launch launch, const std::function<int64_t(const Expr&)>& value);

// Kernels that run one after the other on the same memory.
struct WorkerJob {
  std::string isa = "native";  // as in jit::CompileRequest: "sm_90a" is a GPU's
  int gpu = 0;                 // its number
  std::vector<WorkerBuffer> buffers;
  std::vector<WorkerKernel> kernels;
  int runs = 10;             // that are timed, after one that gives the results
  bool nan_is_wrong = true;  // results that hold NaN are a failure
  bool contents = false;     // the results' bytes are wanted, not only their hashes
};

struct WorkerResult {
  Outcome outcome = Outcome::Failed;
  std::string reason;                 // unless timed
  std::string nan;                    // where the first NaN of the results is, for people; empty where there is none
  std::vector<double> ns;             // of all kernels
  std::vector<std::string> hashes;    // of the buffers that are Write or Both, in their order
  std::vector<std::string> contents;  // the same, where asked for
  double compile_ms = 0;
};

struct WorkerOptions {
  std::string program;        // empty: option tune_worker, else toroid-tune-worker beside this program
  int timeout_ms = 60'000;    // of a job, compiling it included
  int64_t memory_mb = 16384;  // CPU: what a job may have, its buffers included (setrlimit)
  int64_t leak_mb = 16;       // CPU: what may be left of it when it has run
};

// One process, started at the first job, again after each job that it did not survive, and ended with this object. Safe for many threads:
// jobs take turns.
class Worker {
 public:
  explicit Worker(WorkerOptions options = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Whatever the kernels do is in the result: a crash with its signal, an access outside of a buffer with the buffer and the distance (on
  // the CPU: pages around each buffer are guarded, inputs cannot be written), a timeout after which the process was killed, memory that is
  // left behind, NaN. timeout_ms: in place of the option's; 0: that. EnvironmentError where the worker cannot be started.
  WorkerResult run(const WorkerJob& job, int timeout_ms = 0);
  // Processes that were started so far.
  int starts() const { return starts_; }

 private:
  void start();
  void await_end() const;
  // How it ended, for people.
  std::string stop();

  const WorkerOptions options_;
  std::mutex mutex_;
  int process_ = -1, socket_ = -1, starts_ = 0;
};

// What a worker says when it begins; another revision of this project may say something else.
inline constexpr std::string_view kWorkerHello = "toroid-tune-worker 4";

// What goes through the socket between both: a job with the options that it needs, and what came of it. parse_...: InternalError for
// what is no such text.
struct WorkerRequest {
  WorkerJob job;
  int64_t memory_mb = 0, leak_mb = 0;
  std::vector<std::pair<std::string, std::string>> options;  // of the process, where they are not the default
};
std::string serialize(const WorkerRequest& r);
WorkerRequest parse_request(std::string_view bytes);
std::string serialize(const WorkerResult& r);
WorkerResult parse_result(std::string_view bytes);

// One message, its length before it. False where the other side has gone or `timeout_ms` (< 0: none) is over; `late`, if given, says which.
bool send_message(int socket, std::string_view bytes);
bool receive_message(int socket, std::string& bytes, int timeout_ms = -1, bool* late = nullptr);

}  // namespace toroid::tune
