// Operations over raw memory: a C++ function that is given the memory of its tensors, as one step of every program that calls it.
//
//   auto cumulate = opaque_op("demo::cumulate(Tensor x) -> Tensor",
//                             [](const MemoryType& x) { return x; },             // what the results are, without elements
//                             [](InputMemory x, OutputMemory y) {                // the arguments, then the results
//                               std::partial_sum(x.as<float>().begin(), x.as<float>().end(), y.as<float>().begin());
//                             });
//   Tensor y = cumulate(x);
//
// A custom operation (toroid/custom_op.h) is made of operations and fuses with what surrounds it. This one is opaque: nothing is known of
// it but the types of its results, and nothing fuses with it. It is registered by name, for the life of the process.
#pragma once

#include <array>
#include <concepts>
#include <span>
#include <tuple>
#include <type_traits>

#include "toroid/custom_op.h"

namespace toroid {

// The type of a tensor. Sizes may be symbolic while a program is made.
struct MemoryType {
  DType dtype = DType::F32;
  std::vector<SymInt> sizes = {};
};

// Memory that is there as long as the function runs.
class OpaqueMemory {
 public:
  explicit OpaqueMemory(Tensor t) : tensor_(std::move(t)) {}
  DType dtype() const { return tensor_.dtype(); }
  const std::vector<int64_t>& sizes() const { return tensor_.sizes(); }
  int64_t size(int64_t dim) const { return tensor_.size(dim); }  // negative: from the end
  int64_t numel() const { return tensor_.numel(); }
  // In elements. Row-major, unless it is an argument of an operation that was registered with `strided`.
  const std::vector<int64_t>& strides() const { return tensor_.strides(); }

 protected:
  Tensor tensor_;
};

// An argument.
class InputMemory : public OpaqueMemory {
 public:
  using OpaqueMemory::OpaqueMemory;
  const void* data() const { return tensor_.raw_data(); }
  // The first element. UserError where T is not what they are.
  template <class T>
  const T* data(const std::source_location& where = std::source_location::current()) const {
    return tensor_.data<const T>(where);
  }
  // All elements in row-major order. UserError where T is not what they are, and where they lie in another order or on a GPU.
  template <class T>
  std::span<const T> as(const std::source_location& where = std::source_location::current()) const;
};

// A result, with any contents, or an argument that is written, with its own. Row-major.
class OutputMemory : public OpaqueMemory {
 public:
  using OpaqueMemory::OpaqueMemory;
  void* data() const { return const_cast<std::byte*>(tensor_.raw_data()); }
  template <class T>
  T* data(const std::source_location& where = std::source_location::current()) const {
    return tensor_.data<T>(where);
  }
  template <class T>
  std::span<T> as(const std::source_location& where = std::source_location::current()) const;
};

// The function with its types erased. It takes the operation's arguments in their order (InputMemory, OutputMemory for those that it
// writes, std::vector<InputMemory>, int64_t, double, bool, std::string), then an OutputMemory for each result. It may run on several
// threads at once. What it throws arrives as a UserError (an EnvironmentError stays one) that names the operation and the line of the call.
class OpaqueFunction {
 public:
  using Arg = std::variant<InputMemory, OutputMemory, std::vector<InputMemory>, int64_t, double, bool, std::string>;
  OpaqueFunction() = default;
  template <class... P>
  OpaqueFunction(std::function<void(P...)> f);  // NOLINT: functions are written as they are

  std::vector<CustomFunction::Kind> params;
  std::function<void(std::span<const Arg>)> run;
};

// What the results are, with its types erased. It takes the operation's arguments in their order (MemoryType, std::vector<MemoryType>,
// SymInt, int64_t, double, bool, std::string) and returns a MemoryType, or several as a std::vector, std::array, std::pair or std::tuple.
// It runs when a program is made and at each call, must depend on its arguments alone, and computes with sizes by SymInt: a comparison
// becomes a guard of the program. To refuse arguments it throws a UserError.
class OpaqueTypeRule {
 public:
  using Arg = std::variant<MemoryType, std::vector<MemoryType>, SymInt, double, bool, std::string>;
  OpaqueTypeRule() = default;
  template <class R, class... P>
  OpaqueTypeRule(std::function<R(P...)> f);  // NOLINT

