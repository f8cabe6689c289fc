// Constants of a program that templates lay out anew when it is compiled.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "program/program.h"

namespace toroid::codegen {

struct ConstantMemory {
  std::map<int, Tensor> tensors;             // by buffer
  std::map<int, std::vector<Tensor>> parts;  // the same, of which each tensor is stacked along dimension 0; perhaps one
  std::map<int, Tensor> packed;              // buffers that generators added: packed weights, in the CPU's memory
  std::vector<std::function<void()>> jobs;   // fill them; independent of each other
};

}  // namespace toroid::codegen
