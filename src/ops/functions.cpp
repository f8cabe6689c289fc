// User-facing functions: element by element, reductions, in place. Each fills in the arguments of a row of the op table.
#include "base/check.h"
#include "ops/call_place.h"
#include "ops/function_arguments.h"

namespace toroid {

using ops::call1;
using namespace ops::arguments;

namespace {

// The row is looked up once.
#define TOROID_ROW(name) \
  []() -> const ops::Op& { \
    static const ops::Op& row = ops::get(name); \
    return row; \
  }()

Tensor one(const ops::Op& op, CallArgs args, const std::source_location& where) { return ops::call(op, std::move(args), where).at(0); }

Tensor binary(const ops::Op& op, const Operand& a, const Operand& b) {
  TOROID_USER_CHECK(a.is_tensor() || b.is_tensor(), "{}: both operands are numbers; one must be a tensor (called at {})", op.name,
                    ops::place_text(a.where()));
  return one(op, {argument(a), argument(b)}, a.where());
}
// Operations whose operands may change places: the tensor comes first.
Tensor symmetric(const ops::Op& op, const Operand& a, const Operand& b) { return a.is_tensor() ? binary(op, a, b) : binary(op, b, a); }
Tensor compare(const ops::Op& op, const ops::Op& mirrored, const Operand& a, const Operand& b) {
  return a.is_tensor() ? binary(op, a, b) : binary(mirrored, b, a);
}
Tensor in_place(const ops::Op& op, const Tensor& x, const Operand& other) { return one(op, {x, argument(other)}, other.where()); }

// A reduction that has a form for all dimensions and one for a list.
Tensor reduce(const ops::Op& all, const ops::Op& some, const Tensor& x, const Dims& dims, bool keepdim, const Where& where) {
  if (dims.values().empty() && !keepdim) return one(all, {x}, where);
  return one(some, {x, every_if_empty(x, dims), keepdim}, where);
}

const Tensor& tensor_of(const Operand& a, const char* what) {
  TOROID_USER_CHECK(a.is_tensor(), "{}: the operand must be a tensor (called at {})", what, ops::place_text(a.where()));
  return std::get<Tensor>(a.value());
}

// Graphs may have such a difference; PyTorch's calls have not.
void refuse_truths(const Operand& a, const Operand& b) {
  for (const Operand* o : {&a, &b})
    if (auto* t = std::get_if<Tensor>(&o->value()); t && t->defined())
      TOROID_USER_CHECK(!is_bool(t->dtype()),
                        "sub: there is no difference of truths; use logical_xor(), logical_not() for 1 - x, or to() numbers (called at {})",
                        ops::place_text(b.where()));
}

bool is_one(const Operand& o) {
  if (auto* d = std::get_if<double>(&o.value())) return *d == 1;
  auto* s = std::get_if<SymInt>(&o.value());
  return s && s->expr() == Expr(1);
}

// o beside x, where its row reads numbers when it is written down: an open size as a tensor, which has x's integer type as a number would.
Operand with_elements(const Operand& o, const Operand& x) {
  const Tensor* t = std::get_if<Tensor>(&x.value());
  if (!t || !t->defined() || o.is_tensor() || !is_open(o)) return o;
  const DType dtype = is_int(t->dtype()) ? t->dtype() : DType::I64;
  const DeviceScope there(t->device());
  return Operand(call1("full", {std::vector<Expr>{}, number("full", "fill_value", o), dtype}, o.where()), o.where());
}

// A limit that is a tensor, or an open size, makes both operands.
Tensor clamped(const ops::Op& by_numbers, const ops::Op& by_tensors, const Tensor& x, const std::optional<Operand>& min,
               const std::optional<Operand>& max, const Where& where) {
  const bool tensors = (min && is_open(*min)) || (max && is_open(*max));
  const auto limit = [&](const std::optional<Operand>& o, const char* name) -> Arg<Tensor> {
    if (!o) return std::monostate{};
    if (!tensors) return number_for(x, "clamp", name, *o);
    return o->is_tensor() ? argument(*o) : elements_of(x, *o, "clamp", where);
  };
  return one(tensors ? by_tensors : by_numbers, {x, limit(min, "min"), limit(max, "max")}, where);
}

}  // namespace

Tensor operator+(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("add.Tensor"), a, b); }
Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
Tensor operator*(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("mul.Tensor"), a, b); }
Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
Tensor operator%(const Operand& a, const Operand& b) { return remainder(a, b); }
Tensor operator-(const Operand& a) { return neg(tensor_of(a, "neg"), a.where()); }
Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }
Tensor operator==(const Operand& a, const Operand& b) { return eq(a, b); }
Tensor operator!=(const Operand& a, const Operand& b) { return ne(a, b); }
Tensor operator&(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("bitwise_and.Tensor"), a, b); }
Tensor operator|(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("bitwise_or.Tensor"), a, b); }
Tensor operator^(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("bitwise_xor.Tensor"), a, b); }
Tensor operator<<(const Operand& a, const Operand& b) { return bitwise_left_shift(a, b); }
Tensor operator>>(const Operand& a, const Operand& b) { return bitwise_right_shift(a, b); }
Tensor operator~(const Operand& a) { return bitwise_not(tensor_of(a, "bitwise_not"), a.where()); }
Tensor& operator+=(Tensor& a, const Operand& b) { return add_(a, b), a; }
Tensor& operator-=(Tensor& a, const Operand& b) { return sub_(a, b), a; }
Tensor& operator*=(Tensor& a, const Operand& b) { return mul_(a, b), a; }
Tensor& operator/=(Tensor& a, const Operand& b) { return div_(a, b), a; }

