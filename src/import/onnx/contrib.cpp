// Operators of the domain com.microsoft: what ONNX Runtime's optimizer and exporters make of common parts of models.
#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

Tensor add(const Tensor& a, const Tensor& b) { return b.defined() ? op("add.Tensor", a, b) : a; }

void gelu(OpCall& c) { c.set(0, op("gelu", add(c.in(0), c.opt(1)))); }
void fast_gelu(OpCall& c) { c.set(0, op("gelu", add(c.in(0), c.opt(1)), "tanh")); }
void quick_gelu(OpCall& c) {
  Tensor x = c.in(0);
  c.set(0, op("mul.Tensor", x, op("sigmoid", op("mul.Tensor", x, c.real("alpha", 1.702)))));
}

void fused_matmul(OpCall& c) {
  TOROID_USER_CHECK(!c.integer("transBatchA", 0) && !c.integer("transBatchB", 0), "products with transposed batches are not supported");
  auto side = [&](size_t i, const char* flag) { return c.integer(flag, 0) ? op("transpose.int", c.in(i), -2, -1) : c.in(i); };
  Tensor out = op("matmul", side(0, "transA"), side(1, "transB"));
  double alpha = c.real("alpha", 1);
  c.set(0, alpha == 1 ? out : op("mul.Tensor", out, alpha));
}

void bias_add(OpCall& c) { c.set(0, add(add(c.in(0), c.in(1)), c.in(2))); }

// Of x + bias, the first half of the columns times gelu of the others.
void bias_split_gelu(OpCall& c) {
  const Tensor x = add(c.in(0), c.in(1));
  const Expr columns = sizes_of(x).back(), half = sym::floor_div(columns, 2);
  c.require_equal(half * Expr(2), columns, "columns in two halves");
  c.set(0, op("mul.Tensor", op("slice.Tensor", x, -1, 0, half), op("gelu", op("slice.Tensor", x, -1, half, columns))));
}

// In f32, with the channels last unless it says otherwise, and with silu behind it.
void group_norm(OpCall& c) {
  const Tensor x = c.in(0);
  const int64_t activation = c.integer("activation"), rank = rank_of(x);
  TOROID_USER_CHECK(activation == 0 || activation == 1, "activation is {}; Toroid has 0 (none) and 1 (silu)", activation);
  TOROID_USER_CHECK(rank >= 3, "the input has {} dimensions; expected a batch, positions and channels", rank);
  const bool channels_last = c.integer("channels_last", 1) != 0;
  const auto moved = [&](const Tensor& t, int64_t from, int64_t to) { return channels_last ? op("movedim.int", t, from, to) : t; };
  Tensor y = op("group_norm", moved(cast(x, DType::F32), -1, 1), c.integer("groups"), cast(c.in(1), DType::F32), cast(c.in(2), DType::F32),
                c.real("epsilon", 1e-5));
  if (activation == 1) y = op("silu", y);
  c.set(0, cast(moved(y, 1, -1), x.dtype()));
}

Sizes last_size(const Tensor& x) { return {sizes_of(x).back()}; }

// Sum of input, skip and bias, normalized; the sum itself is result 3.
void skip_layer_norm(OpCall& c) {
  TOROID_USER_CHECK(!c.wants(1) && !c.wants(2), "the mean and deviation of this operator are not supported");
  Tensor sum = add(add(c.in(0), c.in(1)), c.opt(4));
  Arg<Tensor> beta = c.has(3) ? Arg<Tensor>(c.in(3)) : kNone;
  c.set(0, op("layer_norm", sum, last_size(sum), c.in(2), beta, c.real("epsilon", 1e-12)));
  c.set(3, sum);
}

void skip_rms_norm(OpCall& c) {
  TOROID_USER_CHECK(!c.wants(1) && !c.wants(2), "the mean and deviation of this operator are not supported");
  Tensor sum = add(add(c.in(0), c.in(1)), c.opt(3));
  c.set(0, op("rms_norm", sum, last_size(sum), c.in(2), c.real("epsilon", 1e-12)));
  c.set(3, sum);
}

