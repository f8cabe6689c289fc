// Products of matrices.
#pragma once

#include <optional>

#include "program/operand.h"

namespace toroid::program {

// out[batch..., m, n] = sum over k of a[batch..., m, k] * b[batch..., k, n], accumulated in `accumulate`.
// With b2 each point has a second sum, of a * b2, for the epilogue (a gate and what it opens).
struct Gemm {
  static constexpr std::string_view kKeyword = "gemm";
  std::vector<Expr> batch;
  Expr m, n, k;
  Operand a, b;  // strides: batch..., then (m, k) and (k, n)
  DType accumulate = DType::F32;
  std::optional<Operand> b2;  // of b's dtype and strides
  bool tf32 = false;          // operands are f32 and may be rounded to tf32
};

template <IsKind<Gemm> P, class Visitor>
void fields(P& g, Visitor& v) {
  const auto right = [&] { return joined(g.batch, {g.k, g.n}); };
  v.sizes("at least m, n and k are expected", g.batch, g.m, g.n, g.k);
  v.operand("a", g.a, Use::Read, "the left operand", [&] { return joined(g.batch, {g.m, g.k}); });
  v.operand("b", g.b, Use::Read, "the right operand", right);
  v.operand("b2", g.b2, Use::Read, "the second right operand", right);
  v.dtype("in", g.accumulate);
  v.flag("tf32", g.tf32);
}

inline std::vector<Expr> points(const Gemm& g) { return joined(g.batch, {g.m, g.n}); }
inline Expr flops(const Gemm& g) { return product(g.batch) * g.m * g.n * g.k * Expr(g.b2 ? 4 : 2); }
// At batch..., m, n: the sum in double (64-bit integers where it accumulates integers), then as `accumulate`.
loop::Accumulated formula(const Gemm& g, const Tensors& operands);

}  // namespace toroid::program