Tensor add(const Operand& a, const Operand& b, const Operand& alpha) {
  if (is_one(alpha)) return a + b;
  return one(TOROID_ROW("add.Tensor"), {argument(a), argument(b), factor("add", "alpha", alpha)}, a.where());
}
Tensor sub(const Operand& a, const Operand& b, const Operand& alpha) {
  TOROID_USER_CHECK(a.is_tensor() || b.is_tensor(), "sub: both operands are numbers; one must be a tensor (called at {})",
                    ops::place_text(a.where()));
  refuse_truths(a, b);
  const bool plain = is_one(alpha);
  if (!a.is_tensor() && plain) return one(TOROID_ROW("rsub.Scalar"), {argument(b), argument(a)}, a.where());
  if (plain) return binary(TOROID_ROW("sub.Tensor"), a, b);
  return one(TOROID_ROW("sub.Tensor"), {argument(a), argument(b), factor("sub", "alpha", alpha)}, a.where());
}
Tensor mul(const Operand& a, const Operand& b) { return a * b; }
Tensor div(const Operand& a, const Operand& b) { return binary(TOROID_ROW("div.Tensor"), a, b); }
Tensor floor_divide(const Operand& a, const Operand& b) { return binary(TOROID_ROW("floor_divide"), a, b); }
Tensor remainder(const Operand& a, const Operand& b) {
  const Operand first = with_elements(a, b);
  return first.is_tensor() ? binary(TOROID_ROW("remainder.Tensor"), first, b) : binary(TOROID_ROW("remainder.Scalar_Tensor"), first, b);
}
Tensor pow(const Operand& by, const Operand& to) {
  const Operand base = with_elements(by, to), exponent = with_elements(to, by);
  if (!base.is_tensor()) return binary(TOROID_ROW("pow.Scalar"), base, exponent);
  if (!exponent.is_tensor()) return binary(TOROID_ROW("pow.Tensor_Scalar"), base, exponent);
  return binary(TOROID_ROW("pow.Tensor_Tensor"), base, exponent);
}
Tensor maximum(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("maximum"), a, b); }
Tensor minimum(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("minimum"), a, b); }
Tensor atan2(const Operand& a, const Operand& b) { return binary(TOROID_ROW("atan2"), a, b); }
Tensor eq(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("eq.Tensor"), a, b); }
Tensor ne(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("ne.Tensor"), a, b); }
Tensor lt(const Operand& a, const Operand& b) { return compare(TOROID_ROW("lt.Tensor"), TOROID_ROW("gt.Tensor"), a, b); }
Tensor le(const Operand& a, const Operand& b) { return compare(TOROID_ROW("le.Tensor"), TOROID_ROW("ge.Tensor"), a, b); }
Tensor gt(const Operand& a, const Operand& b) { return compare(TOROID_ROW("gt.Tensor"), TOROID_ROW("lt.Tensor"), a, b); }
Tensor ge(const Operand& a, const Operand& b) { return compare(TOROID_ROW("ge.Tensor"), TOROID_ROW("le.Tensor"), a, b); }
Tensor logical_and(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("logical_and"), a, b); }
Tensor logical_or(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("logical_or"), a, b); }
Tensor logical_xor(const Operand& a, const Operand& b) { return symmetric(TOROID_ROW("logical_xor"), a, b); }
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value, Where where) {
  return one(TOROID_ROW("addcmul"), {x, a, b, number_for(x, "addcmul", "value", value)}, where);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value, Where where) {
  return one(TOROID_ROW("addcdiv"), {x, a, b, number_for(x, "addcdiv", "value", value)}, where);
}
Tensor lerp(const Tensor& start, const Tensor& end, const Operand& weight) {
  const bool is_tensor = weight.is_tensor() || is_open(weight);
  const ops::Op& op = is_tensor ? TOROID_ROW("lerp.Tensor") : TOROID_ROW("lerp.Scalar");
  return one(op, {start, end, is_tensor ? Arg<Tensor>(elements_of(start, weight, "lerp", weight.where())) : argument(weight)},
             weight.where());
}

