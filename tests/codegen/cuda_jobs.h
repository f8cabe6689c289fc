// Kernels for GPUs that a test compiles all at once, as NVRTC takes most of its time.
#pragma once

#include <atomic>
#include <thread>

#include "kernel_runner.h"

namespace toroid::codegen {

struct CudaJob {
  KernelText kernel;
  std::string architecture;  // that the text is for
  std::string cubin = {}, error = {};

  // Whether there is a GPU that can run it.
  bool runs() const { return KernelRunner::has_gpu() && (architecture == "sm_80" || KernelRunner::gpu_architecture() == architecture); }
  // That GPU's architecture, if there is one.
  std::string runs_as() const { return runs() ? KernelRunner::gpu_architecture() : architecture; }
};

// Fills in each job's cubin or error. Jobs are CudaJobs; architecture(job): to compile it for. looks_at_code: whether the test does, also
// where no GPU runs it.
template <class Job, class Architecture>
void compile_side_by_side(std::vector<Job>& jobs, const Architecture& architecture, bool looks_at_code) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  auto compile = [&](Job& job) {
    const std::string isa = architecture(job);
    if (looks_at_code || KernelRunner::has_gpu())
      job.cubin = jit::nvrtc_compile(job.kernel.source, isa, job.kernel.name);
    else
      jit::nvrtc_check(job.kernel.source, isa, job.kernel.name);
  };
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (size_t i = next++; i < jobs.size(); i = next++) try {
          compile(jobs[i]);
        } catch (const Error& e) {
          jobs[i].error = e.what();
        }
    });
  for (auto& t : threads) t.join();
}

}  // namespace toroid::codegen
