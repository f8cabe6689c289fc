// How fast this machine can copy memory and multiply: what measured kernels are held against.
#pragma once

namespace toroid::cli {

struct MachineLimits {
  int threads = 1;
  double copy_gb_per_s = 0;    // bytes read and written by a copy that no cache holds, on all threads
  double f32_gflop_per_s = 0;  // fused multiply-adds on registers, on all threads
};

// Takes about half a second.
MachineLimits measure_machine();

}  // namespace toroid::cli
