// Operations on tensors under their PyTorch names: here those whose C++ form is made by hand, in ops_table.h all others. On ordinary
// tensors they compute at once; inside of a function given to compile() they are recorded with the source line of the call. Wrong
// dtypes, sizes and dimensions are a UserError that names the operation.
#pragma once

#include <concepts>

#include "toroid/ops_arguments.h"
#include "toroid/ops_dims.h"
#include "toroid/ops_table.h"

namespace toroid {

// ---- operators; sizes broadcast ---------------------------------------------------------------------------------------------------
Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);  // true division: integers give f32
Tensor operator%(const Operand& a, const Operand& b);  // has the sign of b
Tensor operator-(const Operand& a);
Tensor operator<(const Operand& a, const Operand& b);  // comparisons give Bool
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator==(const Operand& a, const Operand& b);
Tensor operator!=(const Operand& a, const Operand& b);
Tensor operator&(const Operand& a, const Operand& b);  // Bool and integers, bit by bit
Tensor operator|(const Operand& a, const Operand& b);
Tensor operator^(const Operand& a, const Operand& b);
Tensor operator~(const Operand& a);
Tensor operator<<(const Operand& a, const Operand& b);  // integers by so many bits
Tensor operator>>(const Operand& a, const Operand& b);
// In place: a keeps its dtype and sizes.
Tensor& operator+=(Tensor& a, const Operand& b);
Tensor& operator-=(Tensor& a, const Operand& b);
Tensor& operator*=(Tensor& a, const Operand& b);
Tensor& operator/=(Tensor& a, const Operand& b);

// ---- arithmetic; sizes broadcast --------------------------------------------------------------------------------------------------
Tensor add(const Operand& a, const Operand& b, const Operand& alpha = 1);  // a + alpha * b
Tensor sub(const Operand& a, const Operand& b, const Operand& alpha = 1);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);
Tensor floor_divide(const Operand& a, const Operand& b);
Tensor remainder(const Operand& a, const Operand& b);
Tensor pow(const Operand& base, const Operand& exponent);
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
Tensor atan2(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
// x + value * a * b
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value = 1, Where where = Where::current());
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value = 1, Where where = Where::current());
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight);

// ---- one operand, element by element ----------------------------------------------------------------------------------------------
Tensor neg(const Tensor& x, Where where = Where::current());
Tensor abs(const Tensor& x, Where where = Where::current());
Tensor sign(const Tensor& x, Where where = Where::current());
Tensor exp(const Tensor& x, Where where = Where::current());
Tensor exp2(const Tensor& x, Where where = Where::current());
Tensor expm1(const Tensor& x, Where where = Where::current());
Tensor log(const Tensor& x, Where where = Where::current());
Tensor log2(const Tensor& x, Where where = Where::current());
Tensor log10(const Tensor& x, Where where = Where::current());
Tensor log1p(const Tensor& x, Where where = Where::current());
Tensor sqrt(const Tensor& x, Where where = Where::current());
Tensor rsqrt(const Tensor& x, Where where = Where::current());
Tensor square(const Tensor& x, Where where = Where::current());
Tensor reciprocal(const Tensor& x, Where where = Where::current());
Tensor sin(const Tensor& x, Where where = Where::current());
Tensor cos(const Tensor& x, Where where = Where::current());
Tensor tan(const Tensor& x, Where where = Where::current());
Tensor asin(const Tensor& x, Where where = Where::current());
Tensor acos(const Tensor& x, Where where = Where::current());
Tensor atan(const Tensor& x, Where where = Where::current());
Tensor sinh(const Tensor& x, Where where = Where::current());
Tensor cosh(const Tensor& x, Where where = Where::current());
Tensor tanh(const Tensor& x, Where where = Where::current());
Tensor erf(const Tensor& x, Where where = Where::current());
Tensor erfc(const Tensor& x, Where where = Where::current());
Tensor lgamma(const Tensor& x, Where where = Where::current());
Tensor floor(const Tensor& x, Where where = Where::current());
Tensor ceil(const Tensor& x, Where where = Where::current());
Tensor trunc(const Tensor& x, Where where = Where::current());
Tensor round(const Tensor& x, Where where = Where::current());  // halves to even
Tensor isnan(const Tensor& x, Where where = Where::current());
Tensor isinf(const Tensor& x, Where where = Where::current());
Tensor isfinite(const Tensor& x, Where where = Where::current());
Tensor logical_not(const Tensor& x, Where where = Where::current());
Tensor bitwise_not(const Tensor& x, Where where = Where::current());

