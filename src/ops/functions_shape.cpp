// User-facing functions: matrix products, layers, shapes, indexing, new tensors; and what all functions share.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "ops/call_place.h"
#include "ops/function_arguments.h"
#include "ops/rows/forms.h"

namespace toroid {
namespace ops::arguments {

Arg<Tensor> argument(const Operand& o) {
  if (auto* t = std::get_if<Tensor>(&o.value())) return *t;
  if (auto* s = std::get_if<SymInt>(&o.value())) {
    DeviceScope number(Device::cpu());
    return forms::operand(s->expr());
  }
  if (auto* b = std::get_if<bool>(&o.value())) return *b;
  return std::get<double>(o.value());
}
std::vector<Expr> exprs(const SizeList& sizes) {
  std::vector<Expr> out;
  for (auto& s : sizes.values()) out.push_back(s.expr());
  return out;
}
std::vector<Expr> numbers(const Dims& dims) { return {dims.values().begin(), dims.values().end()}; }
std::vector<Expr> every_if_empty(const Tensor& x, const Dims& dims) {
  std::vector<Expr> out = numbers(dims);
  if (out.empty())
    for (int64_t d = 0; d < x.dim(); ++d) out.push_back(d);
  return out;
}
Arg<Tensor> optional(std::optional<double> v) { return v ? Arg<Tensor>(*v) : std::monostate{}; }
Arg<Tensor> optional(std::optional<int64_t> v) { return v ? Arg<Tensor>(Expr(*v)) : std::monostate{}; }
Arg<Tensor> optional(std::optional<bool> v) { return v ? Arg<Tensor>(*v) : std::monostate{}; }
Arg<Tensor> optional(std::optional<DType> v) { return v ? Arg<Tensor>(*v) : std::monostate{}; }
Arg<Tensor> optional(std::optional<std::string_view> v) { return v ? Arg<Tensor>(std::string(*v)) : std::monostate{}; }
Arg<Tensor> optional(const std::optional<std::vector<double>>& v) { return v ? Arg<Tensor>(*v) : std::monostate{}; }
Arg<Tensor> optional(const std::optional<SymInt>& v) { return v ? Arg<Tensor>(v->expr()) : std::monostate{}; }
Arg<Tensor> optional(const std::optional<SizeList>& v) { return v ? Arg<Tensor>(exprs(*v)) : std::monostate{}; }
Arg<Tensor> dims_or_none(const Dims& dims) { return dims.values().empty() ? Arg<Tensor>() : numbers(dims); }
Arg<Tensor> number(std::string_view op, std::string_view parameter, const Operand& o) {
  TOROID_USER_CHECK(!o.is_tensor(), "{}: argument \"{}\" is a tensor; it must be a number (called at {})", op, parameter,
                    place_text(o.where()));
  if (auto* s = std::get_if<SymInt>(&o.value())) return s->expr();
  if (auto* b = std::get_if<bool>(&o.value())) return *b;
  return std::get<double>(o.value());
}
Arg<Tensor> number(std::string_view op, std::string_view parameter, const std::optional<Operand>& o) {
  return o ? number(op, parameter, *o) : std::monostate{};
}
Arg<Tensor> number_for(DType dtype, std::string_view op, std::string_view parameter, const Operand& o) {
  const bool real = is_float(dtype) || is_complex(dtype);
  if (auto* s = std::get_if<SymInt>(&o.value())) {
    const int64_t fixed = *s;
    return real ? Arg<Tensor>(static_cast<double>(fixed)) : Expr(fixed);
  }
  return number(op, parameter, o);
}
Arg<Tensor> number_for(const Tensor& x, std::string_view op, std::string_view parameter, const Operand& o) {
  return number_for(x.dtype(), op, parameter, o);
}
Arg<Tensor> factor(std::string_view op, std::string_view parameter, const Operand& o) {
  if (auto* d = std::get_if<double>(&o.value())) return whole(*d);
  return number_for(DType::I64, op, parameter, o);
}
bool is_open(const Operand& o) {
  auto* s = std::get_if<SymInt>(&o.value());
  return o.is_tensor() || (s && !s->expr().is_const());
}
void need_tensor(std::string_view op, const Operand& a, const Operand& b) {
  TOROID_USER_CHECK(a.is_tensor() || b.is_tensor(), "{}: both operands are numbers; one must be a tensor (called at {})", op,
                    place_text(a.where()));
}
Arg<Tensor> whole(double v) { return std::nearbyint(v) == v && std::abs(v) < 1e15 ? Arg<Tensor>(Expr(static_cast<int64_t>(v))) : v; }
Tensor elements_of(const Tensor& x, const Operand& o, std::string_view op, const std::source_location& where) {
  if (o.is_tensor()) return std::get<Tensor>(o.value());
  DeviceScope scope(x.device());
  return call1("full", {std::vector<Expr>{}, is_open(o) ? number(op, "value", o) : number_for(x, op, "value", o), x.dtype()}, where);
}
std::pair<Tensor, Tensor> two(const Op& op, CallArgs args, const std::source_location& where) {
  auto results = call(op, std::move(args), where);
  return {results.at(0), results.at(1)};
}
std::tuple<Tensor, Tensor, Tensor> three(const Op& op, CallArgs args, const std::source_location& where) {
  auto results = call(op, std::move(args), where);
  return {results.at(0), results.at(1), results.at(2)};
}

}  // namespace ops::arguments

int64_t Reduction::number(std::string_view op, const Where& where) const {
  static constexpr std::string_view kNames[] = {"none", "mean", "sum"};
  if (name_.empty()) {
    TOROID_USER_CHECK(number_ >= 0 && number_ < 3,
                      "{}: reduction is {}; it must be \"none\" (0), \"mean\" (1) or \"sum\" (2) (called at {})", op, number_,
                      ops::place_text(where));
    return number_;
  }
  const auto at = std::find(std::begin(kNames), std::end(kNames), name_);
  TOROID_USER_CHECK(at != std::end(kNames), "{}: reduction is \"{}\"; it must be \"none\", \"mean\" or \"sum\" (called at {})", op, name_,
                    ops::place_text(where));
  return at - std::begin(kNames);
}

using ops::call;
using ops::call1;
using namespace ops::arguments;

namespace {

// The place of a loss in PyTorch's list of reductions.

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, Where where) { return call1("matmul", {a, b}, where); }
Tensor mm(const Tensor& a, const Tensor& b, Where where) { return call1("mm", {a, b}, where); }
Tensor bmm(const Tensor& a, const Tensor& b, Where where) { return call1("bmm", {a, b}, where); }
Tensor dot(const Tensor& a, const Tensor& b, Where where) { return call1("dot", {a, b}, where); }
Tensor outer(const Tensor& a, const Tensor& b, Where where) { return call1("outer", {a, b}, where); }
Tensor mv(const Tensor& a, const Tensor& v, Where where) { return call1("mv", {a, v}, where); }
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& beta, const Operand& alpha, Where where) {
  return call1("addmm", {x, a, b, factor("addmm", "beta", beta), factor("addmm", "alpha", alpha)}, where);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& beta, const Operand& alpha, Where where) {
  return call1("baddbmm", {x, a, b, factor("baddbmm", "beta", beta), factor("baddbmm", "alpha", alpha)}, where);
}
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  return call1("linear", {x, weight, maybe(bias)}, where);
}
Tensor einsum(Word equation, const std::vector<Tensor>& tensors, Where where) {
  return call1("einsum", {std::string(equation), tensors}, where);
}

