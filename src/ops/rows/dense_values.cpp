#include "ops/rows/dense_values.h"

#include "base/scalar.h"

namespace toroid::ops {
namespace {

template <class T, class E>
T from_element(E v) {
  if constexpr (std::is_same_v<T, E>)
    return v;
  else if constexpr (requires { v.real(); }) {
    if constexpr (std::is_same_v<T, std::complex<double>>)
      return T(v);
    else
      return static_cast<T>(v.real());
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return T(static_cast<double>(v));
  } else {
    return static_cast<T>(v);
  }
}

template <class E, class T>
E to_element(T v) {
  if constexpr (std::is_same_v<T, std::complex<double>>) {
    if constexpr (requires(E e) { e.real(); })
      return E(v);
    else
      return static_cast<E>(v.real());
  } else if constexpr (requires(E e) { e.real(); }) {
    return E(static_cast<typename E::value_type>(v));
  } else {
    return static_cast<E>(v);
  }
}

// Calls f with a null pointer of the element type; not for half floats.
template <class F>
void with_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::F32:
      return f(static_cast<float*>(nullptr));
    case DType::F64:
      return f(static_cast<double*>(nullptr));
    case DType::I8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::I16:
      return f(static_cast<int16_t*>(nullptr));
    case DType::I32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::I64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::U8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::U16:
      return f(static_cast<uint16_t*>(nullptr));
    case DType::U32:
      return f(static_cast<uint32_t*>(nullptr));
    case DType::U64:
      return f(static_cast<uint64_t*>(nullptr));
    case DType::Bool:
      return f(static_cast<bool*>(nullptr));
    case DType::C64:
      return f(static_cast<std::complex<float>*>(nullptr));
    case DType::C128:
      return f(static_cast<std::complex<double>*>(nullptr));
    case DType::F16:
    case DType::BF16:
      break;
  }
  fail<InternalError>("no element type for {}", name_of(dtype));
}

}  // namespace

template <class T>
std::vector<T> load_values(const Tensor& t) {
  Tensor dense = t.contiguous();
  std::vector<T> out(static_cast<size_t>(dense.numel()));
  if (is_half(dense.dtype())) {
    const uint16_t* p = dense.data<uint16_t>();
    auto widen = dense.dtype() == DType::F16 ? f16_to_f32 : bf16_to_f32;
    for (size_t i = 0; i < out.size(); ++i) out[i] = from_element<T>(widen(p[i]));
    return out;
  }
  with_element(dense.dtype(), [&]<class E>(E*) {
    const E* p = dense.data<E>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = from_element<T>(p[i]);
  });
  return out;
}

template <class T>
void store_values(const Tensor& t, std::span<const T> values) {
  TOROID_CHECK(t.is_contiguous() && t.numel() == static_cast<int64_t>(values.size()), "wrong number of values");
  if (is_half(t.dtype())) {
    uint16_t* p = t.data<uint16_t>();
    auto narrow = t.dtype() == DType::F16 ? f32_to_f16 : f32_to_bf16;
    for (size_t i = 0; i < values.size(); ++i) p[i] = narrow(to_element<float>(values[i]));
    return;
  }
  with_element(t.dtype(), [&]<class E>(E*) {
    E* p = t.data<E>();
    for (size_t i = 0; i < values.size(); ++i) p[i] = to_element<E>(values[i]);
  });
}

template std::vector<double> load_values<double>(const Tensor&);
template std::vector<int64_t> load_values<int64_t>(const Tensor&);
template std::vector<std::complex<double>> load_values<std::complex<double>>(const Tensor&);
template void store_values<double>(const Tensor&, std::span<const double>);
template void store_values<int64_t>(const Tensor&, std::span<const int64_t>);
template void store_values<std::complex<double>>(const Tensor&, std::span<const std::complex<double>>);

}  // namespace toroid::ops