// Words, positions and segments, summed and normalized.
void embed_layer_norm(OpCall& c) {
  Tensor ids = cast(c.in(0), DType::I64);
  Tensor sum = op("embedding", c.in(2), ids), positions = c.in(3);
  Expr length = sizes_of(ids)[1];
  sum =
      op("add.Tensor", sum, c.has(8) ? op("embedding", positions, cast(c.in(8), DType::I64)) : op("slice.Tensor", positions, 0, 0, length));
  if (c.has(1) && c.has(4)) sum = op("add.Tensor", sum, op("embedding", c.in(4), cast(c.in(1), DType::I64)));
  c.ignore({"mask_index_type"});
  c.set(0, op("layer_norm", sum, last_size(sum), c.in(5), c.in(6), c.real("epsilon", 1e-12)));
  if (c.wants(1)) {  // how many words each row has
    Tensor counts =
        c.has(7) ? op("sum.dim_IntList", c.in(7), std::vector<int64_t>{1}, false) : op("full", Sizes{sizes_of(ids)[0]}, 0, DType::I64);
    c.set(1, cast(counts, DType::I32));
  }
  c.set(2, sum);
}

// ---- weights of few bits ---------------------------------------------------------------------------------------------------------

// Numbers of 4 bits, two in a byte, the first in the low half: [..., n] becomes [..., 2 n].
Tensor unpacked(const Tensor& bytes) {
  Tensor low = op("bitwise_and.Scalar", bytes, 15), high = op("bitwise_right_shift.Tensor_Scalar", bytes, 4);
  Sizes sizes = sizes_of(bytes);
  sizes.back() = sizes.back() * 2;
  return reshape(op("stack", std::vector<Tensor>{low, high}, -1), sizes);
}

void matmul_nbits(OpCall& c) {
  Tensor x = c.in(0), packed = c.in(1), scales = c.in(2);
  int64_t k = c.integer("K"), n = c.integer("N"), bits = c.integer("bits", 4), block = c.integer("block_size");
  c.ignore({"accuracy_level"});
  TOROID_USER_CHECK((bits == 4 || bits == 8) && block >= 16 && k > 0 && n > 0,
                    "weights of {} bits in blocks of {}; Toroid has 4 and 8 bits, 16 and more", bits, block);
  TOROID_USER_CHECK(!c.has(4), "weights in another order (g_idx) are not supported");
  int64_t blocks = (k + block - 1) / block;
  Tensor whole = reshape(bits == 4 ? unpacked(packed) : packed, {n, blocks, block});
  Tensor weight = cast(whole, x.dtype());
  if (c.has(3)) {
    Tensor zero = c.in(3);
    if (zero.dtype() == DType::U8 && bits == 4) zero = op("slice.Tensor", unpacked(reshape(zero, {n, (blocks + 1) / 2})), 1, 0, blocks);
    weight = op("sub.Tensor", weight, cast(reshape(zero, {n, blocks, 1}), x.dtype()));
  } else {
    weight = op("sub.Tensor", weight, static_cast<double>(int64_t{1} << (bits - 1)));
  }
  weight = op("mul.Tensor", weight, reshape(scales, {n, blocks, 1}));
  weight = op("slice.Tensor", reshape(weight, {n, blocks * block}), 1, 0, k);
  c.set(0, op("linear", x, weight, c.has(5) ? Arg<Tensor>(c.in(5)) : kNone));
}

}  // namespace

void add_contrib_operators(Operators& t) {
  constexpr std::string_view kDomain = "com.microsoft";
  t.add(kDomain, "Gelu", 1, gelu);
  t.add(kDomain, "BiasGelu", 1, gelu);
  t.add(kDomain, "FastGelu", 1, fast_gelu);
  t.add(kDomain, "QuickGelu", 1, quick_gelu);
  t.add(kDomain, "BiasAdd", 1, bias_add);
  t.add(kDomain, "BiasSplitGelu", 1, bias_split_gelu);
  t.add(kDomain, "GroupNorm", 1, group_norm);
  t.add(kDomain, "FusedMatMul", 1, fused_matmul);
  t.add(kDomain, "SkipLayerNormalization", 1, skip_layer_norm);
  t.add(kDomain, "SkipSimplifiedLayerNormalization", 1, skip_rms_norm);
  t.add(kDomain, "EmbedLayerNormalization", 1, embed_layer_norm);
  t.add(kDomain, "MatMulNBits", 1, matmul_nbits);
}

}  // namespace toroid::import::onnx
