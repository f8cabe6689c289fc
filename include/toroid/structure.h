// Values that hold tensors: a Tensor, a number, and containers, tuples and plain structs of such values.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::detail {

template <class T>
inline constexpr bool is_sequence = false;
template <class T>
inline constexpr bool is_sequence<std::vector<T>> = true;
template <class T, size_t n>
inline constexpr bool is_sequence<std::array<T, n>> = true;

template <class T>
inline constexpr bool is_map = false;
template <class K, class T>
inline constexpr bool is_map<std::map<K, T>> = true;

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

// Values that hold no tensor.
template <class T>
inline constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, SymInt>;

// How many fields a plain struct has.
struct AnyField {
  template <class T>
  operator T() const;  // never called
};
template <class T, size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}
inline constexpr size_t kMostFields = 8;
template <class T, size_t n = kMostFields + 1>
constexpr size_t field_count() {
  if constexpr (n == 0)
    return 0;
  else if constexpr (takes_fields<T>(std::make_index_sequence<n>()))
    return n;
  else
    return field_count<T, n - 1>();
}

// f(field...) for a plain struct.
template <class T, class F>
decltype(auto) with_fields(T& v, F&& f) {
  using S = std::remove_const_t<T>;
  static_assert(std::is_aggregate_v<S> && !std::is_array_v<S>,
                "expected a Tensor, a number, a std::vector, array, map, tuple or pair, or a struct of such fields alone");
  constexpr size_t n = field_count<S>();
  static_assert(n <= kMostFields, "a struct that holds tensors has at most 8 fields: nest them in others");
  if constexpr (n == 0) {
    return f();
  } else if constexpr (n == 1) {
    auto& [a] = v;
    return f(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = v;
    return f(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = v;
    return f(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = v;
    return f(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = v;
    return f(a, b, c, d, e);
  } else if constexpr (n == 6) {
    auto& [a, b, c, d, e, g] = v;
    return f(a, b, c, d, e, g);
  } else if constexpr (n == 7) {
    auto& [a, b, c, d, e, g, h] = v;
    return f(a, b, c, d, e, g, h);
  } else {
    auto& [a, b, c, d, e, g, h, i] = v;
    return f(a, b, c, d, e, g, h, i);
  }
}

// f(tensor) for each tensor in a value, in order.
template <class T, class F>
void for_each_tensor(T& value, F&& f) {
  using V = std::remove_const_t<T>;
  if constexpr (std::is_same_v<V, Tensor>) {
    f(value);
  } else if constexpr (is_sequence<V>) {
    for (auto& part : value) for_each_tensor(part, f);
  } else if constexpr (is_map<V>) {
    for (auto& [key, part] : value) for_each_tensor(part, f);
  } else if constexpr (is_tuple<V>) {
    std::apply([&](auto&... part) { (for_each_tensor(part, f), ...); }, value);
  } else if constexpr (!is_plain<V>) {
    with_fields(value, [&](auto&... part) { (for_each_tensor(part, f), ...); });
  }
}

// Whether values of the type hold tensors alone, and no numbers.
template <class T>
constexpr bool holds_tensors_alone() {
  if constexpr (std::is_same_v<T, Tensor>)
    return true;
  else if constexpr (is_plain<T>)
    return false;
  else if constexpr (is_sequence<T>)
    return holds_tensors_alone<typename T::value_type>();
  else if constexpr (is_map<T>)
    return holds_tensors_alone<typename T::mapped_type>();
  else if constexpr (is_tuple<T>)
    return []<size_t... I>(std::index_sequence<I...>) { return (holds_tensors_alone<std::tuple_element_t<I, T>>() && ...); }
  (std::make_index_sequence<std::tuple_size_v<T>>());
  else return decltype(with_fields(std::declval<T&>(), [](auto&... part) {
    return std::bool_constant<(holds_tensors_alone<std::remove_cvref_t<decltype(part)>>() && ...)>();
  }))::value;
}

// What a value looks like without its tensors, as text: "(T, [T, T], {a: T})". Values of one type differ in lengths and keys alone.
template <class T>
void append_structure(const T& value, std::string& out) {
  const auto list = [&](char open, char close, const auto&... part) {
    out += open;
    size_t n = 0;
    (((n++ ? out += ", " : out), append_structure(part, out)), ...);
    out += close;
  };
  if constexpr (std::is_same_v<T, Tensor>) {
    out += 'T';
  } else if constexpr (is_sequence<T>) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ", ";
      append_structure(value[i], out);
    }
    out += ']';
  } else if constexpr (is_map<T>) {
    out += '{';
    for (auto& [key, part] : value) {
      if (out.back() != '{') out += ", ";
      if constexpr (std::is_convertible_v<decltype(key), std::string>)
        out += key;
      else
        out += std::to_string(key);
      out += ": ";
      append_structure(part, out);
    }
    out += '}';
  } else if constexpr (is_tuple<T>) {
    std::apply([&](const auto&... part) { list('(', ')', part...); }, value);
  } else if constexpr (is_plain<T>) {
    out += '_';
  } else {
    with_fields(value, [&](const auto&... part) { list('(', ')', part...); });
  }
}
template <class T>
std::string structure_of(const T& value) {
  std::string out;
  append_structure(value, out);
  return out;
}

// The tensors of a value, which keeps its structure without them.
template <class T>
std::vector<Tensor> take_tensors(T& value) {
  std::vector<Tensor> out;
  for_each_tensor(value, [&](Tensor& t) { out.push_back(std::move(t)); });
  return out;
}
template <class T>
std::vector<Tensor> tensors_of(const T& value) {
  std::vector<Tensor> out;
  for_each_tensor(value, [&](const Tensor& t) { out.push_back(t); });
  return out;
}
// Other tensors in place of those of a value, in their order; as many as it has.
template <class T>
void put_tensors(T& value, std::span<const Tensor> tensors) {
  size_t next = 0;
  for_each_tensor(value, [&](Tensor& t) { t = tensors[next++]; });
}

}  // namespace toroid::detail
