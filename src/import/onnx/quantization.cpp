// Operators on numbers of 8 bits with scales and zero points.
#include <algorithm>
#include <optional>
#include <type_traits>

#include "base/check.h"
#include "import/onnx/operators.h"
#include "import/onnx/tensors.h"
#include "import/onnx/windows.h"

namespace toroid::import::onnx {
namespace {

struct Range {
  double low, high;
};

Range range_of(DType t) {
  switch (t) {
    case DType::U8:
      return {0, 255};
    case DType::I8:
      return {-128, 127};
    case DType::U16:
      return {0, 65535};
    case DType::I16:
      return {-32768, 32767};
    case DType::I32:
      return {-2147483648.0, 2147483647.0};
    default:
      fail<UserError>("the quantized type is {}; expected are whole numbers of 8, 16 or 32 bits", name_of(t));
  }
}

// Scales and zero points: one for all, or one for each position of an axis.
Tensor spread(const Tensor& t, int64_t axis, int64_t rank) {
  if (rank_of(t) == 0) return t;
  if (rank_of(t) == 1 && sizes_of(t)[0] == Expr(1)) return reshape(t, {});
  TOROID_USER_CHECK(rank_of(t) == 1, "scales of {} dimensions; expected is one number, or one for each position of an axis", rank_of(t));
  return along_axis(t, normal_axis(axis, rank), rank);
}

// The same for the operators that may also have one for each block of an axis.
Tensor spread_blocks(OpCall& c, const Tensor& t, const Tensor& x) {
  int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  if (block == 0) return spread(t, axis, rank_of(x));
  TOROID_USER_CHECK(rank_of(t) == rank_of(x) && block > 0, "scales of {} dimensions in blocks of {}; {} dimensions are expected",
                    rank_of(t), block, rank_of(x));
  axis = normal_axis(axis, rank_of(x));
  Tensor each = op("repeat_interleave.self_int", t, block, axis);
  return op("slice.Tensor", each, axis, 0, sizes_of(x)[static_cast<size_t>(axis)]);  // the last block may be shorter
}

// x is in units of the scale already: rounded, moved by the zero point, limited to what the type holds.
Tensor quantized(const Tensor& x, const Tensor& zero, DType dtype) {
  Tensor whole = op("round", x);
  if (zero.defined()) whole = op("add.Tensor", whole, cast(zero, x.dtype()));
  Range r = range_of(dtype);
  return cast(op("clamp", whole, r.low, r.high), dtype);
}

void quantize(OpCall& c) {
  Tensor x = c.in(0);
  c.ignore({"saturate"});  // of 8-bit floats
  DType dtype = c.has(2) ? c.in(2).dtype() : DType::U8;
  auto stated = static_cast<int32_t>(c.integer("output_dtype", 0));
  if (stated) dtype = need_dtype(stated, "the result");
  Tensor scale = spread_blocks(c, c.in(1), x), zero = c.has(2) ? spread_blocks(c, c.in(2), x) : Tensor();
  auto precision = static_cast<int32_t>(c.integer("precision", 0));
  DType compute = precision ? need_dtype(precision, "the division") : scale.dtype();
  c.set(0, quantized(op("div.Tensor", cast(x, compute), cast(scale, compute)), zero, dtype));
}

void dequantize(OpCall& c) {
  Tensor x = c.in(0), scale = spread_blocks(c, c.in(1), x), whole = x;
  if (c.has(2)) whole = op("sub.Tensor", cast(x, DType::I32), cast(spread_blocks(c, c.in(2), x), DType::I32));
  auto stated = static_cast<int32_t>(c.integer("output_dtype", 0));
  Tensor out = op("mul.Tensor", cast(whole, scale.dtype()), scale);
  c.set(0, stated ? cast(out, need_dtype(stated, "the result")) : out);
}

struct Quantized {
  Tensor values, scale, zero;
};

// Scale and zero point from the range of the tensor, which is made to include zero.
Quantized by_range(const Tensor& x) {
  Tensor high = op("clamp_min", op("max", x), 0.0), low = op("clamp_max", op("min", x), 0.0);
  Tensor scale = op("div.Tensor", op("sub.Tensor", high, low), 255.0);
  Tensor zero = op("clamp", op("round", op("div.Tensor", op("neg", low), scale)), 0.0, 255.0);
  return {quantized(op("div.Tensor", x, scale), zero, DType::U8), scale, cast(zero, DType::U8)};
}

void dynamic_quantize(OpCall& c) {
  Quantized q = by_range(c.in(0));
  c.set(0, q.values);
  c.set(1, q.scale);
  c.set(2, q.zero);
}

// Whole numbers less their zero point, which a left operand has for each row, a right one for each column.
Tensor centred(const Tensor& x, const Tensor& zero, bool rows) {
  Tensor whole = cast(x, DType::I32);
  if (!zero.defined()) return whole;
  Tensor z = cast(zero, DType::I32);
  if (rows && rank_of(z) == 1) z = reshape(z, {sizes_of(z)[0], 1});
  return op("sub.Tensor", whole, z);
}

// Weights that are known, less their zero points, as numbers of 8 bits with sign and what has to be taken from them still.
struct KnownWeights {
  Tensor values;  // I8 [k, n]
  Tensor rest;    // I32 [n]; undefined where it is zero
  Tensor sums;    // I32 [n], of the columns, without the rest
};

template <class T>
KnownWeights split_weights(const Tensor& b, const std::vector<int64_t>& zeros) {
  const int64_t k = b.sizes()[0], n = b.sizes()[1];
  const T* from = b.data<T>();
  const auto zero = [&](int64_t j) { return zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(j)]; };
  bool fits = true, same = std::is_same_v<T, int8_t>;
  for (int64_t j = 0; j < n; ++j) same = same && zero(j) == 0;
  for (int64_t i = 0; i < k * n && !same; ++i) fits = fits && int64_t{from[i]} - zero(i % n) == static_cast<int8_t>(from[i] - zero(i % n));
  // What does not fit less its zero point keeps it; numbers without sign are moved into the range.
  const auto moved = [&](int64_t j) { return fits ? zero(j) : std::is_same_v<T, int8_t> ? 0 : 128; };
  KnownWeights out;
  out.values = same ? b : Tensor::empty({k, n}, DType::I8);
  std::vector<int64_t> sums(static_cast<size_t>(n));
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t j = i % n;
    if (!same) out.values.data<int8_t>()[i] = static_cast<int8_t>(from[i] - moved(j));
    sums[static_cast<size_t>(j)] += from[i] - zero(j);
  }
  out.sums = Tensor::empty({n}, DType::I32);
  for (int64_t j = 0; j < n; ++j) out.sums.data<int32_t>()[j] = static_cast<int32_t>(sums[static_cast<size_t>(j)]);
  if (fits) return out;
  out.rest = Tensor::empty({n}, DType::I32);
  for (int64_t j = 0; j < n; ++j) out.rest.data<int32_t>()[j] = static_cast<int32_t>(zero(j) - moved(j));
  return out;
}

