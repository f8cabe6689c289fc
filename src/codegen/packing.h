// How templates lay constants out anew, as data: a program that is stored can do it again with other constants.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/program.h"

namespace toroid::codegen {

struct Packing {
  std::string name;  // "gemm", "gemm_int8", "conv", "conv_depthwise_int8", "conv_int8", "winograd", "rearranged"
  std::vector<int64_t> numbers = {};
};

// In the CPU's memory, filled by jobs that are independent of each other.
struct Packed {
  Tensor tensor;
  std::vector<std::function<void()>> jobs;
};

// from: what it is made of, in the CPU's memory; the jobs keep it. UserError for an unknown name, and for numbers that are not those of the
// packing or that reach outside of what it is made of.
Packed pack(const Packing& how, const std::vector<Tensor>& from);

}  // namespace toroid::codegen
