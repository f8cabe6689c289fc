#include "tune/isolate/worker/run_job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>

#include "base/check.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/scalar.h"
#include "base/thread_pool.h"
#include "device/cpu/launch.h"
#include "exec/load.h"
#include "exec/run/gpu_launch.h"
#include "jit/jit.h"
#include "tune/check/inputs.h"
#include "tune/isolate/worker/guarded.h"

namespace toroid::tune {
namespace {

using Use = WorkerBuffer::Use;

size_t bytes_of(const WorkerBuffer& b) { return static_cast<size_t>(b.numel) * size_of(b.dtype); }

// Generated contents repeat themselves after so many elements: a layer's weights are as good as random sooner than they are made.
constexpr int64_t kGenerated = int64_t{1} << 20;

// What a buffer holds before the kernels run.
void fill(std::byte* to, const WorkerBuffer& b) {
  const size_t bytes = bytes_of(b);
  if (bytes == 0) return;
  if (b.use == Use::Write || b.use == Use::Temporary) {
    std::memset(to, 0xff, bytes);
    return;
  }
  Tensor made;
  if (b.contents.empty()) made = generate_input({b.dtype, {std::min(b.numel, kGenerated)}, {}}, b.seed, {}, Device::cpu(), b.integers);
  const void* from = made.defined() ? made.raw_data() : reinterpret_cast<const std::byte*>(b.contents.data());
  const size_t size = made.defined() ? static_cast<size_t>(made.numel()) * size_of(b.dtype) : b.contents.size();
  for (size_t at = 0; at < bytes; at += size) std::memcpy(to + at, from, std::min(size, bytes - at));
}

// The guarded memory of the job that runs, its buffers first, and the kernel that runs; for the signal's handler.
struct Watched {
  const std::vector<Guarded>* memory = nullptr;
  size_t buffers = 0;
  const std::string* kernel = nullptr;
};
Watched watched;
std::atomic_flag faulted = ATOMIC_FLAG_INIT;

std::string name_of_memory(size_t i) { return i < watched.buffers ? fmt::format("buffer {}", i) : "its scratch memory"; }

// Not all of what this calls is safe in a handler, but the process ends here either way.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (faulted.test_and_set())  // another thread reports already
    for (;;) ::pause();
  for (size_t i = 0; watched.memory && i < watched.memory->size(); ++i) {
    int64_t distance = 0;
    if (!(*watched.memory)[i].locate(info->si_addr, distance)) continue;
    const bool writes = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
    WorkerResult r;
    r.outcome = Outcome::Crashed;
    const std::string what = name_of_memory(i);
    r.reason = distance == 0 ? fmt::format("{} writes to {}, which it may only read", *watched.kernel, what)
                             : fmt::format("{} {} {} bytes {} {}", *watched.kernel, writes ? "writes" : "reads", std::abs(distance),
                                           distance < 0 ? "before" : "behind", what);
    send_message(0, serialize(r));
    ::_exit(3);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void watch(const std::vector<Guarded>& memory, size_t buffers) {
  watched = {&memory, buffers, nullptr};
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

// Position of the first element whose bits but for the sign are above those of infinity.
template <class Bits>
int64_t first_above(const std::byte* data, int64_t count, Bits infinity) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  for (int64_t e = 0; e < count; ++e) {
    Bits b;
    std::memcpy(&b, data + static_cast<size_t>(e) * sizeof b, sizeof b);
    if ((b & static_cast<Bits>(~kSign)) > infinity) return e;
  }
  return -1;
}

// -1: there is none. Results have many elements.
int64_t first_nan(const std::byte* data, int64_t count, DType t) {
  if (t == DType::F32) return first_above<uint32_t>(data, count, 0x7f800000u);
  if (t == DType::BF16) return first_above<uint16_t>(data, count, 0x7f80u);
  if (t == DType::F16) return first_above<uint16_t>(data, count, 0x7c00u);
  for (int64_t e = 0; is_float(t) && e < count; ++e)
    if (std::isnan(load_number(data + static_cast<size_t>(e) * size_of(t), t).as_double())) return e;
  return -1;
}

// Hashes, and where the results of the first run are no numbers.
void look_at_result(const WorkerJob& job, size_t i, const std::byte* data, WorkerResult& r) {
  const WorkerBuffer& b = job.buffers[i];
  const size_t bytes = bytes_of(b);
  r.hashes.push_back(hash_bytes(data, bytes).hex());
  r.contents.emplace_back(job.contents ? std::string(reinterpret_cast<const char*>(data), bytes) : std::string());
  if (r.nan.empty())
    if (const int64_t at = first_nan(data, b.numel, b.dtype); at >= 0)
      r.nan = fmt::format("{} leaves NaN in buffer {} at {}, or nothing at all", job.kernels.back().launch.name, i, at);
  if (job.nan_is_wrong && r.reason.empty()) r.reason = r.nan;
}

bool is_result(const WorkerBuffer& b) { return b.use == Use::Write || b.use == Use::Both; }

// A kernel on its memory.
struct CpuLaunch {
  std::vector<void*> addresses;
  std::vector<int64_t> params;
  device::cpu::Launch launch;
};

void run_on_cpu(const WorkerJob& job, const WorkerRequest& request, const exec::Loaded& code, WorkerResult& r) {
  const int threads = ThreadPool::global().size();
  ThreadPool::global().parallel_for(threads, [](int64_t, int64_t, int) {});
  std::vector<CpuLaunch> launches(job.kernels.size());
  const int64_t before = data_bytes();
  const MemoryLimit limit(request.memory_mb << 20);
  std::vector<Guarded> memory;
  for (const WorkerBuffer& b : job.buffers) {
    memory.emplace_back(bytes_of(b));
    fill(memory.back().data(), b);
    if (b.use == Use::Read) memory.back().protect();
  }
  for (size_t k = 0; k < launches.size(); ++k) {
    const exec::Launch& kernel = job.kernels[k].launch;
    const int64_t scratch = kernel.scratch_bytes_per_thread.constant();
    CpuLaunch& l = launches[k];
    for (int b : kernel.buffers) l.addresses.push_back(memory[static_cast<size_t>(b)].data());
    if (scratch > 0) memory.emplace_back(static_cast<size_t>(scratch) * static_cast<size_t>(threads));
    l.addresses.push_back(scratch > 0 ? memory.back().data() : nullptr);
    l.params = exec::evaluate(kernel.params, {});
    l.launch = {code.steps[k].kernel.function,
                l.addresses.data(),
                l.params.data(),
                kernel.tasks.constant(),
                kernel.serial,
                l.addresses.back(),
                scratch,
                threads};
  }
  watch(memory, job.buffers.size());
  const int64_t empty = data_bytes();
  for (int i = 0; i <= job.runs && r.reason.empty(); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    for (size_t k = 0; k < launches.size() && r.reason.empty(); ++k) {
      watched.kernel = &job.kernels[k].launch.name;
      device::cpu::run(launches[k].launch);
      for (size_t m = 0; i == 0 && m < memory.size() && r.reason.empty(); ++m)
        if (!memory[m].intact())
          r.reason = fmt::format("{} writes less than 64 bytes out of {}", job.kernels[k].launch.name, name_of_memory(m));
    }
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) r.ns.push_back(ns);
    for (size_t b = 0; i == 0 && b < job.buffers.size(); ++b)
      if (is_result(job.buffers[b])) look_at_result(job, b, memory[b].data(), r);
  }
  watched = {};
  const int64_t left = data_bytes() - std::max(empty, before);
  if (r.reason.empty() && left > request.leak_mb << 20)
    r.reason = fmt::format("{} leaves {} MiB of memory behind after {} runs", job.kernels.back().launch.name, left >> 20, job.runs + 1);
}

// Memory of a GPU between bytes that nobody may write.
class Padded {
 public:
  Padded(device::cuda::Gpu& gpu, const WorkerBuffer& b) : gpu_(gpu), bytes_(bytes_of(b)), memory_(gpu.allocate(bytes_ + 2 * kPad)) {
    std::string host(bytes_ + 2 * kPad, kFill);
    fill(reinterpret_cast<std::byte*>(host.data()) + kPad, b);
    gpu_.copy_in(memory_.get(), host.data(), host.size());
  }
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()) + kPad; }
  std::string contents() const { return read(data(), bytes_); }
  bool intact() const {
    const std::string pad(kPad, kFill);
    return read(data() - kPad, kPad) == pad && read(data() + bytes_, kPad) == pad;
  }

