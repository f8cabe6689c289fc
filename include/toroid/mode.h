// How a compiled program runs.
#pragma once

namespace toroid {

enum class Mode {
  Default,         // fused kernels, memory planned once a shape
  ReduceOverhead,  // and the launches of a call recorded and replayed
};

}  // namespace toroid
