#include "ops/op.h"

#include "base/check.h"
#include "ops/open_number.h"

namespace toroid::ops {
namespace {

[[noreturn]] void wrong(const Op& op, std::string_view name, const char* expected) {
  fail<UserError>("{}: argument \"{}\" must be {}", op.name, name, expected);
}

[[noreturn]] void wrong_size(const Op& op, std::string_view name, const char* expected, const Expr& size) {
  throw OpenNumber(fmt::format("{}: argument \"{}\" must be {} known when compiling, not the size {}; make that static", op.name, name,
                               expected, sym::to_string(size)),
                   size);
}

bool is_none(const auto& a) { return std::holds_alternative<std::monostate>(a); }

std::optional<Number> as_number(const auto& a) {
  if (auto* e = std::get_if<Expr>(&a))
    if (auto c = e->maybe_constant()) return Number::of(*c);
  if (auto* d = std::get_if<double>(&a)) return Number::of(*d);
  if (auto* b = std::get_if<bool>(&a)) return Number::of(*b);
  return std::nullopt;
}

}  // namespace

std::string_view space_of(std::string_view name) {
  for (std::string_view space :
       {"prims.", "_c10d_functional.", "torchvision.", "quantized_decomposed.", "torch_nn.", "transformers.", "higher_order.", "grad."})
    if (name.starts_with(space)) return space;
  return "";
}

std::string_view plain_name(const Op& op) {
  const std::string_view name = std::string_view(op.name).substr(space_of(op.name).size());
  return name.substr(0, name.find('.'));
}

int second_operand(const Op& op) {
  const auto& p = op.schema.params;
  return p[1].type != ParamType::Tensor ? -1 : p[0].type == ParamType::Tensor ? 1 : 0;
}

template <class T>
const Arg<T>& ArgReader<T>::at(std::string_view name) const {
  int i = op_->schema.find(name);
  TOROID_CHECK(i >= 0 && static_cast<size_t>(i) < args_.size(), "{} has no parameter {}", op_->name, name);
  return args_[static_cast<size_t>(i)];
}

template <class T>
bool ArgReader<T>::is_number(std::string_view name) const {
  const auto& a = at(name);
  return std::holds_alternative<Expr>(a) || std::holds_alternative<double>(a) || std::holds_alternative<bool>(a) ||
         std::holds_alternative<std::complex<double>>(a);
}

template <class T>
T ArgReader<T>::tensor(std::string_view name) const {
  if (auto* t = std::get_if<T>(&at(name))) return *t;
  wrong(*op_, name, "a tensor");
}

template <class T>
T ArgReader<T>::opt_tensor(std::string_view name) const {
  return has(name) ? tensor(name) : T{};
}

template <class T>
std::vector<T> ArgReader<T>::tensors(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return {};
  if (auto* v = std::get_if<std::vector<T>>(&a)) return *v;
  if (auto* e = std::get_if<std::vector<Expr>>(&a); e && e->empty()) return {};
  wrong(*op_, name, "a list of tensors");
}

template <class T>
Expr ArgReader<T>::expr(std::string_view name) const {
  const auto& a = at(name);
  if (auto* e = std::get_if<Expr>(&a)) return *e;
  if (auto* b = std::get_if<bool>(&a)) return Expr(*b);
  if (auto* d = std::get_if<double>(&a); d && *d == static_cast<double>(static_cast<int64_t>(*d))) return Expr(static_cast<int64_t>(*d));
  wrong(*op_, name, "an integer");
}

template <class T>
std::optional<Expr> ArgReader<T>::opt_expr(std::string_view name) const {
  return has(name) ? std::optional<Expr>(expr(name)) : std::nullopt;
}

template <class T>
std::vector<Expr> ArgReader<T>::exprs(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return {};
  if (auto* v = std::get_if<std::vector<Expr>>(&a)) return *v;
  if (auto* e = std::get_if<Expr>(&a)) return {*e};
  wrong(*op_, name, "a list of integers");
}

template <class T>
int64_t ArgReader<T>::integer(std::string_view name) const {
  Expr e = expr(name);
  if (auto c = e.maybe_constant()) return *c;
  wrong_size(*op_, name, "an integer", e);
}

template <class T>
std::optional<int64_t> ArgReader<T>::opt_integer(std::string_view name) const {
  return has(name) ? std::optional<int64_t>(integer(name)) : std::nullopt;
}

template <class T>
std::vector<int64_t> ArgReader<T>::integers(std::string_view name) const {
  std::vector<int64_t> out;
  for (auto& e : exprs(name)) {
    if (!e.is_const()) wrong_size(*op_, name, "integers", e);
    out.push_back(e.constant());
  }
  return out;
}

template <class T>
double ArgReader<T>::real(std::string_view name) const {
  return number(name).as_double();
}

template <class T>
std::vector<double> ArgReader<T>::reals(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return {};
  if (auto* v = std::get_if<std::vector<double>>(&a)) return *v;
  if (auto* d = std::get_if<double>(&a)) return {*d};
  std::vector<double> out;
  for (int64_t i : integers(name)) out.push_back(static_cast<double>(i));
  return out;
}

template <class T>
Number ArgReader<T>::number(std::string_view name) const {
  if (auto n = as_number(at(name))) return *n;
  if (auto* e = std::get_if<Expr>(&at(name))) wrong_size(*op_, name, "a real number", *e);
  wrong(*op_, name, "a real number that is known when compiling");
}

template <class T>
std::optional<Number> ArgReader<T>::opt_number(std::string_view name) const {
  return has(name) ? std::optional<Number>(number(name)) : std::nullopt;
}

template <class T>
bool ArgReader<T>::flag(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return false;
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return e->constant() != 0;
  wrong(*op_, name, "true or false");
}

template <class T>
std::string ArgReader<T>::text(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return {};
  if (auto* s = std::get_if<std::string>(&a)) return *s;
  wrong(*op_, name, "a string");
}

template <class T>
std::optional<DType> ArgReader<T>::dtype(std::string_view name) const {
  const auto& a = at(name);
  if (is_none(a)) return std::nullopt;
  if (auto* d = std::get_if<DType>(&a)) return *d;
  wrong(*op_, name, "a dtype");
}

template class ArgReader<Tensor>;
template class ArgReader<const TensorType*>;

DType float_type(DType t) { return is_float(t) || is_complex(t) ? t : DType::F32; }
DType compute_type(DType t) { return is_half(t) ? DType::F32 : t; }

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) {
    bool wide = a == DType::C128 || b == DType::C128 || a == DType::F64 || b == DType::F64;
    return wide ? DType::C128 : DType::C64;
  }
  if (is_float(a) && is_float(b)) return size_of(a) != size_of(b) ? (size_of(a) > size_of(b) ? a : b) : DType::F32;
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (is_bool(a)) return b;
  if (is_bool(b)) return a;
  auto is_unsigned = [](DType t) { return t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64; };
  if (is_unsigned(a) == is_unsigned(b)) return size_of(a) > size_of(b) ? a : b;
  DType u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
  if (size_of(s) > size_of(u)) return s;
  return size_of(u) == 1 ? DType::I16 : size_of(u) == 2 ? DType::I32 : DType::I64;
}