Tensor layer_norm(const Tensor& x, const SizeList& normalized_shape, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  return call1("layer_norm", {x, exprs(normalized_shape), maybe(weight), maybe(bias), eps}, where);
}
Tensor rms_norm(const Tensor& x, const SizeList& normalized_shape, const Tensor& weight, std::optional<double> eps, Where where) {
  return call1("rms_norm", {x, exprs(normalized_shape), maybe(weight), optional(eps)}, where);
}
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps, Where where) {
  return call1("group_norm", {x, Expr(groups), maybe(weight), maybe(bias), eps}, where);
}
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                  bool training, double momentum, double eps, Where where) {
  return call1("batch_norm", {x, maybe(weight), maybe(bias), maybe(running_mean), maybe(running_var), training, momentum, eps, true},
               where);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding,
              const SizeList& dilation, int64_t groups, Where where) {
  return call1("conv1d", {x, weight, maybe(bias), exprs(stride), exprs(padding), exprs(dilation), Expr(groups)}, where);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding,
              const SizeList& dilation, int64_t groups, Where where) {
  return call1("conv2d", {x, weight, maybe(bias), exprs(stride), exprs(padding), exprs(dilation), Expr(groups)}, where);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation,
              int64_t groups, Where where) {
  return call1("conv1d.padding", {x, weight, maybe(bias), exprs(stride), std::string(padding), exprs(dilation), Expr(groups)}, where);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, Word padding, const SizeList& dilation,
              int64_t groups, Where where) {
  return call1("conv2d.padding", {x, weight, maybe(bias), exprs(stride), std::string(padding), exprs(dilation), Expr(groups)}, where);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const SizeList& stride, const SizeList& padding,
                        const SizeList& output_padding, int64_t groups, const SizeList& dilation, Where where) {
  return call1("conv_transpose2d.input",
               {x, weight, maybe(bias), exprs(stride), exprs(padding), exprs(output_padding), Expr(groups), exprs(dilation)}, where);
}
Tensor max_pool2d(const Tensor& x, const SizeList& kernel, const SizeList& stride, const SizeList& padding, const SizeList& dilation,
                  bool ceil_mode, Where where) {
  return call1("max_pool2d", {x, exprs(kernel), exprs(stride), exprs(padding), exprs(dilation), ceil_mode}, where);
}
Tensor avg_pool2d(const Tensor& x, const SizeList& kernel, const SizeList& stride, const SizeList& padding, bool ceil_mode,
                  bool count_include_pad, Where where) {
  return call1("avg_pool2d", {x, exprs(kernel), exprs(stride), exprs(padding), ceil_mode, count_include_pad}, where);
}
Tensor adaptive_avg_pool2d(const Tensor& x, const SizeList& output_size, Where where) {
  return call1("adaptive_avg_pool2d", {x, exprs(output_size)}, where);
}
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double dropout_p,
                                    bool is_causal, std::optional<double> scale, bool enable_gqa, Where where) {
  return call1("scaled_dot_product_attention", {query, key, value, maybe(mask), dropout_p, is_causal, optional(scale), enable_gqa}, where);
}
Tensor embedding(const Tensor& weight, const Tensor& indices, Where where) { return call1("embedding", {weight, indices}, where); }
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction, Where where) {
  return call1("mse_loss", {x, target, Expr(reduction.number("mse_loss", where))}, where);
}
Tensor cross_entropy(const Tensor& logits, const Tensor& target, Reduction reduction, Where where) {
  return call1("cross_entropy_loss", {logits, target, std::monostate{}, Expr(reduction.number("cross_entropy", where))}, where);
}
Tensor normalize(const Tensor& x, double p, int64_t dim, double eps, Where where) {
  return call1("div.Tensor", {x, clamp(norm(x, p, {dim}, true, where), eps, std::nullopt, where)}, where);
}