// What a tensor holds, where that is known and no more than weights are: models may compute as much as they like.
std::optional<Tensor> known_contents(OpCall& c, const Tensor& t) {
  constexpr int64_t kMost = int64_t{1} << 28;
  int64_t numel = 1;
  for (auto& s : sizes_of(t)) {
    const int64_t size = s.maybe_constant().value_or(kMost + 1);
    if (size > kMost || (numel *= size) > kMost) return std::nullopt;
  }
  return c.constant(t);
}

bool has_8_bits(const Tensor& t) { return t.dtype() == DType::I8 || t.dtype() == DType::U8; }

std::optional<KnownWeights> known_weights(OpCall& c, const Tensor& b, const Tensor& zero) {
  if (rank_of(b) != 2 || !has_8_bits(b)) return std::nullopt;
  const std::optional<Tensor> data = known_contents(c, b), z = zero.defined() ? known_contents(c, zero) : Tensor::of({0}, {1}, DType::I32);
  if (!data || !z || data->numel() == 0) return std::nullopt;
  const bool one_each = z->dim() == 1 && z->numel() == data->sizes()[1];
  if (z->numel() != 1 && !one_each) return std::nullopt;
  std::vector<int64_t> zeros;
  for (double v : z->to_vector()) zeros.push_back(static_cast<int64_t>(v));
  const Tensor rows = data->contiguous();
  return b.dtype() == DType::I8 ? split_weights<int8_t>(rows, zeros) : split_weights<uint8_t>(rows, zeros);
}

