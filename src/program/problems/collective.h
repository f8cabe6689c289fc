// Collectives: what the ranks of a group do together.
#pragma once

#include <array>

#include "dist/group.h"
#include "program/operand.h"

namespace toroid::program {

// A call of distributed::Group::run, whose ranks all come to it: the memory of `input` and `output` is dense and does not overlap. Counts
// are elements, as there. Nodes of this kind stay in their order, and each stays: other ranks may run another program.
struct Collective {
  static constexpr std::string_view kKeyword = "collective";
  distributed::Kind kind = distributed::Kind::AllReduce;
  distributed::ReduceOp op = distributed::ReduceOp::Sum;  // of those that reduce
  std::string group;
  int64_t ranks = 1;               // of AllGather and ReduceScatter; others are for any number
  int64_t root = 0;                // of Broadcast
  Expr count;                      // of all but AllToAll
  std::vector<Expr> given, taken;  // of AllToAll: one a rank
  Operand input, output;           // strides: 1
};

// Elements of the operands.
Expr elements_in(const Collective& c);
Expr elements_out(const Collective& c);

template <IsKind<Collective> P, class Visitor>
void fields(P& c, Visitor& v) {
  v.choice("of", c.kind, distributed::kKindNames);
  v.choice("by", c.op, distributed::kReduceOpNames);
  v.text("group", c.group);
  v.number("ranks", c.ranks);
  v.number("root", c.root);
  v.sizes("", c.count);
  v.word("given");
  v.sizes("", c.given);
  v.word("taken");
  v.sizes("", c.taken);
  v.operand("input", c.input, Use::Read, "what a rank brings", [&] { return std::vector<Expr>{elements_in(c)}; });
  v.operand("output", c.output, Use::Write, "what a rank gets", [&] { return std::vector<Expr>{elements_out(c)}; });
}

// By the group of the calling thread's world, which its other ranks run, too. value: of sizes.
void compute(const Collective& c, const Tensors& operands, const std::function<int64_t(const Expr&)>& value);

}  // namespace toroid::program