// ---- activations ------------------------------------------------------------------------------------------------------------------
Tensor relu(const Tensor& x, Where where = Where::current());
Tensor relu6(const Tensor& x, Where where = Where::current());
Tensor leaky_relu(const Tensor& x, const Operand& negative_slope = 0.01, Where where = Where::current());
Tensor elu(const Tensor& x, const Operand& alpha = 1, Where where = Where::current());
Tensor selu(const Tensor& x, Where where = Where::current());
// approximate: "none" (by erf) or "tanh".
Tensor gelu(const Tensor& x, Word approximate = "none", Where where = Where::current());
Tensor silu(const Tensor& x, Where where = Where::current());
Tensor mish(const Tensor& x, Where where = Where::current());
Tensor sigmoid(const Tensor& x, Where where = Where::current());
Tensor log_sigmoid(const Tensor& x, Where where = Where::current());
Tensor softplus(const Tensor& x, const Operand& beta = 1, const Operand& threshold = 20, Where where = Where::current());
Tensor hardtanh(const Tensor& x, const Operand& min = -1, const Operand& max = 1, Where where = Where::current());
Tensor hardswish(const Tensor& x, Where where = Where::current());
Tensor hardsigmoid(const Tensor& x, Where where = Where::current());
Tensor softsign(const Tensor& x, Where where = Where::current());  // x / (1 + |x|)
Tensor softmax(const Tensor& x, int64_t dim, Where where = Where::current());
Tensor softmin(const Tensor& x, int64_t dim, Where where = Where::current());  // softmax(-x, dim)
Tensor log_softmax(const Tensor& x, int64_t dim, Where where = Where::current());
Tensor glu(const Tensor& x, int64_t dim = -1, Where where = Where::current());
Tensor dropout(const Tensor& x, double p, bool train, Where where = Where::current());

// ---- choosing and limiting --------------------------------------------------------------------------------------------------------
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
// Where the condition holds: an index for each dimension.
std::vector<Tensor> where(const Tensor& condition, Where where = Where::current());
// One of the limits may be left out. Floating limits of integers give f32; a limit beyond the dtype limits nothing.
Tensor clamp(const Tensor& x, const std::optional<Operand>& min, const std::optional<Operand>& max = std::nullopt,
             Where where = Where::current());
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, Where where = Where::current());
Tensor nan_to_num(const Tensor& x, std::optional<double> nan = std::nullopt, std::optional<double> posinf = std::nullopt,
                  std::optional<double> neginf = std::nullopt, Where where = Where::current());

// ---- matrix products --------------------------------------------------------------------------------------------------------------
// Vectors, matrices and batches of them, as numpy's matmul.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor mm(const Tensor& a, const Tensor& b, Where where = Where::current());   // [m, k] x [k, n]
Tensor bmm(const Tensor& a, const Tensor& b, Where where = Where::current());  // [b, m, k] x [b, k, n]
Tensor mv(const Tensor& a, const Tensor& v, Where where = Where::current());
Tensor dot(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor outer(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& beta = 1, const Operand& alpha = 1,
             Where where = Where::current());
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& beta = 1, const Operand& alpha = 1,
               Where where = Where::current());
// x [..., in] times the transpose of weight [out, in], plus bias [out] when it is defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Where where = Where::current());
Tensor linalg_pinv(const Tensor& x, Where where = Where::current());
Tensor einsum(Word equation, const std::vector<Tensor>& tensors, Where where = Where::current());

// ---- neural network layers --------------------------------------------------------------------------------------------------------
// Over the last dimensions, which must have the sizes normalized_shape; weight and bias may be undefined.
Tensor layer_norm(const Tensor& x, const SizeList& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                  Where where = Where::current());
Tensor rms_norm(const Tensor& x, const SizeList& normalized_shape, const Tensor& weight = {}, std::optional<double> eps = std::nullopt,
                Where where = Where::current());
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                  Where where = Where::current());
// x [n, channels, ...]. With training, the running statistics are updated in place.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                  bool training = false, double momentum = 0.1, double eps = 1e-5, Where where = Where::current());
// x [n, in, length], weight [out, in / groups, kernel].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = 1, const SizeList& padding = 0,
              const SizeList& dilation = 1, int64_t groups = 1, Where where = Where::current());