bool is_zero(OpCall& c, const Tensor& t) {
  const std::optional<Tensor> known = known_contents(c, t);
  if (!known) return false;
  const auto values = known->to_vector();
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

// (a - zero_a) (b - zero_b), exact, where b is known: the numbers of 8 bits are multiplied as they are, and the zero points make up for it:
// a b - zero_a colsum(b) for a b that is less its zero points already, or else less rowsum(a) zero_b too.
std::optional<Tensor> known_product(OpCall& c, const Tensor& a, const Tensor& zero_a, const Tensor& b, const Tensor& zero_b) {
  const std::optional<KnownWeights> w = rank_of(a) >= 2 && has_8_bits(a) ? known_weights(c, b, zero_b) : std::nullopt;
  if (!w) return std::nullopt;
  Sizes sizes = sizes_of(a);
  Expr rows = 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) rows = rows * sizes[d];
  Tensor sums = op("_int_mm", rank_of(a) == 2 ? a : reshape(a, {rows, sizes.back()}), w->values);
  sizes.back() = w->values.sizes()[1];
  if (rank_of(a) > 2) sums = reshape(sums, sizes);
  if (w->rest.defined()) {
    Tensor of_rows = cast(op("sum.dim_IntList", cast(a, DType::I32), std::vector<int64_t>{-1}, true), DType::I32);
    sums = op("sub.Tensor", sums, op("mul.Tensor", of_rows, w->rest));
  }
  if (!zero_a.defined() || is_zero(c, zero_a)) return sums;
  Tensor z = cast(zero_a, DType::I32);
  if (rank_of(z) == 1) z = reshape(z, {sizes_of(z)[0], 1});
  return op("sub.Tensor", sums, op("mul.Tensor", z, w->sums));
}

// The same of any b.
Tensor whole_product(OpCall& c, const Tensor& a, const Tensor& zero_a, const Tensor& b, const Tensor& zero_b) {
  const std::optional<Tensor> known = known_product(c, a, zero_a, b, zero_b);
  return known ? *known : op("matmul", centred(a, zero_a, true), centred(b, zero_b, false));
}

void matmul_integer(OpCall& c) { c.set(0, whole_product(c, c.in(0), c.opt(2), c.in(1), c.opt(3))); }

void qlinear_matmul(OpCall& c) {
  Tensor sums = whole_product(c, c.in(0), c.in(2), c.in(3), c.in(5));
  Tensor scale_a = c.in(1), scale_b = c.in(4);
  if (rank_of(scale_a) == 1) scale_a = reshape(scale_a, {sizes_of(scale_a)[0], 1});
  Tensor scale = op("div.Tensor", op("mul.Tensor", scale_a, scale_b), c.in(6));
  c.set(0, quantized(op("mul.Tensor", cast(sums, scale.dtype()), scale), c.in(7), c.in(7).dtype()));
}

// Known weights less their zero points, as sums of numbers of 8 bits: one of them is enough nearly always.
std::optional<std::vector<Tensor>> known_filters(OpCall& c, const Tensor& weight, const Tensor& zero) {
  const std::optional<Tensor> data = known_contents(c, weight),
                              z = zero.defined() ? known_contents(c, zero) : Tensor::of({0}, {1}, DType::I32);
  if (!has_8_bits(weight) || !data || !z || data->numel() == 0) return std::nullopt;
  const std::vector<double> zeros = z->to_vector();
  const int64_t filters = data->sizes()[0], each = data->numel() / filters;
  if (zeros.size() != 1 && static_cast<int64_t>(zeros.size()) != filters) return std::nullopt;
  const Tensor from = data->contiguous();
  const int8_t* with_sign = from.dtype() == DType::I8 ? from.data<int8_t>() : nullptr;
  const uint8_t* without = with_sign ? nullptr : from.data<uint8_t>();
  std::vector<int> left(static_cast<size_t>(from.numel()));
  for (size_t i = 0; i < left.size(); ++i)
    left[i] =
        (with_sign ? int{with_sign[i]} : int{without[i]}) - static_cast<int>(zeros[zeros.size() == 1 ? 0 : i / static_cast<size_t>(each)]);
  std::vector<Tensor> parts;
  do {
    parts.push_back(Tensor::empty(from.sizes(), DType::I8));
    int8_t* to = parts.back().data<int8_t>();
    for (size_t i = 0; i < left.size(); ++i) {
      to[i] = static_cast<int8_t>(std::clamp(left[i], -128, 127));
      left[i] -= to[i];
    }
  } while (std::any_of(left.begin(), left.end(), [](int x) { return x != 0; }));
  return parts;
}

