// Reductions over the ranks of a group on GPUs that reach each other's memory.
#pragma once

#include "dist/collective.h"
#include "program/operand.h"

namespace toroid::program {

// out[i, j, ...] = the op over all ranks' inputs at i, j, ..., folded in F32 in the order of the ranks and rounded to the input's dtype, so
// that all ranks have the same bits: as distributed::Kind::AllReduce, by one kernel whose blocks meet those of the other ranks in the
// memory that they share, and which goes on with each element (see Collective for those that a library carries).
struct AllReduce {
  static constexpr std::string_view kKeyword = "all_reduce";
  distributed::ReduceOp op = distributed::ReduceOp::Sum;
  std::string group;
  int64_t ranks = 2;
  std::vector<Expr> sizes;
  int64_t site = 0;  // of the program, for a rank that does not come
  Operand input;     // F32, F16 or BF16; strides: those of a row-major tensor
  Operand peers;     // of kind Peers
  Operand faults;    // of kind Faults
};

template <IsKind<AllReduce> P, class Visitor>
void fields(P& a, Visitor& v) {
  const auto of_points = [&] { return a.sizes; };
  const auto of_memory = [] { return std::vector<Expr>{}; };
  v.choice("by", a.op, distributed::kReduceOpNames);
  v.text("group", a.group);
  v.number("ranks", a.ranks);
  v.number("site", a.site);
  v.sizes("", a.sizes);
  v.operand("input", a.input, Use::Read, "what a rank brings", of_points);
  v.operand("peers", a.peers, Use::Update, "what the ranks share", of_memory);
  v.operand("faults", a.faults, Use::Read, "the record of faults", of_memory);
}

inline std::vector<Expr> points(const AllReduce& a) { return a.sizes; }
inline Expr flops(const AllReduce& a) { return product(a.sizes) * Expr(a.ranks - 1); }
// At the place in the tensor. By the group of the calling thread's world, which its other ranks compute, too.
loop::Accumulated formula(const AllReduce& a, const Tensors& operands);

}  // namespace toroid::program
