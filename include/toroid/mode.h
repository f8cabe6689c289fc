// How a program is compiled and run.
#pragma once

namespace toroid {

enum class Mode {
  Default,         // fused kernels, memory planned once a shape
  ReduceOverhead,  // and the launches of a call recorded and replayed
  MaxAutotune,     // and what computes each product, convolution and custom operation, and what is fused with it, timed when compiling
  MaxAutotuneNoCudagraphs,  // the same, not recorded
};

constexpr bool records_calls(Mode m) { return m == Mode::ReduceOverhead || m == Mode::MaxAutotune; }
constexpr bool tunes(Mode m) { return m == Mode::MaxAutotune || m == Mode::MaxAutotuneNoCudagraphs; }

}  // namespace toroid