// name(x) -> row "name".
#define TOROID_UNARY(name) \
  Tensor name(const Tensor& x, Where where) { return one(TOROID_ROW(#name), {x}, where); }
TOROID_UNARY(neg)
TOROID_UNARY(abs)
TOROID_UNARY(sign)
TOROID_UNARY(exp)
TOROID_UNARY(exp2)
TOROID_UNARY(expm1)
TOROID_UNARY(log)
TOROID_UNARY(log2)
TOROID_UNARY(log10)
TOROID_UNARY(log1p)
TOROID_UNARY(sqrt)
TOROID_UNARY(rsqrt)
TOROID_UNARY(square)
TOROID_UNARY(reciprocal)
TOROID_UNARY(sin)
TOROID_UNARY(cos)
TOROID_UNARY(tan)
TOROID_UNARY(asin)
TOROID_UNARY(acos)
TOROID_UNARY(atan)
TOROID_UNARY(sinh)
TOROID_UNARY(cosh)
TOROID_UNARY(tanh)
TOROID_UNARY(erf)
TOROID_UNARY(erfc)
TOROID_UNARY(lgamma)
TOROID_UNARY(floor)
TOROID_UNARY(ceil)
TOROID_UNARY(trunc)
TOROID_UNARY(round)
TOROID_UNARY(isnan)
TOROID_UNARY(isinf)
TOROID_UNARY(isfinite)
TOROID_UNARY(logical_not)
TOROID_UNARY(bitwise_not)
TOROID_UNARY(relu)
TOROID_UNARY(relu6)
TOROID_UNARY(selu)
TOROID_UNARY(silu)
TOROID_UNARY(mish)
TOROID_UNARY(sigmoid)
TOROID_UNARY(log_sigmoid)
TOROID_UNARY(hardswish)
TOROID_UNARY(hardsigmoid)
TOROID_UNARY(relu_)
TOROID_UNARY(exp_)
TOROID_UNARY(sqrt_)
TOROID_UNARY(sigmoid_)
TOROID_UNARY(tanh_)
TOROID_UNARY(zero_)

Tensor leaky_relu(const Tensor& x, const Operand& negative_slope, Where where) {
  return one(TOROID_ROW("leaky_relu"), {x, number_for(x, "leaky_relu", "negative_slope", negative_slope)}, where);
}
Tensor elu(const Tensor& x, const Operand& alpha, Where where) {
  return one(TOROID_ROW("elu"), {x, number_for(x, "elu", "alpha", alpha)}, where);
}
Tensor gelu(const Tensor& x, Word word, Where where) {
  const std::string_view approximate = word;
  TOROID_USER_CHECK(approximate == "none" || approximate == "tanh",
                    "gelu: approximate is \"{}\"; it must be \"none\" or \"tanh\" (called at {})", approximate, ops::place_text(where));
  return one(TOROID_ROW("gelu"), {x, std::string(approximate)}, where);
}
Tensor softplus(const Tensor& x, const Operand& beta, const Operand& threshold, Where where) {
  return one(TOROID_ROW("softplus"), {x, number_for(x, "softplus", "beta", beta), number_for(x, "softplus", "threshold", threshold)},
             where);
}
Tensor hardtanh(const Tensor& x, const Operand& min, const Operand& max, Where where) {
  return one(TOROID_ROW("hardtanh"), {x, number_for(x, "hardtanh", "min", min), number_for(x, "hardtanh", "max", max)}, where);
}
Tensor softmax(const Tensor& x, int64_t dim, Where where) { return one(TOROID_ROW("softmax.int"), {x, Expr(dim)}, where); }
Tensor log_softmax(const Tensor& x, int64_t dim, Where where) { return one(TOROID_ROW("log_softmax.int"), {x, Expr(dim)}, where); }
Tensor glu(const Tensor& x, int64_t dim, Where where) { return one(TOROID_ROW("glu"), {x, Expr(dim)}, where); }
Tensor dropout(const Tensor& x, double p, bool train, Where where) { return one(TOROID_ROW("dropout"), {x, p, train}, where); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  const ops::Op& op = a.is_tensor() ? (b.is_tensor() ? TOROID_ROW("where.self") : TOROID_ROW("where.ScalarOther"))
                                    : (b.is_tensor() ? TOROID_ROW("where.ScalarSelf") : TOROID_ROW("where.Scalar"));
  return one(op, {condition, argument(a), argument(b)}, a.where());
}
Tensor clamp(const Tensor& x, const std::optional<Operand>& min, const std::optional<Operand>& max, Where where) {
  return clamped(TOROID_ROW("clamp"), TOROID_ROW("clamp.Tensor"), x, min, max, where);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Operand& value, Where where) {
  if (is_open(value)) return one(TOROID_ROW("masked_fill.Tensor"), {x, mask, argument(value)}, where);
  return one(TOROID_ROW("masked_fill.Scalar"), {x, mask, number_for(x, "masked_fill", "value", value)}, where);
}
Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> posinf, std::optional<double> neginf, Where where) {
  return one(TOROID_ROW("nan_to_num"), {x, optional(nan), optional(posinf), optional(neginf)}, where);
}

Tensor sum(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Where where) {
  if (dtype) return one(TOROID_ROW("sum.dim_IntList"), {x, every_if_empty(x, dims), keepdim, *dtype}, where);
  return reduce(TOROID_ROW("sum"), TOROID_ROW("sum.dim_IntList"), x, dims, keepdim, where);
}
Tensor mean(const Tensor& x, const Dims& dims, bool keepdim, std::optional<DType> dtype, Where where) {
  if (dtype) return one(TOROID_ROW("mean.dim"), {x, every_if_empty(x, dims), keepdim, *dtype}, where);
  return reduce(TOROID_ROW("mean"), TOROID_ROW("mean.dim"), x, dims, keepdim, where);
}
Tensor any(const Tensor& x, const Dims& dims, bool keepdim, Where where) {
  return reduce(TOROID_ROW("any"), TOROID_ROW("any.dims"), x, dims, keepdim, where);
}
Tensor all(const Tensor& x, const Dims& dims, bool keepdim, Where where) {
  return reduce(TOROID_ROW("all"), TOROID_ROW("all.dims"), x, dims, keepdim, where);
}
bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol, bool equal_nan, Where where) {
  return all(isclose(a, b, rtol, atol, equal_nan, where), {}, false, where).item<bool>(where);
}
Tensor amax(const Tensor& x, const Dims& dims, bool keepdim, Where where) {
  return one(TOROID_ROW("amax"), {x, numbers(dims), keepdim}, where);
}
Tensor amin(const Tensor& x, const Dims& dims, bool keepdim, Where where) {
  return one(TOROID_ROW("amin"), {x, numbers(dims), keepdim}, where);
}
Tensor var(const Tensor& x, const Dims& dims, double correction, bool keepdim, Where where) {
  return one(TOROID_ROW("var.correction"), {x, every_if_empty(x, dims), correction, keepdim}, where);
}
Tensor std_dev(const Tensor& x, const Dims& dims, double correction, bool keepdim, Where where) {
  return one(TOROID_ROW("std.correction"), {x, every_if_empty(x, dims), correction, keepdim}, where);
}
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Dims& dims, double correction, bool keepdim, Where where) {
  return two(TOROID_ROW("var_mean.correction"), {x, every_if_empty(x, dims), correction, keepdim}, where);
}
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Dims& dims, double correction, bool keepdim, Where where) {
  return two(TOROID_ROW("std_mean.correction"), {x, every_if_empty(x, dims), correction, keepdim}, where);
}
std::tuple<Tensor, Tensor, Tensor> unique(const Tensor& x, Where where) {
  return three(TOROID_ROW("_unique2"), {x, true, true, true}, where);
}
Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim, Where where) {
  return one(TOROID_ROW("logsumexp"), {x, every_if_empty(x, dims), keepdim}, where);
}
Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim, Where where) {
  return one(TOROID_ROW("linalg_vector_norm"), {x, p, every_if_empty(x, dims), keepdim}, where);
}
Tensor prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Where where) {
  return dim ? one(TOROID_ROW("prod.dim_int"), {x, Expr(*dim), keepdim}, where) : one(TOROID_ROW("prod"), {x}, where);
}
Tensor argmax(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Where where) {
  return one(TOROID_ROW("argmax"), {x, optional(dim), keepdim}, where);
}
Tensor argmin(const Tensor& x, std::optional<int64_t> dim, bool keepdim, Where where) {
  return one(TOROID_ROW("argmin"), {x, optional(dim), keepdim}, where);
}
Tensor max(const Tensor& x, Where where) { return one(TOROID_ROW("max"), {x}, where); }
Tensor min(const Tensor& x, Where where) { return one(TOROID_ROW("min"), {x}, where); }
std::pair<Tensor, Tensor> max(const Tensor& x, int64_t dim, bool keepdim, Where where) {
  return two(TOROID_ROW("max.dim"), {x, Expr(dim), keepdim}, where);
}
std::pair<Tensor, Tensor> min(const Tensor& x, int64_t dim, bool keepdim, Where where) {
  return two(TOROID_ROW("min.dim"), {x, Expr(dim), keepdim}, where);
}
Tensor cumsum(const Tensor& x, int64_t dim, Where where) { return one(TOROID_ROW("cumsum"), {x, Expr(dim)}, where); }
Tensor cumprod(const Tensor& x, int64_t dim, Where where) { return one(TOROID_ROW("cumprod"), {x, Expr(dim)}, where); }
std::pair<Tensor, Tensor> sort(const Tensor& x, int64_t dim, bool descending, Where where) {
  return two(TOROID_ROW("sort"), {x, Expr(dim), descending}, where);
}
Tensor argsort(const Tensor& x, int64_t dim, bool descending, Where where) {
  return one(TOROID_ROW("argsort"), {x, Expr(dim), descending}, where);
}
std::pair<Tensor, Tensor> topk(const Tensor& x, const SymInt& k, int64_t dim, bool largest, Where where) {
  return two(TOROID_ROW("topk"), {x, k.expr(), Expr(dim), largest}, where);
}

