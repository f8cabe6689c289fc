// One run on its way through the steps of a plan.
#pragma once

#include "device/runtime.h"
#include "exec/run/late_sizes.h"

namespace toroid::exec {

struct Run {
  const Bound& bound;  // where sizes are late: as far as they are known
  Lane& lane;
  Workspace& memory;
  device::Capture* capture;  // by hand, that the run is part of; null: none
  LateSizes* late;           // null: all sizes were known beforehand
  struct Begun {
    size_t end;  // the step before which it must have ended
    uint64_t number;
  };
  std::vector<Begun> begun = {};  // collectives that run beside the steps
};

// A row-major tensor of its own with the same elements.
Tensor copy_of(const Tensor& t);

}  // namespace toroid::exec