Tensor reshape(const Tensor& x, const SizeList& sizes, Where where) { return call1("reshape", {x, exprs(sizes)}, where); }
Tensor view(const Tensor& x, const SizeList& sizes, Where where) { return call1("view", {x, exprs(sizes)}, where); }
Tensor flatten(const Tensor& x, int64_t start, int64_t end, Where where) {
  return call1("flatten.using_ints", {x, Expr(start), Expr(end)}, where);
}
Tensor unflatten(const Tensor& x, int64_t dim, const SizeList& sizes, Where where) {
  return call1("unflatten.int", {x, Expr(dim), exprs(sizes)}, where);
}
Tensor transpose(const Tensor& x, int64_t a, int64_t b, Where where) { return call1("transpose.int", {x, Expr(a), Expr(b)}, where); }
Tensor t(const Tensor& x, Where where) { return call1("t", {x}, where); }
Tensor permute(const Tensor& x, const Dims& dims, Where where) { return call1("permute", {x, numbers(dims)}, where); }
Tensor unsqueeze(const Tensor& x, int64_t dim, Where where) { return call1("unsqueeze", {x, Expr(dim)}, where); }
Tensor squeeze(const Tensor& x, const Dims& dims, Where where) {
  return dims.values().empty() ? call1("squeeze", {x}, where) : call1("squeeze.dims", {x, numbers(dims)}, where);
}
Tensor expand(const Tensor& x, const SizeList& sizes, Where where) { return call1("expand", {x, exprs(sizes)}, where); }
Tensor repeat(const Tensor& x, const SizeList& repeats, Where where) { return call1("repeat", {x, exprs(repeats)}, where); }
Tensor repeat_interleave(const Tensor& repeats, Where where) { return call1("repeat_interleave.Tensor", {repeats}, where); }
Tensor repeat_interleave(const Tensor& x, const SymInt& repeats, std::optional<int64_t> dim, Where where) {
  return call1("repeat_interleave.self_int", {x, repeats.expr(), optional(dim)}, where);
}
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim, Where where) {
  return call1("repeat_interleave.self_Tensor", {x, repeats, optional(dim), std::monostate{}}, where);
}
Tensor select(const Tensor& x, int64_t dim, const SymInt& index, Where where) {
  return call1("select.int", {x, Expr(dim), index.expr()}, where);
}
Tensor slice(const Tensor& x, int64_t dim, std::optional<SymInt> start, std::optional<SymInt> end, int64_t step, Where where) {
  return call1("slice.Tensor", {x, Expr(dim), optional(start), optional(end), Expr(step)}, where);
}
Tensor narrow(const Tensor& x, int64_t dim, const SymInt& start, const SymInt& length, Where where) {
  return call1("narrow", {x, Expr(dim), start.expr(), length.expr()}, where);
}
Tensor diagonal(const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2, Where where) {
  return call1("diagonal", {x, Expr(offset), Expr(dim1), Expr(dim2)}, where);
}
std::vector<Tensor> split(const Tensor& x, const SymInt& size, int64_t dim, Where where) {
  return call("split.Tensor", {x, size.expr(), Expr(dim)}, where);
}
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim, Where where) {
  return split_with_sizes(x, sizes, dim, where);
}
std::vector<Tensor> split_with_sizes(const Tensor& x, const SizeList& sizes, int64_t dim, Where where) {
  return call("split_with_sizes", {x, exprs(sizes), Expr(dim)}, where);
}
std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim, Where where) {
  return call("chunk", {x, Expr(chunks), Expr(dim)}, where);
}
std::vector<Tensor> unbind(const Tensor& x, int64_t dim, Where where) { return call("unbind.int", {x, Expr(dim)}, where); }
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim, Where where) { return call1("cat", {tensors, Expr(dim)}, where); }
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim, Where where) { return call1("stack", {tensors, Expr(dim)}, where); }
Tensor flip(const Tensor& x, const Dims& dims, Where where) { return call1("flip", {x, numbers(dims)}, where); }
Tensor roll(const Tensor& x, const SizeList& shifts, const Dims& dims, Where where) {
  return call1("roll", {x, exprs(shifts), numbers(dims)}, where);
}
Tensor tril(const Tensor& x, int64_t diagonal, Where where) { return call1("tril", {x, Expr(diagonal)}, where); }
Tensor triu(const Tensor& x, int64_t diagonal, Where where) { return call1("triu", {x, Expr(diagonal)}, where); }
Tensor pad(const Tensor& x, const SizeList& widths, Word word, double value, Where where) {
  const std::string_view mode = word;
  return call1("pad", {x, exprs(widths), std::string(mode), mode == "constant" ? Arg<Tensor>(value) : std::monostate{}}, where);
}
Tensor contiguous(const Tensor& x, Where where) { return call1("contiguous", {x}, where); }
Tensor clone(const Tensor& x, Where where) { return call1("clone", {x}, where); }
Tensor detach(const Tensor& x, Where where) { return call1("detach", {x}, where); }
Tensor Tensor::to(DType dtype, Where where) const { return toroid::to(*this, dtype, where); }
Tensor Tensor::operator[](const detail::Position& i) const { return select(*this, 0, i.index, i.where); }
Tensor to(const Tensor& x, DType dtype, Where where) { return x.dtype() == dtype ? x : call1("_to_copy", {x, dtype}, where); }
Tensor to(const Tensor& x, const Device& device, Where where) { return x.to(device, where); }