// x [n, in, height, width], weight [out, in / groups, kernel height, kernel width].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = 1, const SizeList& padding = 0,
              const SizeList& dilation = 1, int64_t groups = 1, Where where = Where::current());
// padding: "same" or "valid".
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation = 1,
              int64_t groups = 1, Where where = Where::current());
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation = 1,
              int64_t groups = 1, Where where = Where::current());
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const SizeList& stride = 1,
                        const SizeList& padding = 0, const SizeList& output_padding = 0, int64_t groups = 1, const SizeList& dilation = 1,
                        Where where = Where::current());
// stride {} means the kernel size.
Tensor max_pool2d(const Tensor& x, const SizeList& kernel, const SizeList& stride = std::vector<SymInt>{}, const SizeList& padding = 0,
                  const SizeList& dilation = 1, bool ceil_mode = false, Where where = Where::current());
Tensor avg_pool2d(const Tensor& x, const SizeList& kernel, const SizeList& stride = std::vector<SymInt>{}, const SizeList& padding = 0,
                  bool ceil_mode = false, bool count_include_pad = true, Where where = Where::current());
Tensor adaptive_avg_pool2d(const Tensor& x, const SizeList& output_size, Where where = Where::current());
// query [..., heads, m, k], key [..., heads, n, k], value [..., heads, n, v]; scale defaults to 1 / sqrt(k).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask = {},
                                    double dropout_p = 0, bool is_causal = false, std::optional<double> scale = std::nullopt,
                                    bool enable_gqa = false, Where where = Where::current());
// Rows of weight [entries, width] picked by integer indices.
Tensor embedding(const Tensor& weight, const Tensor& indices, Where where = Where::current());
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = "mean", Where where = Where::current());
Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction = "mean", Where where = Where::current());
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true, bool full = false, double eps = 1e-8,
                        Reduction reduction = "mean", Where where = Where::current());
// var: the variances, of the sizes of input, or one for each row.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full = false, double eps = 1e-6,
                         Reduction reduction = "mean", Where where = Where::current());
// reduction may also be "batchmean": the sum over the size of dimension 0.
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = "mean", bool log_target = false, Where where = Where::current());
// x over max(its norm along dim, eps).
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12, Where where = Where::current());

// ---- reductions; no dims means all of them ----------------------------------------------------------------------------------------
// dtype: what the elements are converted to before.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {}, Where where = Where::current());
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Where where = Where::current());
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Where where = Where::current());
Tensor var(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false, Where where = Where::current());
Tensor std_dev(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false, Where where = Where::current());
// The variance or deviation, and the mean.
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false,
                                   Where where = Where::current());
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Dims& dims = {}, double correction = 1, bool keepdim = false,
                                   Where where = Where::current());
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Where where = Where::current());
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false, Where where = Where::current());
// all(isclose(a, b, ...)), read as a value.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false,
              Where where = Where::current());
// Whether sizes and elements are equal, read as a value.
bool equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim = false, Where where = Where::current());
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false, Where where = Where::current());
Tensor prod(const Tensor& x, std::optional<int64_t> dim = std::nullopt, bool keepdim = false, Where where = Where::current());
// Position of the extremum along dim, or in the flattened tensor.
Tensor argmax(const Tensor& x, std::optional<int64_t> dim = std::nullopt, bool keepdim = false, Where where = Where::current());
Tensor argmin(const Tensor& x, std::optional<int64_t> dim = std::nullopt, bool keepdim = false, Where where = Where::current());
Tensor max(const Tensor& x, Where where = Where::current());
Tensor min(const Tensor& x, Where where = Where::current());
// Values and their positions.
std::pair<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keepdim = false, Where where = Where::current());
std::pair<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keepdim = false, Where where = Where::current());
Tensor cumsum(const Tensor& x, int64_t dim, Where where = Where::current());
Tensor cumprod(const Tensor& x, int64_t dim, Where where = Where::current());
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim = -1, bool descending = false, Where where = Where::current());
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false, Where where = Where::current());
// The different elements in ascending order, where each element of x is among them, and how often each occurs.
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, Where where = Where::current());
std::pair<Tensor, Tensor> topk(const Tensor& x, const SymInt& k, int64_t dim = -1, bool largest = true, Where where = Where::current());