// The sums of a convolution with known weights and a known zero point, which padding is.
std::optional<Tensor> known_convolution(OpCall& c, const Tensor& x, const Tensor& zero, const Tensor& weight, const Tensor& weight_zero,
                                        const Windows& w) {
  const std::optional<Tensor> known_zero = zero.defined() ? known_contents(c, zero) : Tensor::of({0}, {}, DType::I32);
  if (!has_8_bits(x) || !known_zero || known_zero->numel() != 1) return std::nullopt;
  const auto parts = known_filters(c, weight, weight_zero);
  if (!parts) return std::nullopt;
  const auto less = static_cast<int64_t>(known_zero->to_vector()[0]);
  const Tensor padded = w.is_symmetric() ? x : op("constant_pad_nd", x, w.pad_widths(), less);
  const std::vector<int64_t> padding = w.is_symmetric() ? w.begin : std::vector<int64_t>(w.spatial(), 0);
  const bool line = w.spatial() == 1;  // is an image of one row
  const auto plane = [&](const Tensor& t) { return line ? op("unsqueeze", t, 2) : t; };
  const auto list = [&](std::vector<int64_t> v, int64_t of_rows) {
    if (line) v.insert(v.begin(), of_rows);
    return v;
  };
  Tensor sums;
  for (auto& filters : *parts) {
    const Tensor part = op("_int_convolution", plane(padded), plane(filters), list(w.strides, 1), list(padding, 0), list(w.dilations, 1),
                           c.integer("group", 1), less);
    sums = sums.defined() ? op("add.Tensor", sums, part) : part;
  }
  return line ? op("squeeze.dim", sums, 2) : sums;
}

// The convolution of whole numbers is exact in 64-bit floats.
Tensor whole_convolution(OpCall& c, const Tensor& input, const Tensor& zero, const Tensor& weight, const Tensor& weight_zero,
                         const Windows& w) {
  const std::optional<Tensor> known = known_convolution(c, input, zero, weight, weight_zero, w);
  if (known) return *known;
  Tensor x = cast(input, DType::F64), k = cast(weight, DType::F64);
  if (zero.defined()) x = op("sub.Tensor", x, cast(zero, DType::F64));
  if (weight_zero.defined()) k = op("sub.Tensor", k, cast(spread(weight_zero, 0, rank_of(weight)), DType::F64));
  const std::vector<int64_t> none(w.spatial(), 0);
  const Tensor padded = w.is_padded() ? op("constant_pad_nd", x, w.pad_widths(), 0) : x;
  return cast(op("convolution", padded, k, kNone, w.strides, none, w.dilations, false, none, c.integer("group", 1)), DType::I32);
}

Windows windows_of_filters(OpCall& c, const Tensor& weight) {
  auto kernel = known_sizes(weight, "the size of a kernel");
  TOROID_USER_CHECK(kernel.size() >= 3, "the weights have {} dimensions; at least 3 are expected", kernel.size());
  return read_windows(c, c.in(0), {kernel.begin() + 2, kernel.end()});
}

void qlinear_conv(OpCall& c) {
  const Tensor weight = c.in(3);
  Tensor sums = whole_convolution(c, c.in(0), spread(c.in(2), 0, 1), weight, c.in(5), windows_of_filters(c, weight));
  const int64_t rank = rank_of(sums);
  if (c.has(8)) sums = op("add.Tensor", sums, spread(c.in(8), 1, rank));
  Tensor scale = op("div.Tensor", op("mul.Tensor", spread(c.in(1), 1, rank), spread(c.in(4), 1, rank)), c.in(6));
  c.set(0, quantized(op("mul.Tensor", cast(sums, DType::F32), scale), c.in(7), c.in(7).dtype()));
}

void conv_integer(OpCall& c) {
  const Tensor weight = c.in(1), zero = c.has(2) ? reshape(c.in(2), {}) : Tensor();
  c.set(0, whole_convolution(c, c.in(0), zero, weight, c.opt(3), windows_of_filters(c, weight)));
}

// ---- com.microsoft ---------------------------------------------------------------------------------------------------------------

// Input i with its scale and zero point behind it, as numbers.
Tensor real_input(OpCall& c, size_t i) {
  Tensor whole = cast(c.in(i), DType::I32);
  if (c.has(i + 2)) whole = op("sub.Tensor", whole, cast(reshape(c.in(i + 2), {}), DType::I32));
  return op("mul.Tensor", cast(whole, DType::F32), reshape(c.in(i + 1), {}));
}

// Sets the result from numbers; its scale is input i, its zero point the one after.
void set_quantized(OpCall& c, const Tensor& x, size_t i) {
  Tensor zero = c.has(i + 1) ? reshape(c.in(i + 1), {}) : Tensor();
  c.set(0, quantized(op("div.Tensor", x, reshape(c.in(i), {})), zero, zero.defined() ? zero.dtype() : DType::U8));
}

