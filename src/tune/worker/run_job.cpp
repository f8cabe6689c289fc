#include "tune/worker/run_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/scalar.h"
#include "base/thread_pool.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/launch.h"
#include "device/cpu/runtime_symbols.h"
#include "device/cuda/arguments.h"
#include "jit/jit.h"
#include "tune/inputs.h"
#include "tune/worker/guarded.h"

namespace toroid::tune {
namespace {

using Use = WorkerBuffer::Use;

size_t bytes_of(const WorkerBuffer& b) { return static_cast<size_t>(b.numel) * size_of(b.dtype); }

// What a buffer holds before the kernel runs.
void fill(std::byte* to, const WorkerBuffer& b) {
  if (bytes_of(b) == 0) return;
  if (b.use == Use::Write) {
    std::memset(to, 0xff, bytes_of(b));
    return;
  }
  const Tensor t = generate_input({b.dtype, {b.numel}, {}}, b.seed, {}, Device::cpu(), b.integers);
  std::memcpy(to, t.raw_data(), bytes_of(b));
}

// The guarded buffers of the job that runs, for the signal's handler.
struct Watched {
  const std::vector<Guarded>* buffers = nullptr;
  const WorkerJob* job = nullptr;
};
Watched watched;
std::atomic_flag faulted = ATOMIC_FLAG_INIT;

// Not all of what this calls is safe in a handler, but the process ends here either way.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (faulted.test_and_set())  // another thread reports already
    for (;;) ::pause();
  for (size_t i = 0; watched.buffers && i < watched.buffers->size(); ++i) {
    int64_t distance = 0;
    if (!(*watched.buffers)[i].locate(info->si_addr, distance)) continue;
    const bool writes = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
    WorkerResult r;
    r.outcome = Outcome::Crashed;
    const std::string what = i < watched.job->buffers.size() ? fmt::format("buffer {}", i) : "its scratch memory";
    r.reason = distance == 0 ? fmt::format("{} writes to {}, which it may only read", watched.job->name, what)
                             : fmt::format("{} {} {} bytes {} {}", watched.job->name, writes ? "writes" : "reads", std::abs(distance),
                                           distance < 0 ? "before" : "behind", what);
    send_message(0, serialize(r));
    ::_exit(3);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void watch(const std::vector<Guarded>& buffers, const WorkerJob& job) {
  watched = {&buffers, &job};
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (int s : {SIGSEGV, SIGBUS}) ::sigaction(s, &action, nullptr);
}

// Memory that the process may write and that no other has: what RLIMIT_DATA is about.
int64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  return 0;
}

// While it lives the process may have so much more memory.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t bytes) {
    ::getrlimit(RLIMIT_DATA, &before_);
    rlimit now = before_;
    now.rlim_cur = std::min<rlim_t>(static_cast<rlim_t>(data_bytes() + bytes), before_.rlim_max);
    ::setrlimit(RLIMIT_DATA, &now);
  }
  ~MemoryLimit() { ::setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_{};
};

bool is_nan(const std::byte* p, DType t) { return is_float(t) && std::isnan(load_number(p, t).as_double()); }

// Hashes, and why the results of the first run are no good.
void look_at_result(const WorkerJob& job, size_t i, const std::byte* data, WorkerResult& r) {
  const WorkerBuffer& b = job.buffers[i];
  const size_t bytes = bytes_of(b);
  r.hashes.push_back(hash_bytes(data, bytes).hex());
  r.contents.emplace_back(job.contents ? std::string(reinterpret_cast<const char*>(data), bytes) : std::string());
  for (int64_t e = 0; job.nan_is_wrong && r.reason.empty() && e < b.numel; ++e)
    if (is_nan(data + static_cast<size_t>(e) * size_of(b.dtype), b.dtype))
      r.reason = fmt::format("{} leaves NaN in buffer {} at {}, or nothing at all", job.name, i, e);
}

void run_on_cpu(const WorkerJob& job, const WorkerRequest& request, const std::string& object, WorkerResult& r) {
  const auto code = device::LoadedCode::load(object, device::runtime_symbols(), job.name);
  const int threads = ThreadPool::global().size();
  ThreadPool::global().parallel_for(threads, [](int64_t, int64_t, int) {});
  const int64_t before = data_bytes();
  const MemoryLimit limit(request.memory_mb << 20);
  std::vector<Guarded> memory;
  for (const WorkerBuffer& b : job.buffers) memory.emplace_back(bytes_of(b));
  if (job.scratch_bytes > 0) memory.emplace_back(static_cast<size_t>(job.scratch_bytes) * static_cast<size_t>(threads));
  std::vector<void*> addresses;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (i < job.buffers.size()) {
      fill(memory[i].data(), job.buffers[i]);
      if (job.buffers[i].use == Use::Read) memory[i].protect();
    }
    addresses.push_back(memory[i].data());
  }
  if (job.scratch_bytes == 0) addresses.push_back(nullptr);
  watch(memory, job);
  device::cpu::Launch launch{code->function<std::remove_pointer_t<device::cpu::KernelFunction>>(job.name),
                             addresses.data(),
                             job.params.data(),
                             job.tasks,
                             job.serial,
                             job.scratch_bytes > 0 ? addresses.back() : nullptr,
                             job.scratch_bytes};
  const int64_t empty = data_bytes();
  for (int i = 0; i <= job.runs && r.reason.empty(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    device::cpu::run(launch);
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) {
      r.ns.push_back(ns);
      continue;
    }
    for (size_t b = 0; b < memory.size(); ++b) {
      if (!memory[b].intact() && r.reason.empty()) r.reason = fmt::format("{} writes less than 64 bytes out of buffer {}", job.name, b);
      if (b < job.buffers.size() && job.buffers[b].use != Use::Read) look_at_result(job, b, memory[b].data(), r);
    }
  }
  watched = {};
  const int64_t left = data_bytes() - std::max(empty, before);
  if (r.reason.empty() && left > request.leak_mb << 20)
    r.reason = fmt::format("{} leaves {} MiB of memory behind after {} runs", job.name, left >> 20, job.runs + 1);
}