// The spectra of windows around every hop_length-th element, as torch.stft: with center, x is padded by mode pad_mode first.
Tensor stft(const Tensor& x, const SymInt& n_fft, const std::optional<SymInt>& hop_length = {},
            const std::optional<SymInt>& win_length = {}, const Tensor& window = {}, bool center = true, Word pad_mode = "reflect",
            bool normalized = false, std::optional<bool> onesided = {}, std::optional<bool> return_complex = {},
            Where where = Where::current());

// ---- shapes; views where PyTorch makes views --------------------------------------------------------------------------------------
// One size may be -1.
Tensor reshape(const Tensor& x, const SizeList& sizes, Where where = Where::current());
Tensor view(const Tensor& x, const SizeList& sizes, Where where = Where::current());
Tensor flatten(const Tensor& x, int64_t start = 0, int64_t end = -1, Where where = Where::current());
Tensor unflatten(const Tensor& x, int64_t dim, const SizeList& sizes, Where where = Where::current());
Tensor transpose(const Tensor& x, int64_t a, int64_t b, Where where = Where::current());
Tensor t(const Tensor& x, Where where = Where::current());
Tensor permute(const Tensor& x, const Dims& dims, Where where = Where::current());
Tensor unsqueeze(const Tensor& x, int64_t dim, Where where = Where::current());
Tensor squeeze(const Tensor& x, const Dims& dims = {}, Where where = Where::current());
Tensor expand(const Tensor& x, const SizeList& sizes, Where where = Where::current());
Tensor repeat(const Tensor& x, const SizeList& repeats, Where where = Where::current());
// Each part along dim (or of the flattened x) as often as `repeats` says.
Tensor repeat_interleave(const Tensor& x, const SymInt& repeats, std::optional<int64_t> dim = {}, Where where = Where::current());
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim = {}, Where where = Where::current());
// The number i as often as repeats[i] says.
Tensor repeat_interleave(const Tensor& repeats, Where where = Where::current());
Tensor select(const Tensor& x, int64_t dim, const SymInt& index, Where where = Where::current());
Tensor slice(const Tensor& x, int64_t dim, std::optional<SymInt> start = std::nullopt, std::optional<SymInt> end = std::nullopt,
             int64_t step = 1, Where where = Where::current());
Tensor narrow(const Tensor& x, int64_t dim, const SymInt& start, const SymInt& length, Where where = Where::current());
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1, Where where = Where::current());
std::vector<Tensor> split(const Tensor& x, const SymInt& size, int64_t dim = 0, Where where = Where::current());
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim = 0, Where where = Where::current());
std::vector<Tensor> split_with_sizes(const Tensor& x, const SizeList& sizes, int64_t dim = 0, Where where = Where::current());
// Braces are sizes, also of one part.
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<SymInt> sizes, int64_t dim = 0, Where where = Where::current()) {
  return split_with_sizes(x, sizes, dim, where);
}
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0, Where where = Where::current());
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0, Where where = Where::current());
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = Where::current());
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = Where::current());
Tensor flip(const Tensor& x, const Dims& dims, Where where = Where::current());
Tensor roll(const Tensor& x, const SizeList& shifts, const Dims& dims = {}, Where where = Where::current());
Tensor tril(const Tensor& x, int64_t diagonal = 0, Where where = Where::current());
Tensor triu(const Tensor& x, int64_t diagonal = 0, Where where = Where::current());
// Widths from the last dimension backwards: {left, right, top, bottom, ...}. mode: "constant", "reflect", "replicate" or "circular".
Tensor pad(const Tensor& x, const SizeList& widths, Word mode = "constant", double value = 0, Where where = Where::current());
Tensor contiguous(const Tensor& x, Where where = Where::current());
Tensor clone(const Tensor& x, Where where = Where::current());
Tensor detach(const Tensor& x, Where where = Where::current());
// The tensor itself when it has the dtype, or is on the device, already.
Tensor to(const Tensor& x, DType dtype, Where where = Where::current());
Tensor to(const Tensor& x, const Device& device, Where where = Where::current());

// ---- indexing; undefined tensors among the indices stand for whole dimensions -----------------------------------------------------
Tensor index(const Tensor& x, const std::vector<Tensor>& indices, Where where = Where::current());
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where = Where::current());
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where = Where::current());
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = Where::current());
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = Where::current());
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate = false,
                 Where where = Where::current());
// Adds alpha * source.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Operand& alpha = 1,
                 Where where = Where::current());
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Where where = Where::current());
Tensor nonzero(const Tensor& x, Where where = Where::current());
// classes -1: one more than the largest element, which is read.
Tensor one_hot(const Tensor& x, int64_t classes = -1, Where where = Where::current());

