// Products of matrices.
#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

Tensor transposed(const Tensor& t) { return permuted(t, {1, 0}); }

Tensor gemm_of(OpCall& c) {
  Tensor a = c.in(0), b = c.in(1);
  c.ignore({"broadcast"});  // of versions before 7: the sum always broadcasts
  if (c.integer("transA", 0)) a = transposed(a);
  if (c.integer("transB", 0)) b = transposed(b);
  double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  TOROID_USER_CHECK(rank_of(a) == 2 && rank_of(b) == 2, "matrices are expected; the tensors have {} and {} dimensions", rank_of(a),
                    rank_of(b));
  bool whole = !is_float(a.dtype());
  auto number = [&](double v) -> Arg<Tensor> { return whole ? Arg<Tensor>(Expr(whole_number(v))) : Arg<Tensor>(v); };
  if (c.has(2)) return op("addmm", c.in(2), a, b, number(beta), number(alpha));
  Tensor out = op("mm", a, b);
  return alpha == 1 ? out : op("mul.Tensor", out, number(alpha));
}

void gemm(OpCall& c) { c.set(0, gemm_of(c)); }
void fused_gemm(OpCall& c) { c.set(0, fused_activation(c, gemm_of(c))); }

void einsum(OpCall& c) { c.set(0, op("einsum", c.text("equation", ""), c.all())); }

}  // namespace

void add_matmul_operators(Operators& t) {
  t.add("MatMul", 1, binary<"matmul">);
  t.add("Gemm", 1, gemm);
  t.add("com.microsoft", "FusedGemm", 1, fused_gemm);
  t.add("Einsum", 12, einsum);
  t.add("Det", 11, unary<"det">);
}

}  // namespace toroid::import::onnx
