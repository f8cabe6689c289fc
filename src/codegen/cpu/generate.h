// CPU kernels for the nodes of a lowered program: loops, and templates with the node's body as their epilogue.
#pragma once

#include "choice/program.h"
#include "codegen/constant_memory.h"
#include "codegen/cpu/kernel.h"

namespace toroid::codegen {

// Whether a template takes this problem; where none does, the node is to be lowered to a loop.
bool supports(const choice::Convolution& c, bool constant_weight, device::Isa isa);
bool supports(const choice::Attention& a, device::Isa isa);
bool supports(const choice::Sort& s);

// The kernel of a node that is not an extern call. May add buffers (packed weights) to the program's.
KernelText generate(const choice::Node& node, choice::Program& program, device::Isa isa, ConstantMemory& constants);

}  // namespace toroid::codegen