Tensor add_(const Tensor& x, const Operand& other, const Operand& alpha) {
  return one(TOROID_ROW("add_.Tensor"), {x, argument(other), factor("add_", "alpha", alpha)}, other.where());
}
Tensor sub_(const Tensor& x, const Operand& other, const Operand& alpha) {
  refuse_truths(x, other);
  return one(TOROID_ROW("sub_.Tensor"), {x, argument(other), factor("sub_", "alpha", alpha)}, other.where());
}
Tensor mul_(const Tensor& x, const Operand& other) { return in_place(TOROID_ROW("mul_.Tensor"), x, other); }
Tensor div_(const Tensor& x, const Operand& other) { return in_place(TOROID_ROW("div_.Tensor"), x, other); }
Tensor addcmul_(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value, Where where) {
  return one(TOROID_ROW("addcmul_"), {x, a, b, number_for(x, "addcmul_", "value", value)}, where);
}
Tensor addcdiv_(const Tensor& x, const Tensor& a, const Tensor& b, const Operand& value, Where where) {
  return one(TOROID_ROW("addcdiv_"), {x, a, b, number_for(x, "addcdiv_", "value", value)}, where);
}
Tensor clamp_(const Tensor& x, const std::optional<Operand>& min, const std::optional<Operand>& max, Where where) {
  return clamped(TOROID_ROW("clamp_"), TOROID_ROW("clamp_.Tensor"), x, min, max, where);
}
Tensor copy_(const Tensor& x, const Tensor& source, Where where) { return one(TOROID_ROW("copy_"), {x, source}, where); }
Tensor fill_(const Tensor& x, const Operand& value, Where where) {
  if (is_open(value)) return one(TOROID_ROW("fill_.Tensor"), {x, argument(value)}, where);
  return one(TOROID_ROW("fill_.Scalar"), {x, number_for(x, "fill_", "value", value)}, where);
}
Tensor masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value, Where where) {
  if (is_open(value)) return one(TOROID_ROW("masked_fill_.Tensor"), {x, mask, argument(value)}, where);
  return one(TOROID_ROW("masked_fill_.Scalar"), {x, mask, number_for(x, "masked_fill_", "value", value)}, where);
}
Tensor index_put_(const Tensor& x, const std::vector<Tensor>& indices, const Operand& values, bool accumulate, Where where) {
  return one(TOROID_ROW("index_put_"), {x, indices, elements_of(x, values, "index_put_", where), accumulate}, where);
}
Tensor index_copy_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Where where) {
  return one(TOROID_ROW("index_copy_"), {x, Expr(dim), index, source}, where);
}
Tensor index_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, const Operand& alpha, Where where) {
  return one(TOROID_ROW("index_add_"), {x, Expr(dim), index, source, factor("index_add_", "alpha", alpha)}, where);
}
Tensor scatter_add_(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where) {
  return one(TOROID_ROW("scatter_add_"), {x, Expr(dim), index, src}, where);
}

}  // namespace toroid