Tensor index(const Tensor& x, const std::vector<Tensor>& indices, Where where) { return call1("index.Tensor", {x, indices}, where); }
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where) {
  return call1("index_select", {x, Expr(dim), index}, where);
}
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where) { return call1("gather", {x, Expr(dim), index}, where); }
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  return call1("scatter.src", {x, Expr(dim), index, src}, where);
}
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  return call1("scatter_add", {x, Expr(dim), index, src}, where);
}
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate, Where where) {
  return call1("index_put", {x, indices, elements_of(x, values, "index_put", where), accumulate}, where);
}
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Operand& alpha, Where where) {
  return call1("index_add", {x, Expr(dim), index, source, factor("index_add", "alpha", alpha)}, where);
}
Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Where where) {
  return call1("index_copy", {x, Expr(dim), index, source}, where);
}
Tensor nonzero(const Tensor& x, Where where) { return call1("nonzero", {x}, where); }
Tensor one_hot(const Tensor& x, int64_t classes, Where where) {
  if (classes == -1) {
    TOROID_USER_CHECK(x.numel() > 0, "one_hot: the number of classes must be given for a tensor without elements (called at {})",
                      ops::place_text(where));
    classes = max(x, where).item<int64_t>(where) + 1;
  }
  return call1("one_hot", {x, Expr(classes)}, where);
}

