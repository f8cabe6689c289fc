// What a program and its steps are called on the timelines of NVIDIA's tools.
#pragma once

#include "device/cuda/nvtx.h"
#include "exec/steps.h"

namespace toroid::exec {

struct Names {
  explicit Names(const Plan& plan) : call(plan.name), replay(plan.name + ": replay") {
    for (auto& s : plan.steps) steps.emplace_back(name_of(s));
  }
  device::cuda::NvtxName call, replay;
  std::vector<device::cuda::NvtxName> steps;
};

}  // namespace toroid::exec
