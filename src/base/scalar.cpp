#include "base/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/special_math.h"

namespace toroid {
namespace {

struct OpRow {
  std::string_view name;
  int arity;
};
constexpr OpRow kRows[] = {
#define TOROID_ROW(name, arity) {#name, arity},
    TOROID_SCALAR_OPS(TOROID_ROW)
#undef TOROID_ROW
};

bool is_unsigned(DType t) { return t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64; }

template <class T>
int compare(T a, T b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

// Of equal operands the second one, as the kernels: zeros may differ in their sign.
double minimum(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : a < b ? a : b; }
double maximum(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : a > b ? a : b; }

double remainder_of(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

// Python's floor division of floats: exact where a is a multiple of b.
double floor_div_of(double a, double b) {
  if (b == 0) return a / b;
  double r = std::fmod(a, b), q = (a - r) / b;
  if (r != 0 && ((b < 0) != (r < 0))) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

double float_op(ScalarOp op, DType dtype, const double* x) {
  double a = x[0], b = x[1];
  switch (op) {
    case ScalarOp::Add:
      return a + b;
    case ScalarOp::Sub:
      return a - b;
    case ScalarOp::Mul:
      return a * b;
    case ScalarOp::Neg:
      return -a;
    case ScalarOp::Abs:
      return std::fabs(a);
    case ScalarOp::Div:
      return a / b;
    case ScalarOp::FloorDiv:
      return floor_div_of(a, b);
    case ScalarOp::Remainder:
      return remainder_of(a, b);
    case ScalarOp::Fmod:
      return std::fmod(a, b);
    case ScalarOp::Min:
      return minimum(a, b);
    case ScalarOp::Max:
      return maximum(a, b);
    case ScalarOp::Fmin:
      return std::fmin(a, b);
    case ScalarOp::Fmax:
      return std::fmax(a, b);
    case ScalarOp::Floor:
      return std::floor(a);
    case ScalarOp::Ceil:
      return std::ceil(a);
    case ScalarOp::Trunc:
      return std::trunc(a);
    case ScalarOp::Round:
      return std::nearbyint(a);
    case ScalarOp::CopySign:
      return std::copysign(a, b);
    case ScalarOp::NextAfter:
      return dtype == DType::F64 ? std::nextafter(a, b) : static_cast<double>(std::nextafter(static_cast<float>(a), static_cast<float>(b)));
    case ScalarOp::Sign:
      return compare(a, 0.0);  // 0 for NaN
    case ScalarOp::Sqrt:
      return std::sqrt(a);
    case ScalarOp::Rsqrt:
      return 1 / std::sqrt(a);
    case ScalarOp::Exp:
      return std::exp(a);
    case ScalarOp::Exp2:
      return std::exp2(a);
    case ScalarOp::Expm1:
      return std::expm1(a);
    case ScalarOp::Log:
      return std::log(a);
    case ScalarOp::Log2:
      return std::log2(a);
    case ScalarOp::Log10:
      return std::log10(a);
    case ScalarOp::Log1p:
      return std::log1p(a);
    case ScalarOp::Pow:
      return std::pow(a, b);
    case ScalarOp::Hypot:
      return std::hypot(a, b);
    case ScalarOp::Sin:
      return std::sin(a);
    case ScalarOp::Cos:
      return std::cos(a);
    case ScalarOp::Tan:
      return std::tan(a);
    case ScalarOp::Asin:
      return std::asin(a);
    case ScalarOp::Acos:
      return std::acos(a);
    case ScalarOp::Atan:
      return std::atan(a);
    case ScalarOp::Atan2:
      return std::atan2(a, b);
    case ScalarOp::Sinh:
      return std::sinh(a);
    case ScalarOp::Cosh:
      return std::cosh(a);
    case ScalarOp::Tanh:
      return std::tanh(a);
    case ScalarOp::Asinh:
      return std::asinh(a);
    case ScalarOp::Acosh:
      return std::acosh(a);
    case ScalarOp::Atanh:
      return std::atanh(a);
    case ScalarOp::Sigmoid:
      return 1 / (1 + std::exp(-a));
    case ScalarOp::Erf:
      return std::erf(a);
    case ScalarOp::Erfc:
      return std::erfc(a);
    default:
      return special_function(op, a, b);
  }
}

int64_t int_op(ScalarOp op, const int64_t* x, bool is_u64) {
  int64_t a = x[0], b = x[1];
  auto wrap = [](uint64_t v) { return static_cast<int64_t>(v); };
  uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  auto trunc_div = [&]() -> int64_t {
    if (b == 0) return 0;
    if (is_u64) return wrap(ua / ub);
    return b == -1 ? wrap(0 - ua) : a / b;
  };
  auto c_mod = [&]() -> int64_t {
    if (b == 0) return 0;
    if (is_u64) return wrap(ua % ub);
    return b == -1 ? 0 : a % b;
  };
  switch (op) {
    case ScalarOp::Add:
      return wrap(ua + ub);
    case ScalarOp::Sub:
      return wrap(ua - ub);
    case ScalarOp::Mul:
      return wrap(ua * ub);
    case ScalarOp::Neg:
      return wrap(0 - ua);
    case ScalarOp::Abs:
      return a < 0 && !is_u64 ? wrap(0 - ua) : a;
    case ScalarOp::Div:
      return trunc_div();
    case ScalarOp::FloorDiv: {
      int64_t q = trunc_div();
      return !is_u64 && c_mod() != 0 && ((a < 0) != (b < 0)) ? q - 1 : q;
    }
    case ScalarOp::Remainder: {
      int64_t r = c_mod();
      return !is_u64 && r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
    }
    case ScalarOp::Fmod:
      return c_mod();
    case ScalarOp::Min:
    case ScalarOp::Fmin:
      return is_u64 ? wrap(std::min(ua, ub)) : std::min(a, b);
    case ScalarOp::Max:
    case ScalarOp::Fmax:
      return is_u64 ? wrap(std::max(ua, ub)) : std::max(a, b);
    case ScalarOp::And:
      return a & b;
    case ScalarOp::Or:
      return a | b;
    case ScalarOp::Xor:
      return a ^ b;
    case ScalarOp::Not:
      return ~a;
    case ScalarOp::Shl:
      return b < 0 || b > 63 ? 0 : wrap(ua << b);
    case ScalarOp::Shr:
      return b < 0 || b > 63 ? (is_u64 || a >= 0 ? 0 : -1) : is_u64 ? wrap(ua >> b) : a >> b;
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
      return a;
    case ScalarOp::Sign:
      return is_u64 ? a != 0 : compare<int64_t>(a, 0);
    case ScalarOp::Pow: {
      if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
      uint64_t r = 1, base = ua;
      for (uint64_t e = ub; e; e >>= 1, base *= base)
        if (e & 1) r *= base;
      return wrap(r);
    }
    case ScalarOp::Gcd:
      return std::gcd(a, b);
    case ScalarOp::Lcm:
      return a == 0 || b == 0                                            ? 0
             : wrap(ua / static_cast<uint64_t>(std::gcd(a, b)) * ub) < 0 ? wrap(0 - ua / static_cast<uint64_t>(std::gcd(a, b)) * ub)
                                                                         : wrap(ua / static_cast<uint64_t>(std::gcd(a, b)) * ub);
    default:
      fail<InternalError>("scalar op {} is not defined on integers", name_of(op));
  }
}

bool compare_op(ScalarOp op, int order, bool unordered) {
  switch (op) {
    case ScalarOp::Eq:
      return !unordered && order == 0;
    case ScalarOp::Ne:
      return unordered || order != 0;
    case ScalarOp::Lt:
      return !unordered && order < 0;
    case ScalarOp::Le:
      return !unordered && order <= 0;
    case ScalarOp::Gt:
      return !unordered && order > 0;
    default:
      return !unordered && order >= 0;
  }
}

bool is_compare(ScalarOp op) { return op >= ScalarOp::Eq && op <= ScalarOp::Ge; }

bool bool_op(ScalarOp op, bool a, bool b) {
  switch (op) {
    case ScalarOp::And:
    case ScalarOp::Mul:
    case ScalarOp::Min:
      return a && b;
    case ScalarOp::Or:
    case ScalarOp::Add:
    case ScalarOp::Max:
      return a || b;
    case ScalarOp::Xor:
    case ScalarOp::Sub:
      return a != b;
    case ScalarOp::Not:
      return !a;
    case ScalarOp::Abs:
    case ScalarOp::Floor:
    case ScalarOp::Ceil:
    case ScalarOp::Trunc:
    case ScalarOp::Round:
    case ScalarOp::Sign:
      return a;
    default:
      fail<InternalError>("scalar op {} is not defined on bool", name_of(op));
  }
}

}  // namespace

std::string_view name_of(ScalarOp op) { return kRows[static_cast<int>(op)].name; }
int arity_of(ScalarOp op) { return kRows[static_cast<int>(op)].arity; }

ScalarOp scalar_op_from_name(std::string_view name) {
  for (int i = 0; i < kScalarOpCount; ++i)
    if (kRows[i].name == name) return static_cast<ScalarOp>(i);
  fail<UserError>("unknown scalar op \"{}\"", name);
}

Number Number::of(double v) { return {Kind::Float, std::isfinite(v) && std::fabs(v) < 9.2e18 ? static_cast<int64_t>(v) : 0, v}; }

bool Number::operator==(const Number& o) const {
  if (kind != o.kind) return false;
  return kind == Kind::Float ? std::bit_cast<uint64_t>(f) == std::bit_cast<uint64_t>(o.f) : i == o.i;
}

Number evaluate(ScalarOp op, DType dtype, DType operand, const Number* args) {
  if (op == ScalarOp::Cast) return convert(args[0], dtype);
  if (op == ScalarOp::Select) return args[0].i ? args[1] : args[2];
  if (op == ScalarOp::RandUniform) return convert(Number::of(random_uniform(args[0].i, args[1].i)), dtype);
  if (op == ScalarOp::RandNormal) return convert(Number::of(random_normal(args[0].i, args[1].i)), dtype);
  if (is_float(operand)) {
    double x[3] = {args[0].as_double(), arity_of(op) > 1 ? args[1].as_double() : 0, 0};
    if (is_compare(op)) return Number::of(compare_op(op, compare(x[0], x[1]), std::isnan(x[0]) || std::isnan(x[1])));
    if (op == ScalarOp::IsNan) return Number::of(std::isnan(x[0]));
    if (op == ScalarOp::IsInf) return Number::of(std::isinf(x[0]));
    if (op == ScalarOp::SignBit) return Number::of(std::signbit(x[0]));
    return convert(Number::of(float_op(op, dtype, x)), dtype);
  }
  int64_t x[2] = {args[0].i, arity_of(op) > 1 ? args[1].i : 0};
  if (is_compare(op)) {
    int order = operand == DType::U64 ? compare(static_cast<uint64_t>(x[0]), static_cast<uint64_t>(x[1])) : compare(x[0], x[1]);
    return Number::of(compare_op(op, order, false));
  }
  if (op == ScalarOp::IsNan || op == ScalarOp::IsInf) return Number::of(false);
  if (op == ScalarOp::SignBit) return Number::of(!is_unsigned(operand) && x[0] < 0);
  if (is_bool(operand)) return convert(Number::of(bool_op(op, x[0], x[1])), dtype);
  return convert(Number::of(int_op(op, x, operand == DType::U64)), dtype);
}

bool has_room(DType dtype, const Number& v) {
  if (!is_int(dtype)) return true;
  const int bits = static_cast<int>(8 * size_of(dtype));
  if (v.kind == Number::Kind::Float) {
    if (std::isnan(v.f)) return false;
    const double end = std::ldexp(1.0, is_unsigned(dtype) ? bits : bits - 1);
    return std::trunc(v.f) < end && v.f >= (is_unsigned(dtype) ? 0 : -end);
  }
  if (bits == 64) return true;
  const int64_t last = (int64_t{1} << (is_unsigned(dtype) ? bits : bits - 1)) - 1;
  return v.i <= last && v.i >= (is_unsigned(dtype) ? -last : -last - 1);
}

std::string to_string(const Number& v) {
  if (v.kind == Number::Kind::Float) return fmt::format("{}", v.f);
  return v.kind == Number::Kind::Bool ? (v.i ? "true" : "false") : fmt::format("{}", v.i);
}

Number convert(const Number& v, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return Number::of(v.as_double());
    case DType::F32:
      return Number::of(static_cast<double>(static_cast<float>(v.as_double())));
    case DType::F16:
      return Number::of(static_cast<double>(f16_to_f32(f32_to_f16(static_cast<float>(v.as_double())))));
    case DType::BF16:
      return Number::of(static_cast<double>(bf16_to_f32(f32_to_bf16(static_cast<float>(v.as_double())))));
    case DType::Bool:
      return Number::of(v.kind == Number::Kind::Float ? v.f != 0 : v.i != 0);
    case DType::C64:
    case DType::C128:
      return Number::of(v.as_double());
    default:
      break;
  }
  int64_t i = v.i;
  if (v.kind == Number::Kind::Float) {
    double f = v.f;
    i = std::isnan(f)                                              ? std::numeric_limits<int64_t>::min()
        : f >= 9223372036854775808.0 || f < -9223372036854775808.0 ? std::numeric_limits<int64_t>::min()
                                                                   : static_cast<int64_t>(f);
    if (dtype == DType::U64 && f >= 9223372036854775808.0 && f < 18446744073709551616.0) i = static_cast<int64_t>(static_cast<uint64_t>(f));
  }
  switch (dtype) {
    case DType::I8:
      i = static_cast<int8_t>(i);
      break;
    case DType::I16:
      i = static_cast<int16_t>(i);
      break;
    case DType::I32:
      i = static_cast<int32_t>(i);
      break;
    case DType::U8:
      i = static_cast<uint8_t>(i);
      break;
    case DType::U16:
      i = static_cast<uint16_t>(i);
      break;
    case DType::U32:
      i = static_cast<uint32_t>(i);
      break;
    default:
      break;
  }
  return Number::of(i);
}

namespace {
template <class T>
T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}
}  // namespace

Number load_number(const void* p, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return Number::of(static_cast<double>(read<float>(p)));
    case DType::F64:
      return Number::of(read<double>(p));
    case DType::F16:
      return Number::of(static_cast<double>(f16_to_f32(read<uint16_t>(p))));
    case DType::BF16:
      return Number::of(static_cast<double>(bf16_to_f32(read<uint16_t>(p))));
    case DType::I8:
      return Number::of(int64_t{read<int8_t>(p)});
    case DType::I16:
      return Number::of(int64_t{read<int16_t>(p)});
    case DType::I32:
      return Number::of(int64_t{read<int32_t>(p)});
    case DType::I64:
      return Number::of(read<int64_t>(p));
    case DType::U8:
      return Number::of(int64_t{read<uint8_t>(p)});
    case DType::U16:
      return Number::of(int64_t{read<uint16_t>(p)});
    case DType::U32:
      return Number::of(int64_t{read<uint32_t>(p)});
    case DType::U64:
      return Number::of(static_cast<int64_t>(read<uint64_t>(p)));
    case DType::Bool:
      return Number::of(read<uint8_t>(p) != 0);
    case DType::C64:
      return Number::of(static_cast<double>(read<float>(p)));
    case DType::C128:
      return Number::of(read<double>(p));
  }
  fail<InternalError>("load of an unknown dtype");
}

std::complex<double> load_complex(const void* p, DType dtype) {
  if (dtype == DType::C64) return read<std::complex<float>>(p);
  if (dtype == DType::C128) return read<std::complex<double>>(p);
  return load_number(p, dtype).as_double();
}

void store_number(void* p, DType dtype, const Number& value) {
  Number v = convert(value, dtype);
  switch (dtype) {
    case DType::F32:
      return write(p, static_cast<float>(v.f));
    case DType::F64:
      return write(p, v.f);
    case DType::F16:
      return write(p, f32_to_f16(static_cast<float>(v.f)));
    case DType::BF16:
      return write(p, f32_to_bf16(static_cast<float>(v.f)));
    case DType::I8:
    case DType::U8:
      return write(p, static_cast<uint8_t>(v.i));
    case DType::I16:
    case DType::U16:
      return write(p, static_cast<uint16_t>(v.i));
    case DType::I32:
    case DType::U32:
      return write(p, static_cast<uint32_t>(v.i));
    case DType::I64:
    case DType::U64:
      return write(p, v.i);
    case DType::Bool:
      return write(p, static_cast<uint8_t>(v.i != 0));
    case DType::C64: {
      float parts[2] = {static_cast<float>(v.f), 0};
      std::memcpy(p, parts, sizeof parts);
      return;
    }
    case DType::C128: {
      double parts[2] = {v.f, 0};
      std::memcpy(p, parts, sizeof parts);
      return;
    }
  }
}

uint16_t f32_to_f16(float v) {
  uint32_t x = std::bit_cast<uint32_t>(v), sign = (x >> 16) & 0x8000, m = x & 0x7fffffff;
  if (m > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
  if (m >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to infinity
  if (m < 0x38800000) {                                              // subnormal: let float addition round
    float r = std::bit_cast<float>(m) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(r) - 0x3f000000));
  }
  m += 0xc8000fff + ((m >> 13) & 1);
  return static_cast<uint16_t>(sign | (m >> 13));
}

float f16_to_f32(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
  if (e == 31) return std::bit_cast<float>(sign | 0x7f800000 | (m << 13));
  if (e) return std::bit_cast<float>(sign | ((e + 112) << 23) | (m << 13));
  float r = static_cast<float>(m) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(r) | sign);
}

uint16_t f32_to_bf16(float v) {
  uint32_t x = std::bit_cast<uint32_t>(v);
  if ((x & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((x >> 16) | 0x40);
  return static_cast<uint16_t>((x + 0x7fff + ((x >> 16) & 1)) >> 16);
}

float bf16_to_f32(uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); }

}  // namespace toroid