  std::vector<CustomFunction::Kind> params;
  int results = 0;  // -1: a list
  std::function<std::vector<MemoryType>(std::span<const Arg>)> run;
};

struct OpaqueOptions {
  // It does something besides writing its results and arguments: it is called as often, and in the order, as the function calls it. Else
  // a call may be left out where nothing needs its results, shared with an equal one, and made when compiling where all that it reads is
  // constant.
  bool effect = false;
  // It takes arguments in any strides. Else those that are not row-major are copied for it.
  bool strided = false;
};

namespace detail {

template <class R>
struct opaque_result;
template <>
struct opaque_result<MemoryType> : std::type_identity<Tensor> {};
template <>
struct opaque_result<std::vector<MemoryType>> : std::type_identity<std::vector<Tensor>> {};
template <size_t N>
struct opaque_result<std::array<MemoryType, N>> : std::type_identity<std::array<Tensor, N>> {};
template <>
struct opaque_result<std::pair<MemoryType, MemoryType>> : std::type_identity<std::pair<Tensor, Tensor>> {};
template <std::same_as<MemoryType>... S>
struct opaque_result<std::tuple<S...>> : std::type_identity<std::tuple<std::conditional_t<true, Tensor, S>...>> {};

template <class F>
struct result_of_function;
template <class R, class... P>
struct result_of_function<std::function<R(P...)>> : opaque_result<R> {};
template <class F>
using opaque_result_t = typename result_of_function<decltype(std::function(std::declval<F>()))>::type;

const ops::Op* register_opaque_op(std::string_view schema, OpaqueTypeRule types, OpaqueFunction f, const OpaqueOptions& options);

}  // namespace detail

// Registers an operation. The schema is that of custom_op (toroid/custom_op.h): "demo::scale(Tensor x, float by=2.0) -> Tensor", with
// Tensor(a!) for arguments that the function writes to. Such an argument must not require gradients, and is seen as it was before the call
// by arguments that share its memory. Autocast leaves arguments as they are. Gradients: register_custom_op_gradient
// (toroid/custom_gradient.h). UserError for a name that is taken, for a schema that is malformed or has other types than the functions, and
// for results without a type rule.
template <class Types, class F>
requires(!std::same_as<std::decay_t<F>, OpaqueOptions>) auto opaque_op(std::string_view schema, Types types, F f,
                                                                       const OpaqueOptions& options = {}) {
  return CustomOp<detail::opaque_result_t<Types>>(
      detail::register_opaque_op(schema, std::function(std::move(types)), std::function(std::move(f)), options));
}
// Of one without results: it writes to arguments, or has an effect.
template <class F>
auto opaque_op(std::string_view schema, F f, const OpaqueOptions& options = {}) {
  return CustomOp<void>(detail::register_opaque_op(schema, {}, std::function(std::move(f)), options));
}

// --- implementation ---------------------------------------------------------------------------------------------------------------

namespace detail {

// The elements as data<T>() finds them (toroid/tensor.h), and how many there are.
[[noreturn]] void fail_strided(const std::source_location& where);
[[noreturn]] void fail_on_gpu(const Tensor& t, const std::source_location& where);
template <class T>
std::span<T> elements(const Tensor& t, const std::source_location& where) {
  if (t.device().is_cuda()) fail_on_gpu(t, where);
  if (!t.is_contiguous()) fail_strided(where);
  return {t.data<T>(where), static_cast<size_t>(t.numel()) * size_of(t.dtype()) / sizeof(T)};
}

// Of a parameter, where tensors are taken as `In`.
template <class P, class In>
constexpr CustomFunction::Kind kind_with() {
  using T = std::remove_cvref_t<P>;
  if constexpr (std::same_as<T, In>)
    return CustomFunction::Kind::Tensor;
  else if constexpr (std::same_as<T, std::vector<In>>)
    return CustomFunction::Kind::Tensors;
  else
    return kind_of<P>();
}

template <class P>
constexpr CustomFunction::Kind memory_kind_of() {
  using T = std::remove_cvref_t<P>;
  static_assert(!std::same_as<T, Tensor> && !std::same_as<T, SymInt>,
                "the function of an opaque operation takes InputMemory, OutputMemory, std::vector<InputMemory>, int64_t, double, bool "
                "and std::string");
  if constexpr (std::same_as<T, OutputMemory>)
    return CustomFunction::Kind::WrittenTensor;
  else
    return kind_with<P, InputMemory>();
}

template <class P>
constexpr CustomFunction::Kind spec_kind_of() {
  static_assert(!std::same_as<std::remove_cvref_t<P>, Tensor>, "the type rule of an opaque operation takes MemoryType for a tensor");
  return kind_with<P, MemoryType>();
}

template <class T>
T fitting(int64_t value) {
  const T out = static_cast<T>(value);
  if (static_cast<int64_t>(out) != value || (value < 0) != (out < T{}))
    throw UserError(std::to_string(value) + " does not fit the integer that the function takes; take int64_t");
  return out;
}

template <class T, class Arg>
T taken_from(const Arg& a) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    if constexpr (std::same_as<Arg, OpaqueTypeRule::Arg>)
      return fitting<T>(static_cast<int64_t>(std::get<SymInt>(a)));
    else
      return fitting<T>(std::get<int64_t>(a));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(std::get<double>(a));
  } else {
    return std::get<T>(a);
  }
}

template <class... P, class F, class Arg>
decltype(auto) apply_to(const F& f, std::span<const Arg> args) {
  return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    std::tuple<std::remove_cvref_t<P>...> own{taken_from<std::remove_cvref_t<P>>(args[I])...};
    return std::apply(f, own);
  }
  (std::index_sequence_for<P...>());
}

}  // namespace detail

template <class T>
std::span<const T> InputMemory::as(const std::source_location& where) const {
  return detail::elements<const T>(tensor_, where);
}
template <class T>
std::span<T> OutputMemory::as(const std::source_location& where) const {
  return detail::elements<T>(tensor_, where);
}

template <class... P>
OpaqueFunction::OpaqueFunction(std::function<void(P...)> f) : params{detail::memory_kind_of<P>()...} {
  if (f) run = [f = std::move(f)](std::span<const Arg> args) { detail::apply_to<P...>(f, args); };
}

template <class R, class... P>
OpaqueTypeRule::OpaqueTypeRule(std::function<R(P...)> f) : params{detail::spec_kind_of<P>()...} {
  if constexpr (std::same_as<R, MemoryType>)
    results = 1;
  else if constexpr (std::same_as<R, std::vector<MemoryType>>)
    results = -1;
  else
    results = static_cast<int>(std::tuple_size_v<R>);
  if (!f) return;
  run = [f = std::move(f)](std::span<const Arg> args) -> std::vector<MemoryType> {
    R made = detail::apply_to<P...>(f, args);
    if constexpr (std::same_as<R, MemoryType>)
      return {std::move(made)};
    else if constexpr (std::same_as<R, std::vector<MemoryType>>)
      return made;
    else
      return std::apply([](auto&&... spec) { return std::vector<MemoryType>{spec...}; }, std::move(made));
  };
}

}  // namespace toroid