void run_on_gpu(const WorkerJob& job, const std::string& cubin, WorkerResult& r) {
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> addresses;
  const auto allocate = [&](size_t bytes) {
    memory.push_back(gpu.allocate(std::max<size_t>(bytes, 16)));
    addresses.push_back(memory.back().get());
  };
  for (const WorkerBuffer& b : job.buffers) {
    allocate(bytes_of(b));
    std::string host(bytes_of(b), '\0');
    fill(reinterpret_cast<std::byte*>(host.data()), b);
    gpu.copy_in(addresses.back(), host.data(), host.size());
  }
  for (const int64_t bytes : {job.scratch_bytes, job.counters * 4}) {
    if (bytes == 0) continue;
    allocate(static_cast<size_t>(bytes));
    gpu.fill_zero(addresses.back(), static_cast<size_t>(bytes));
  }
  const auto value = [](const Expr& e) { return sym::evaluate(e, [](const sym::Node&) -> int64_t { return 0; }); };
  device::cuda::Arguments arguments(job.tensor_maps, job.params, addresses.size(), value);
  arguments.set_pointers(addresses);
  const auto kernel = gpu.load(cubin, job.name, job.shared_bytes, job.overlaps);
  for (int i = 0; i <= job.runs && r.reason.empty(); ++i) {
    const double ms = gpu.time_ms([&] { gpu.launch(kernel, {job.tasks, job.block, job.shared_bytes, job.overlaps}, arguments.list()); });
    gpu.synchronize();
    if (i > 0) {
      r.ns.push_back(ms * 1e6);
      continue;
    }
    for (size_t b = 0; b < job.buffers.size(); ++b) {
      if (job.buffers[b].use == Use::Read) continue;
      std::string host(bytes_of(job.buffers[b]), '\0');
      gpu.copy_out(host.data(), addresses[b], host.size());
      look_at_result(job, b, reinterpret_cast<const std::byte*>(host.data()), r);
    }
  }
}

// The options of the process that asks, and of no job before.
void take_options(const WorkerRequest& request) {
  static std::vector<std::pair<std::string, std::string>> now;
  static bool any = false;
  if (any && now == request.options) return;
  for (const OptionInfo& o : list_options()) set_option(o.name, o.default_value);
  for (auto& [name, value] : request.options) set_option(name, value);
  now = request.options;
  any = true;
}

}  // namespace

WorkerResult run_job(const WorkerRequest& request) {
  const WorkerJob& job = request.job;
  WorkerResult r;
  r.outcome = Outcome::FailedToCompile;
  try {
    take_options(request);
    jit::CompileRequest compile;
    compile.source = job.source;
    compile.isa = job.isa;
    const jit::Artefact a = jit::compile_c(compile);
    r.compile_ms = a.compile_ms;
    r.outcome = Outcome::Failed;
    if (job.block > 0)
      run_on_gpu(job, a.object, r);
    else
      run_on_cpu(job, request, a.object, r);
    if (r.reason.empty()) r.outcome = Outcome::Timed;
  } catch (const std::exception& e) {
    r.reason = e.what();
  }
  return r;
}

}  // namespace toroid::tune
