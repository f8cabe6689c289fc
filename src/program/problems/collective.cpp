#include "program/problems/collective.h"

#include "base/index_fault.h"

namespace toroid::program {

using distributed::Kind;

namespace {

Expr total(const std::vector<Expr>& splits) {
  Expr sum = 0;
  for (auto& s : splits) sum = sum + s;
  return sum;
}

}  // namespace

Expr elements_in(const Collective& c) {
  if (c.kind == Kind::AllToAll) return total(c.given);
  return c.kind == Kind::ReduceScatter ? c.count * Expr(c.ranks) : c.count;
}

Expr elements_out(const Collective& c) {
  if (c.kind == Kind::AllToAll) return total(c.taken);
  return c.kind == Kind::AllGather ? c.count * Expr(c.ranks) : c.count;
}

void compute(const Collective& c, const Tensors& operands, const std::function<int64_t(const Expr&)>& value) {
  distributed::Collective call{.kind = c.kind, .dtype = c.input.dtype, .op = c.op, .root = static_cast<int>(c.root)};
  call.in = operands[0].raw_data();
  call.out = operands[1].raw_data();
  call.count = value(c.count);
  for (auto& n : c.given) call.in_splits.push_back(value(n));
  for (auto& n : c.taken) call.out_splits.push_back(value(n));
  distributed::current_world().group(c.group).run(call);
}

}  // namespace toroid::program