// ---- new tensors; where no device and no tensor is given, on default_device() -----------------------------------------------------
// Numbers that an integer dtype has no room for are a UserError.
Tensor full(const SizeList& sizes, const Operand& value, DType dtype = DType::F32, std::optional<Device> device = {},
            Where where = Where::current());
Tensor zeros(const SizeList& sizes, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor ones(const SizeList& sizes, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor arange(const SymInt& end, DType dtype = DType::I64, std::optional<Device> device = {}, Where where = Where::current());
Tensor arange(const SymInt& start, const SymInt& end, const SymInt& step = 1, DType dtype = DType::I64, std::optional<Device> device = {},
              Where where = Where::current());
// Where one of the numbers is no integer.
template <class... N>
concept OneIsReal = (std::is_arithmetic_v<N> && ...) && (std::floating_point<N> || ...);
namespace detail {
Tensor arange_of_reals(double start, double end, double step, DType dtype, const std::optional<Device>& device, Where where);
}
template <std::floating_point F>
Tensor arange(F end, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current()) {
  return detail::arange_of_reals(0, static_cast<double>(end), 1, dtype, device, where);
}
template <class A, class B, class C = int>
requires OneIsReal<A, B, C> Tensor arange(A start, B end, C step = 1, DType dtype = DType::F32, std::optional<Device> device = {},
                                          Where where = Where::current()) {
  return detail::arange_of_reals(static_cast<double>(start), static_cast<double>(end), static_cast<double>(step), dtype, device, where);
}
Tensor eye(const SymInt& n, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor eye(const SymInt& n, const SymInt& m, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
// A 0-d tensor.
Tensor scalar_tensor(const Operand& value, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor empty_like(const Tensor& x, Where where = Where::current());
Tensor zeros_like(const Tensor& x, Where where = Where::current());
Tensor ones_like(const Tensor& x, Where where = Where::current());
Tensor full_like(const Tensor& x, const Operand& value, Where where = Where::current());
// Uniform in [0, 1), and normal with mean 0 and deviation 1.
Tensor rand(const SizeList& sizes, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor randn(const SizeList& sizes, DType dtype = DType::F32, std::optional<Device> device = {}, Where where = Where::current());
Tensor randint(int64_t low, int64_t high, const SizeList& sizes, DType dtype = DType::I64, std::optional<Device> device = {},
               Where where = Where::current());
Tensor rand_like(const Tensor& x, Where where = Where::current());
Tensor randn_like(const Tensor& x, Where where = Where::current());
Tensor bernoulli(const Tensor& p, Where where = Where::current());

// ---- in place: the first argument keeps its dtype and sizes, and is returned ------------------------------------------------------
Tensor add_(const Tensor& x, const Operand& other, const Operand& alpha = 1);
Tensor sub_(const Tensor& x, const Operand& other, const Operand& alpha = 1);
Tensor mul_(const Tensor& x, const Operand& other);
Tensor div_(const Tensor& x, const Operand& other);
Tensor addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value = 1, Where where = Where::current());
Tensor addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value = 1, Where where = Where::current());
Tensor relu_(const Tensor& x, Where where = Where::current());
Tensor exp_(const Tensor& x, Where where = Where::current());
Tensor sqrt_(const Tensor& x, Where where = Where::current());
Tensor sigmoid_(const Tensor& x, Where where = Where::current());
Tensor tanh_(const Tensor& x, Where where = Where::current());
Tensor clamp_(const Tensor& x, const std::optional<Operand>& min, const std::optional<Operand>& max = std::nullopt,
              Where where = Where::current());
Tensor copy_(const Tensor& x, const Tensor& source, Where where = Where::current());
Tensor fill_(const Tensor& x, const Operand& value, Where where = Where::current());
Tensor zero_(const Tensor& x, Where where = Where::current());
Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value, Where where = Where::current());
Tensor index_put_(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate = false,
                  Where where = Where::current());
Tensor index_copy_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Where where = Where::current());
Tensor index_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Operand& alpha = 1,
                  Where where = Where::current());
Tensor scatter_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = Where::current());

namespace detail {
// Makes operations outside of compiled functions run. Called once by whoever includes this header.
bool install_eager();
inline const bool kEagerInstalled = install_eager();
}  // namespace detail

}  // namespace toroid
