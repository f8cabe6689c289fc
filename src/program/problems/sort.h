// Sorts and selections of rows.
#pragma once

#include "program/operand.h"

namespace toroid::program {

// The first `count` elements of each row of `length` in stable order (equal elements keep theirs), and their positions in the row.
// NaN is the largest element.
struct Sort {
  static constexpr std::string_view kKeyword = "sort";
  std::vector<Expr> rows;
  Expr length, count;
  bool descending = false;
  Operand keys;               // strides: rows..., along the row
  Operand values, positions;  // of keys' dtype and I64; buffer -1: not wanted
};

template <IsKind<Sort> P, class Visitor>
void fields(P& s, Visitor& v) {
  const auto kept = [&] { return joined(s.rows, {s.count}); };
  v.sizes("the length of a row is expected", s.rows, s.length);
  v.word("first");
  v.sizes("", s.count);
  v.operand("keys", s.keys, Use::Read, "the keys", [&] { return joined(s.rows, {s.length}); });
  v.operand("values", s.values, Use::MayWrite, "the sorted values", kept);
  v.operand("positions", s.positions, Use::MayWrite, "the positions", kept);
  v.flag("descending", s.descending);
}

// Stable.
void compute(const Sort& s, const Tensors& operands);

}  // namespace toroid::program
