// Constants of a program that templates lay out anew when it is compiled.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "codegen/packing.h"
#include "program/program.h"

namespace toroid::codegen {

struct ConstantMemory {
  std::map<int, Tensor> tensors;             // by buffer
  std::map<int, std::vector<Tensor>> parts;  // the same, of which each tensor is stacked along dimension 0; perhaps one
  std::map<int, Tensor> packed;              // buffers that generators added: packed weights, in the CPU's memory
  std::vector<std::function<void()>> jobs;   // fill them; independent of each other
  struct Origin {
    Packing how;
    std::vector<Tensor> from;
  };
  std::map<int, Origin> origins;  // of those in `packed` that pack() makes

  // Adds the constant that pack() makes of these, and gives its buffer. of: the buffer of the constant that they are.
  int add(program::Program& program, int of, Packing how, std::vector<Tensor> from);
};

}  // namespace toroid::codegen
