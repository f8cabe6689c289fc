// Collectives on GPUs that reach each other's memory.
#pragma once

#include <optional>

#include "dist/collective.h"
#include "program/problems/gemm.h"

namespace toroid::program {

// A collective by one kernel, whose blocks meet those of the other ranks in the memory that they share, and which goes on with each element
// (see Collective for those that a library carries). Its points are the elements of the result, as distributed::Kind has them:
//
//   AllReduce      the op over all ranks' inputs at the point
//   AllGather      ranks * n rows, of the inputs of n rows each in the order of the ranks
//   ReduceScatter  n rows: this rank's part of the op over all ranks' inputs of ranks * n rows
//
// Others are none: a rank's splits of an AllToAll may be even where another's are not.
// Reductions are folded in F32 in the order of the ranks and rounded to the input's dtype, so that all ranks have the same bits.
// With `product` what a rank brings, or gets, is not in memory:
//
//   AllReduce      a rank brings the sums of a row-major product, each rounded to the input's dtype
//   ReduceScatter  likewise; the rows are this rank's of the sum over all ranks' products
//   AllGather      the rows of what the ranks bring are the left operand: the result is its product, whose part of a rank is `product`
struct Meeting {
  static constexpr std::string_view kKeyword = "meeting";
  distributed::Kind kind = distributed::Kind::AllReduce;
  distributed::ReduceOp op = distributed::ReduceOp::Sum;  // of those that reduce
  std::string group;
  int64_t ranks = 2;
  std::vector<Expr> sizes;      // of the result
  int64_t site = 0;             // of the program, for a rank that does not come
  Operand input;                // F32, F16 or BF16; strides: those of a row-major tensor. With a product the dtype alone
  Operand peers;                // of kind Peers
  Operand faults;               // of kind Faults
  std::optional<Gemm> product;  // of constant sizes, of what this rank has
};

// Whether it has a product whose pieces are computed while others are on their way.
inline bool in_pieces(const Meeting& m) { return m.product && m.kind != distributed::Kind::AllReduce; }
inline bool reduces(const Meeting& m) { return m.kind == distributed::Kind::AllReduce || m.kind == distributed::Kind::ReduceScatter; }
// Elements that a rank brings to each of the others.
Expr part(const Meeting& m);
std::vector<Expr> input_sizes(const Meeting& m);

template <IsKind<Meeting> P, class Visitor>
void fields(P& m, Visitor& v) {
  const auto of_input = [&] { return input_sizes(m); };
  const auto of_memory = [] { return std::vector<Expr>{}; };
  v.choice("of", m.kind, distributed::kKindNames);
  v.choice("by", m.op, distributed::kReduceOpNames);
  v.text("group", m.group);
  v.number("ranks", m.ranks);
  v.number("site", m.site);
  v.sizes("", m.sizes);
  v.presence("product", m.product);
  if (m.product) {
    v.dtype("rounded", m.input.dtype);
    fields(*m.product, v);
  } else {
    v.operand("input", m.input, Use::Read, "what a rank brings", of_input);
  }
  v.operand("peers", m.peers, Use::Update, "what the ranks share", of_memory);
  v.operand("faults", m.faults, Use::Read, "the record of faults", of_memory);
}

inline std::vector<Expr> points(const Meeting& m) { return m.sizes; }
inline Expr flops(const Meeting& m) {
  const Expr products = m.kind == distributed::Kind::AllGather ? m.ranks : 1;
  return (reduces(m) ? product(m.sizes) * Expr(m.ranks - 1) : Expr(0)) + (m.product ? flops(*m.product) * products : Expr(0));
}
// At the place in the result. By the group of the calling thread's world, which its other ranks compute, too.
loop::Accumulated formula(const Meeting& m, const Tensors& operands);

}  // namespace toroid::program