 private:
  static constexpr size_t kPad = 4096;
  static constexpr char kFill = '\x4d';
  std::string read(const std::byte* from, size_t bytes) const {
    std::string host(bytes, '\0');
    gpu_.copy_out(host.data(), from, bytes);
    return host;
  }

  device::cuda::Gpu& gpu_;
  size_t bytes_;
  std::shared_ptr<void> memory_;
};

void run_on_gpu(const WorkerJob& job, const exec::Loaded& code, WorkerResult& r) {
  device::cuda::Gpu& gpu = device::cuda::gpu(job.gpu);
  std::vector<Padded> buffers;
  for (const WorkerBuffer& b : job.buffers) buffers.emplace_back(gpu, b);
  std::vector<std::shared_ptr<void>> zeros;  // scratch memory and counters
  std::deque<exec::GpuLaunch> launches;
  std::vector<std::vector<void*>> pointers;
  for (size_t k = 0; k < job.kernels.size(); ++k) {
    const exec::Launch& kernel = job.kernels[k].launch;
    std::vector<void*>& addresses = pointers.emplace_back();
    for (int b : kernel.buffers) addresses.push_back(buffers[static_cast<size_t>(b)].data());
    for (const int64_t bytes : {kernel.gpu.scratch_bytes.constant(), kernel.gpu.counters.constant() * 4}) {
      if (bytes == 0) continue;
      zeros.push_back(gpu.allocate(static_cast<size_t>(bytes)));
      addresses.push_back(zeros.back().get());
      gpu.fill_zero(addresses.back(), static_cast<size_t>(bytes));
    }
    launches.emplace_back(kernel, code.steps[k].kernel, exec::Symbols());
  }
  const auto run_all = [&] {
    for (size_t k = 0; k < launches.size(); ++k) launches[k].run(gpu, pointers[k]);
  };
  for (int i = 0; i <= job.runs && r.reason.empty(); ++i) {
    const double ms = gpu.time_ms(run_all);
    gpu.synchronize();
    if (i > 0) {
      r.ns.push_back(ms * 1e6);
      continue;
    }
    for (size_t b = 0; b < job.buffers.size(); ++b) {
      if (!buffers[b].intact() && r.reason.empty())
        r.reason = fmt::format("{} writes out of buffer {}, next to it", job.kernels.back().launch.name, b);
      if (!is_result(job.buffers[b])) continue;
      const std::string contents = buffers[b].contents();
      look_at_result(job, b, reinterpret_cast<const std::byte*>(contents.data()), r);
    }
  }
}

