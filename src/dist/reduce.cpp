// Reductions of collectives on the host.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/check.h"
#include "base/scalar.h"
#include "dist/collective.h"

namespace toroid::distributed {
namespace {

// How elements lie in memory, and what they are folded in.
template <class M, class V = M>
struct Element {
  using Memory = M;
  using Value = V;
  static V load(M m) { return static_cast<V>(m); }
  static M store(V v) { return static_cast<M>(v); }
};
struct F16 : Element<uint16_t, float> {
  static float load(uint16_t m) { return f16_to_f32(m); }
  static uint16_t store(float v) { return f32_to_f16(v); }
};
struct Bf16 : Element<uint16_t, float> {
  static float load(uint16_t m) { return bf16_to_f32(m); }
  static uint16_t store(float v) { return f32_to_bf16(v); }
};
struct C64 {
  float re, im;
  friend C64 operator+(C64 a, C64 b) { return {a.re + b.re, a.im + b.im}; }
};
struct C128 {
  double re, im;
  friend C128 operator+(C128 a, C128 b) { return {a.re + b.re, a.im + b.im}; }
};

template <class F>
void with_element(DType t, F f) {
  switch (t) {
    case DType::F32:
      return f(Element<float>{});
    case DType::F64:
      return f(Element<double>{});
    case DType::F16:
      return f(F16{});
    case DType::BF16:
      return f(Bf16{});
    case DType::I8:
      return f(Element<int8_t>{});
    case DType::I16:
      return f(Element<int16_t>{});
    case DType::I32:
      return f(Element<int32_t>{});
    case DType::I64:
      return f(Element<int64_t>{});
    case DType::U8:
      return f(Element<uint8_t>{});
    case DType::U16:
      return f(Element<uint16_t>{});
    case DType::U32:
      return f(Element<uint32_t>{});
    case DType::U64:
      return f(Element<uint64_t>{});
    case DType::Bool:
      return f(Element<bool>{});
    case DType::C64:
      return f(Element<C64>{});
    case DType::C128:
      return f(Element<C128>{});
  }
}

template <class V>
V added(V a, V b) {
  if constexpr (std::is_same_v<V, bool>)
    return a || b;
  else if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <class V>
V multiplied(V a, V b) {
  if constexpr (std::is_same_v<V, bool>)
    return a && b;
  else if constexpr (std::is_integral_v<V>)
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

// NaN wins, as in PyTorch's minimum and maximum.
template <class V>
V least(V a, V b) {
  if constexpr (std::is_floating_point_v<V>)
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return std::min(a, b);
}

template <class V>
V greatest(V a, V b) {
  if constexpr (std::is_floating_point_v<V>)
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return std::max(a, b);
}

template <class E, class Fold>
void fold(const std::vector<const std::byte*>& inputs, std::byte* out, int64_t count, int64_t divide_by, Fold f) {
  using Memory = typename E::Memory;
  using Value = typename E::Value;
  for (int64_t i = 0; i < count; ++i) {
    auto element = [&](size_t r) { return E::load(reinterpret_cast<const Memory*>(inputs[r])[i]); };
    Value v = element(0);
    for (size_t r = 1; r < inputs.size(); ++r) v = f(v, element(r));
    if constexpr (std::is_floating_point_v<Value>)
      if (divide_by > 1) v /= static_cast<Value>(divide_by);
    reinterpret_cast<Memory*>(out)[i] = E::store(v);
  }
}

}  // namespace

void check_reducible(DType dtype, ReduceOp op) {
  const bool fits = op == ReduceOp::Sum || (op == ReduceOp::Avg ? is_float(dtype) : !is_complex(dtype));
  TOROID_USER_CHECK(fits, "reductions of collectives: {} is not defined for {}; {}", name_of(op), name_of(dtype),
                    op == ReduceOp::Avg ? "use sum, and divide" : "reduce the real and the imaginary part");
}

void reduce(DType dtype, ReduceOp op, const std::vector<const std::byte*>& inputs, std::byte* out, int64_t count) {
  check_reducible(dtype, op);
  with_element(dtype, [&]<class E>(E) {
    using V = typename E::Value;
    if (op == ReduceOp::Sum) return fold<E>(inputs, out, count, 1, added<V>);
    if constexpr (std::is_arithmetic_v<V>) {
      if (op == ReduceOp::Avg) return fold<E>(inputs, out, count, static_cast<int64_t>(inputs.size()), added<V>);
      if (op == ReduceOp::Product) return fold<E>(inputs, out, count, 1, multiplied<V>);
      if (op == ReduceOp::Min) return fold<E>(inputs, out, count, 1, least<V>);
      return fold<E>(inputs, out, count, 1, greatest<V>);
    }
  });
}

}  // namespace toroid::distributed
