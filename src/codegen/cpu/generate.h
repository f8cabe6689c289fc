// CPU kernels for the nodes of a lowered program: loops, and templates with the node's body as their epilogue.
#pragma once

#include <map>

#include "choice/program.h"
#include "codegen/cpu/kernel.h"

namespace toroid::codegen {

// Constants that templates may repack.
struct ConstantMemory {
  std::map<int, Tensor> tensors;             // by buffer
  std::map<int, std::vector<Tensor>> parts;  // the same, of which each tensor is stacked along dimension 0; perhaps one
  std::map<int, Tensor> packed;              // buffers that generate() added: packed weights
  std::vector<std::function<void()>> jobs;   // fill them; independent of each other
};

// Whether a template takes this problem; where none does, the node is to be lowered to a loop.
bool supports(const choice::Convolution& c, bool constant_weight, device::Isa isa);
bool supports(const choice::Attention& a, device::Isa isa);
bool supports(const choice::Sort& s);

// The kernel of a node that is not an extern call. May add buffers (packed weights) to the program's.
KernelText generate(const choice::Node& node, choice::Program& program, device::Isa isa, ConstantMemory& constants);

}  // namespace toroid::codegen
