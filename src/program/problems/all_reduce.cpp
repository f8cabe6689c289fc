#include "program/problems/all_reduce.h"

#include "dist/group.h"
#include "tensor/tensor_impl.h"

namespace toroid::program {

loop::Accumulated formula(const AllReduce& a, const Tensors& operands) {
  const Tensor given = Tensor::empty(operands[0].sizes(), a.input.dtype), reduced = Tensor::empty(operands[0].sizes(), a.input.dtype);
  copy_elements(operands[0], given);
  distributed::current_world().group(a.group).run({.kind = distributed::Kind::AllReduce,
                                                   .dtype = a.input.dtype,
                                                   .op = a.op,
                                                   .in = given.raw_data(),
                                                   .out = reduced.raw_data(),
                                                   .count = given.numel()});
  return [reduced](std::span<const int64_t> at, int64_t) { return element(reduced, at); };
}

}  // namespace toroid::program
