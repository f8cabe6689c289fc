// Scans of long rows by log(sum(exp)): each element becomes the logarithm of the sum of the exponentials of its row up to it.
#pragma once

#include "program/operand.h"

namespace toroid::program {

enum class ScanPart : uint8_t { Totals, Rows };
inline constexpr std::string_view kScanParts[] = {"totals", "rows"};

// A row is cut into pieces of kScanPiece elements (the last one may have fewer), whatever runs it. Totals: what each piece comes to by
// itself. Rows: the values, which begin with the totals of the pieces before their own. (Sums, products, maxima and minima are faster as
// loops, whose vectors take a few instructions to scan.)
struct Scan {
  static constexpr std::string_view kKeyword = "scan";
  ScanPart part = ScanPart::Rows;
  std::vector<Expr> rows;
  Expr length;
  Operand input;   // strides: rows..., along the row
  Operand totals;  // of F64; strides: rows..., pieces
  Operand values;  // of input's dtype; buffer -1: of part Totals
};

inline constexpr int64_t kScanPiece = 1 << 14;
inline Expr pieces(const Scan& s) { return sym::floor_div(s.length + Expr(kScanPiece - 1), kScanPiece); }

template <IsKind<Scan> P, class Visitor>
void fields(P& s, Visitor& v) {
  const auto whole = [&] { return joined(s.rows, {s.length}); };
  v.choice("of", s.part, kScanParts);
  v.sizes("the length of a row is expected", s.rows, s.length);
  const bool first = s.part == ScanPart::Totals;
  v.operand("input", s.input, Use::Read, "the input", whole);
  v.operand("totals", s.totals, first ? Use::Write : Use::Read, "the totals", [&] { return joined(s.rows, {pieces(s)}); });
  v.operand("values", s.values, first ? Use::MayWrite : Use::Write, "the values", whole);
}

void compute(const Scan& s, const Tensors& operands);

}  // namespace toroid::program
