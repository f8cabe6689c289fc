// How fast this machine can copy memory and multiply: what measured kernels are held against.
#pragma once

#include <string>

namespace toroid::cli {

struct MachineLimits {
  std::string gpu;  // its name; empty: the figures are the host's
  int threads = 1;
  double copy_gb_per_s = 0;    // bytes read and written by a copy that no cache holds, on all threads
  double f32_gflop_per_s = 0;  // fused multiply-adds on registers, on all threads
};

// Takes about half a second.
MachineLimits measure_machine();
// Of a GPU: the bandwidth of a copy.
MachineLimits measure_gpu(int index);

}  // namespace toroid::cli