template <OpName name>
void qlinear_binary(OpCall& c) {
  set_quantized(c, op(name.text, real_input(c, 0), real_input(c, 3)), 6);
}

void qlinear_sigmoid(OpCall& c) { set_quantized(c, op("sigmoid", real_input(c, 0)), 3); }
void qlinear_leaky_relu(OpCall& c) { set_quantized(c, op("leaky_relu", real_input(c, 0), c.real("alpha", 0.01)), 3); }

void qlinear_global_average(OpCall& c) {
  Tensor x = real_input(c, 0);
  bool last = c.integer("channels_last", 0) != 0;
  set_quantized(c, op("mean.dim", x, last ? range(1, rank_of(x) - 1) : range(2, rank_of(x)), true), 3);
}

void qlinear_concat(OpCall& c) {
  std::vector<Tensor> parts;
  for (size_t i = 2; i + 1 < c.count(); i += 3) parts.push_back(real_input(c, i));
  TOROID_USER_CHECK(!parts.empty(), "there is nothing to join");
  set_quantized(c, op("cat", parts, normal_axis(c.integer("axis"), rank_of(parts[0]))), 0);
}

// A product of whole numbers in units of both scales, and a bias.
Tensor scaled_sums(const Tensor& sums, const Tensor& scale_a, const Tensor& scale_b, const Tensor& bias) {
  Tensor out = op("mul.Tensor", cast(sums, DType::F32), op("mul.Tensor", scale_a, scale_b));
  return bias.defined() ? op("add.Tensor", out, bias) : out;
}

// Whole numbers, with a bias in units of both scales. A number of columns may have scales of their own.
void qgemm(OpCall& c) {
  Tensor a = c.in(0), b = c.in(3);
  if (c.integer("transA", 0)) a = permuted(a, {1, 0});
  if (c.integer("transB", 0)) b = permuted(b, {1, 0});
  Tensor sums = whole_product(c, a, c.in(2), b, c.in(5));
  if (c.has(6)) sums = op("add.Tensor", sums, c.in(6));
  Tensor scale = op("mul.Tensor", op("mul.Tensor", c.in(1), c.in(4)), c.real("alpha", 1));
  Tensor out = op("mul.Tensor", cast(sums, DType::F32), scale);
  if (c.has(7)) return set_quantized(c, out, 7);
  c.set(0, out);
}

void matmul_integer_to_float(OpCall& c) {
  c.set(0, scaled_sums(whole_product(c, c.in(0), c.opt(4), c.in(1), c.opt(5)), c.in(2), c.in(3), c.opt(6)));
}

void dynamic_quantize_matmul(OpCall& c) {
  Quantized q = by_range(c.in(0));
  c.set(0, scaled_sums(whole_product(c, q.values, q.zero, c.in(1), c.opt(3)), q.scale, c.in(2), c.opt(4)));
}

}  // namespace

void add_quantization_operators(Operators& t) {
  constexpr std::string_view kMicrosoft = "com.microsoft";
  t.add(kMicrosoft, "QuantizeLinear", 1, quantize);
  t.add(kMicrosoft, "DequantizeLinear", 1, dequantize);
  t.add(kMicrosoft, "QGemm", 1, qgemm);
  t.add(kMicrosoft, "QLinearAdd", 1, qlinear_binary<"add.Tensor">);
  t.add(kMicrosoft, "QLinearMul", 1, qlinear_binary<"mul.Tensor">);
  t.add(kMicrosoft, "QLinearSigmoid", 1, qlinear_sigmoid);
  t.add(kMicrosoft, "QLinearLeakyRelu", 1, qlinear_leaky_relu);
  t.add(kMicrosoft, "QLinearGlobalAveragePool", 1, qlinear_global_average);
  t.add(kMicrosoft, "QLinearConcat", 1, qlinear_concat);
  t.add(kMicrosoft, "MatMulIntegerToFloat", 1, matmul_integer_to_float);
  t.add(kMicrosoft, "DynamicQuantizeMatMul", 1, dynamic_quantize_matmul);
  t.add("QuantizeLinear", 10, quantize);
  t.add("DequantizeLinear", 10, dequantize);
  t.add("DynamicQuantizeLinear", 11, dynamic_quantize);
  t.add("MatMulInteger", 10, matmul_integer);
  t.add("QLinearMatMul", 10, qlinear_matmul);
  t.add("QLinearConv", 10, qlinear_conv);
  t.add("ConvInteger", 10, conv_integer);
}

}  // namespace toroid::import::onnx
