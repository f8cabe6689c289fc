#include "program/problems/meeting.h"

#include "dist/group.h"
#include "tensor/tensor_impl.h"

namespace toroid::program {

using distributed::Kind;

Expr part(const Meeting& m) {
  const Expr numel = product(m.sizes);
  return m.kind == Kind::AllGather ? sym::floor_div(numel, m.ranks) : numel;
}

std::vector<Expr> input_sizes(const Meeting& m) {
  std::vector<Expr> out = m.sizes;
  if (m.kind == Kind::AllGather) out[0] = sym::floor_div(out[0], m.ranks);
  if (m.kind == Kind::ReduceScatter) out[0] = out[0] * Expr(m.ranks);
  return out;
}

loop::Accumulated formula(const Meeting& m, const Tensors& operands) {
  const Tensor& x = operands[0];
  std::vector<int64_t> sizes = x.sizes();
  if (m.kind == Kind::AllGather) sizes[0] *= m.ranks;
  if (m.kind == Kind::ReduceScatter) sizes[0] /= m.ranks;
  const Tensor given = Tensor::empty(x.sizes(), m.input.dtype), taken = Tensor::empty(sizes, m.input.dtype);
  copy_elements(x, given);
  distributed::current_world().group(m.group).run({.kind = m.kind,
                                                   .dtype = m.input.dtype,
                                                   .op = m.op,
                                                   .in = given.raw_data(),
                                                   .out = taken.raw_data(),
                                                   .count = m.kind == Kind::ReduceScatter ? taken.numel() : given.numel()});
  return [taken](std::span<const int64_t> at, int64_t) { return element(taken, at); };
}

}  // namespace toroid::program
