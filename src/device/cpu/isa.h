// The instruction set, caches and cores of the host's processor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace toroid::device {

// The instruction sets that kernels are written for. A higher one includes the lower ones.
enum class Isa { Scalar, Avx2, Avx512 };

// "scalar", "avx2", "avx512".
std::string_view name_of(Isa isa);
// Inverse of name_of; "auto", "native" and "" mean host().isa. Throws UserError for an unknown name. The host may lack the set:
// kernels can be compiled for another machine.
Isa isa_from_name(std::string_view name);

struct HostInfo {
  Isa isa = Isa::Scalar;     // the best set that processor and operating system support
  bool f16c = false;         // half <-> float conversions
  bool avx512_bf16 = false;  // dot products of bf16
  bool avx512_vnni = false;  // dot products of int8
  std::string model;         // the processor's name for people
  size_t l1d_bytes = 0;      // of one core; each size is a common default where the system does not tell
  size_t l2_bytes = 0;
  size_t l3_bytes = 0;
  size_t line_bytes = 64;
  int cores = 1;  // hardware threads that this process may run on
};

// Found once, on the first call; not changed by the `isa` option.
const HostInfo& host();

// The set that a value of the option `isa` asks for, host().isa where it is "auto". UserError for a set that this processor lacks.
Isa usable_isa(std::string_view name);

}  // namespace toroid::device