namespace {
// A row that makes a tensor of numbers alone.
Tensor make(std::string_view row, CallArgs args, const std::optional<Device>& device, Where where) {
  DeviceScope scope(device.value_or(default_device()));
  return call1(row, std::move(args), where);
}
}  // namespace

namespace {
// The number of a new tensor. Integers and truths may be given as doubles, and open sizes stay open among integers.
Arg<Tensor> fill_number(DType dtype, std::string_view op, const Operand& o) {
  if (auto* d = std::get_if<double>(&o.value()); d && (is_int(dtype) || is_bool(dtype)))
    return has_room(dtype, Number::of(*d)) ? whole(*d) : Arg<Tensor>(*d);
  if (!o.is_tensor() && is_open(o) && is_int(dtype)) return number(op, "value", o);
  return number_for(dtype, op, "value", o);
}
}  // namespace

Tensor full(const SizeList& sizes, const Operand& value, DType dtype, std::optional<Device> device, Where where) {
  return make("full", {exprs(sizes), fill_number(dtype, "full", value), dtype}, device, where);
}
Tensor zeros(const SizeList& sizes, DType dtype, std::optional<Device> device, Where where) {
  return make("zeros", {exprs(sizes), dtype}, device, where);
}
Tensor ones(const SizeList& sizes, DType dtype, std::optional<Device> device, Where where) {
  return make("ones", {exprs(sizes), dtype}, device, where);
}
Tensor arange(const SymInt& end, DType dtype, std::optional<Device> device, Where where) {
  return make("arange", {end.expr(), dtype}, device, where);
}
Tensor arange(const SymInt& start, const SymInt& end, const SymInt& step, DType dtype, std::optional<Device> device, Where where) {
  return make("arange.start_step", {start.expr(), end.expr(), step.expr(), dtype}, device, where);
}
Tensor detail::arange_of_reals(double start, double end, double step, DType dtype, const std::optional<Device>& device, Where where) {
  return make("arange.start_step", {start, end, step, dtype}, device, where);
}
Tensor eye(const SymInt& n, const SymInt& m, DType dtype, std::optional<Device> device, Where where) {
  return make("eye.m", {n.expr(), m.expr(), dtype}, device, where);
}
Tensor eye(const SymInt& n, DType dtype, std::optional<Device> device, Where where) {
  return make("eye", {n.expr(), dtype}, device, where);
}
Tensor scalar_tensor(const Operand& value, DType dtype, std::optional<Device> device, Where where) {
  return make("scalar_tensor", {fill_number(dtype, "scalar_tensor", value), dtype}, device, where);
}
Tensor empty_like(const Tensor& x, Where where) { return call1("empty_like", {x}, where); }
Tensor zeros_like(const Tensor& x, Where where) { return call1("zeros_like", {x}, where); }
Tensor ones_like(const Tensor& x, Where where) { return call1("ones_like", {x}, where); }
Tensor full_like(const Tensor& x, const Operand& value, Where where) {
  return call1("full_like", {x, fill_number(x.dtype(), "full_like", value)}, where);
}
Tensor rand(const SizeList& sizes, DType dtype, std::optional<Device> device, Where where) {
  return make("rand", {exprs(sizes), dtype}, device, where);
}
Tensor randn(const SizeList& sizes, DType dtype, std::optional<Device> device, Where where) {
  return make("randn", {exprs(sizes), dtype}, device, where);
}
Tensor randint(int64_t low, int64_t high, const SizeList& sizes, DType dtype, std::optional<Device> device, Where where) {
  return make("randint.low", {Expr(low), Expr(high), exprs(sizes), dtype}, device, where);
}
Tensor rand_like(const Tensor& x, Where where) { return call1("rand_like", {x}, where); }
Tensor randn_like(const Tensor& x, Where where) { return call1("randn_like", {x}, where); }
Tensor bernoulli(const Tensor& p, Where where) { return call1("bernoulli", {p}, where); }

}  // namespace toroid
