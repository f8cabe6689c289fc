// How a program is compiled and run.
#pragma once

#include <cstddef>
#include <string_view>

namespace toroid {

enum class Mode {
  Default,         // fused kernels, memory planned once a shape
  ReduceOverhead,  // and the launches of a call recorded and replayed
  MaxAutotune,     // and what computes each product, convolution and custom operation, and what is fused with it, timed when compiling
  MaxAutotuneNoCudagraphs,  // the same, not recorded
};
inline constexpr std::string_view kModeNames[] = {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"};
constexpr std::string_view name_of(Mode m) { return kModeNames[static_cast<size_t>(m)]; }

constexpr bool records_calls(Mode m) { return m == Mode::ReduceOverhead || m == Mode::MaxAutotune; }
constexpr bool tunes(Mode m) { return m == Mode::MaxAutotune || m == Mode::MaxAutotuneNoCudagraphs; }

// Which operations become one kernel.
enum class Fusion {
  None,     // each operation has its own: what a program costs without a compiler
  PerNode,  // those that one value composes; kernels that share memory are not joined
  All,      // those too
};
inline constexpr std::string_view kFusionNames[] = {"none", "per-node", "all"};
constexpr std::string_view name_of(Fusion f) { return kFusionNames[static_cast<size_t>(f)]; }

}  // namespace toroid