// The options of the process that asks, and of no job before.
void take_options(const WorkerRequest& request) {
  static std::vector<std::pair<std::string, std::string>> now;
  static bool any = false;
  if (any && now == request.options) return;
  for (const OptionInfo& o : list_options()) {
    if (o.scope != "process") continue;  // the job says what it is compiled for
    const auto given = std::find_if(request.options.begin(), request.options.end(), [&](auto& g) { return g.first == o.name; });
    const std::string& wanted = given == request.options.end() ? o.default_value : given->second;
    if (wanted != o.value) set_option(o.name, wanted);
  }
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
    TOROID_CHECK(!job.kernels.empty(), "a job of a tuning worker has no kernels");
    const bool on_gpu = job.kernels.front().launch.gpu.threads > 0;
    exec::Loadable made;
    made.plan.device = on_gpu ? Device::cuda(job.gpu) : Device::cpu();
    for (const WorkerKernel& k : job.kernels) {
      jit::Artefact a = jit::compile_c({.source = k.source, .isa = job.isa});
      r.compile_ms += a.compile_ms;
      exec::Launch launch = k.launch;
      launch.kernel = made.store.kernels.add(std::move(a.object));
      made.plan.steps.push_back(std::move(launch));
    }
    r.outcome = Outcome::Failed;
    const exec::Loaded code = exec::load_parts(made.plan, made.store);
    if (on_gpu)
      run_on_gpu(job, code, r);
    else
      run_on_cpu(job, request, code, r);
    if (r.reason.empty()) r.outcome = Outcome::Timed;
  } catch (const std::exception& e) {
    r.reason = e.what();
  }
  return r;
}

}  // namespace toroid::tune
