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

namespace {

Tensor copy_of(const Tensor& x) {
  const Tensor out = Tensor::empty(x.sizes(), x.dtype());
  copy_elements(x, out);
  return out;
}

// What this rank brings, in the host's memory.
Tensor brought(const Meeting& m, const Tensors& operands) {
  if (!m.product || m.kind == Kind::AllGather) return copy_of(operands[0]);
  std::vector<int64_t> sizes = operands[0].sizes();
  sizes.back() = operands[1].sizes().back();
  const Tensor made = Tensor::empty(sizes, m.input.dtype);
  const auto sum = formula(*m.product, operands);
  each_row(sizes, [&](std::vector<int64_t>& at) {
    for (at.back() = 0; at.back() < sizes.back(); ++at.back()) set_element(made, at, sum(at, 0));
  });
  return made;
}

}  // namespace

loop::Accumulated formula(const Meeting& m, const Tensors& operands) {
  const Tensor given = brought(m, operands);
  std::vector<int64_t> sizes = given.sizes();
  if (m.kind == Kind::AllGather) sizes[0] *= m.ranks;
  if (m.kind == Kind::ReduceScatter) sizes[0] /= m.ranks;
  if (m.product && m.kind != Kind::AllGather) {
    sizes.clear();
    for (auto& s : m.sizes) sizes.push_back(s.constant());
  }
  const Tensor taken = Tensor::empty(sizes, given.dtype());
  distributed::current_world().group(m.group).run({.kind = m.kind,
                                                   .dtype = given.dtype(),
                                                   .op = m.op,
                                                   .in = given.raw_data(),
                                                   .out = taken.raw_data(),
                                                   .count = m.kind == Kind::ReduceScatter ? taken.numel() : given.numel()});
  if (m.product && m.kind == Kind::AllGather) return formula(*m.product, {taken, operands[1]});
  return [taken](std::span<const int64_t> at, int64_t) { return element(taken, at); };
}

}  // namespace toroid::program