namespace {

// Higher category wins: Bool < integer < float < complex.
int category(DType t) { return is_bool(t) ? 0 : is_int(t) ? 1 : is_float(t) ? 2 : 3; }

struct Promotion {
  std::optional<DType> with_dims, zero_dim, number;

  void add(std::optional<DType>& slot, DType t) { slot = slot ? promote_types(*slot, t) : t; }
  DType result() const {
    std::optional<DType> r = with_dims;
    auto combine = [&](const std::optional<DType>& weaker) {
      if (!weaker) return;
      if (!r || category(*weaker) > category(*r)) {
        // A weaker operand of a higher category decides the category but keeps the width that the stronger ones ask for.
        r = r && is_complex(*weaker) && is_float(*r) ? promote_types(*r, DType::C64) : *weaker;
      }
    };
    combine(zero_dim);
    combine(number);
    return r.value_or(DType::F32);
  }
};

}  // namespace

DType promoted_dtype(const TypeReader& c) {
  Promotion p;
  uint32_t bit = 1;
  auto add = [&](const TensorType* t) {
    if (t) p.add(t->sizes.empty() ? p.zero_dim : p.with_dims, t->dtype);
  };
  for (size_t i = 0; i < c.args().size(); ++i) {
    const Param& param = c.op().schema.params[i];
    if (param.type != ParamType::Tensor && param.type != ParamType::Scalar) continue;
    bool condition = param.type == ParamType::Tensor && (c.op().bool_operands & bit);
    if (param.type == ParamType::Tensor) bit <<= 1;
    if (condition) continue;
    const auto& a = c.args()[i];
    if (auto* t = std::get_if<const TensorType*>(&a))
      add(*t);
    else if (auto* v = std::get_if<std::vector<const TensorType*>>(&a))
      for (auto* t : *v) add(t);
    else if (param.name == "alpha" || param.name == "beta" || (param.name == "value" && param.keyword_only))
      continue;
    else if (std::holds_alternative<Expr>(a))
      p.add(p.number, DType::I64);
    else if (std::holds_alternative<double>(a))
      p.add(p.number, DType::F32);
    else if (std::holds_alternative<bool>(a))
      p.add(p.number, DType::Bool);
    else if (std::holds_alternative<std::complex<double>>(a))
      p.add(p.number, DType::C64);
  }
  return p.result();
}

std::vector<Expr> broadcast(MetaCall& c, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  size_t n = std::max(a.size(), b.size());
  std::vector<Expr> out(n);
  for (size_t i = 0; i < n; ++i) {  // from the last dimension
    Expr x = i < a.size() ? a[a.size() - 1 - i] : Expr(1), y = i < b.size() ? b[b.size() - 1 - i] : Expr(1);
    Expr& r = out[n - 1 - i];
    if (x == y || y == Expr(1))
      r = x;
    else if (x == Expr(1))
      r = y;
    else if (const bool none = x == Expr(0); none || y == Expr(0)) {
      r = 0;  // of 0 and 1 elements there are none
      const Expr& other = none ? y : x;
      c.require({sym::Rel::Le, other, 1}, "{}: sizes {} and {} (dimension {} from the end) neither are equal nor is one of them 1",
                c.op().name, sym::to_string(x), sym::to_string(y), i + 1);
    } else if (c.same(x, y))
      r = x.is_const() ? x : y;
    else if (!x.is_const() && c.same(x, 1))
      r = y;
    else if (!y.is_const() && c.same(y, 1))
      r = x;
    else
      fail<UserError>("{}: sizes {} and {} (dimension {} from the end) neither are equal nor is one of them 1", c.op().name,
                      sym::to_string(x), sym::to_string(y), i + 1);
  }
  return out;
}

int64_t normal_dim(const Op& op, int64_t dim, int64_t rank) {
  int64_t n = std::max<int64_t>(rank, 1);
  TOROID_USER_CHECK(dim >= -n && dim < n, "{}: dimension {} is out of range for a tensor of {} dimensions", op.name, dim, rank);
  return dim < 0 ? dim + n : dim;
}

}  // namespace toroid::ops
