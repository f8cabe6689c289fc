// Tensors one below the other that are copied together only when somebody asks for the address of the whole.
#pragma once

#include <mutex>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid {

struct LateStack {
  std::once_flag made;
  std::vector<Tensor> parts;
};

// A contiguous tensor of the parts along dimension 0; they have one dtype, one device and equal other sizes. The first raw_data() copies
// them, on the thread that asks. Whoever reads late_parts() instead needs no copy.
Tensor stack_late(std::vector<Tensor> parts);

// The parts that t was stacked from; t alone when it is no stack.
std::vector<Tensor> late_parts(const Tensor& t);

}  // namespace toroid
