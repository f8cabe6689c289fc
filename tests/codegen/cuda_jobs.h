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

// Fills in each job's cubin or error. Jobs are CudaJobs; architecture(job): to compile it for.
template <class Job, class Architecture>
void compile_side_by_side(std::vector<Job>& jobs, const Architecture& architecture) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (size_t i = next++; i < jobs.size(); i = next++) try {
          jobs[i].cubin = jit::nvrtc_compile(jobs[i].kernel.source, architecture(jobs[i]), jobs[i].kernel.name);
        } catch (const Error& e) {
          jobs[i].error = e.what();
        }
    });
  for (auto& t : threads) t.join();
}

}  // namespace toroid::codegen
