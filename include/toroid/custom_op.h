// Operations of your own: a named C++ function over tensors, one node of every graph that calls it, with variants to choose from.
//
//   auto all_reduce = custom_op("demo::all_reduce(Tensor x, int split=1) -> Tensor", [](const Tensor& x, int64_t split) { ... });
//   register_custom_op_autotuning(all_reduce, {{.name = "split 4", .params = {{"split", 4}}}, {.decomposition = other_way}});
//   Tensor y = all_reduce(x);
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "toroid/tensor.h"

namespace toroid {

namespace ops {
struct Op;
}

// An argument of a custom operation.
class CustomArg {
 public:
  using Value = std::variant<Tensor, std::vector<Tensor>, SymInt, double, bool, std::string>;
  CustomArg(Tensor t) : value(std::move(t)) {}                                 // NOLINT: arguments are written as they are
  CustomArg(std::vector<Tensor> list) : value(std::move(list)) {}              // NOLINT
  CustomArg(SymInt v) : value(std::move(v)) {}                                 // NOLINT
  CustomArg(bool v) : value(v) {}                                              // NOLINT
  CustomArg(std::floating_point auto v) : value(static_cast<double>(v)) {}     // NOLINT
  CustomArg(std::integral auto v) : value(SymInt(static_cast<int64_t>(v))) {}  // NOLINT
  CustomArg(const char* text) : value(std::string(text)) {}                    // NOLINT
  CustomArg(std::string text) : value(std::move(text)) {}                      // NOLINT
  Value value;
};

// A function over tensors and numbers with its types erased: parameters are Tensor, const Tensor& (Tensor& where the function writes to
// it), std::vector<Tensor>, int64_t, SymInt, double, bool and std::string; it returns nothing, a Tensor, or several as a std::vector,
// std::array, std::pair or std::tuple. It is run when it is called eagerly, and once more for each graph that it becomes a part of, on
// stand-ins without values; it must not depend on anything else that changes. Reading elements while a graph is recorded (data(), item(),
// to_vector()) is a UserError: a function that reads them is a plain one, and compile_disable() (toroid/compile.h) calls it between
// compiled graphs.
class CustomFunction {
 public:
  enum class Kind : uint8_t { Tensor, WrittenTensor, Tensors, Int, Size, Float, Bool, Text };

  CustomFunction() = default;
  template <class F>
  requires(!std::same_as<std::decay_t<F>, CustomFunction>) CustomFunction(F f)
      : CustomFunction(std::function(std::move(f))) {}  // NOLINT: functions are written as they are
  template <class R, class... P>
  CustomFunction(std::function<R(P...)> f);  // NOLINT

  explicit operator bool() const { return run != nullptr; }

  std::vector<Kind> params;
  int results = 0;  // -1: a list
  std::function<std::vector<Tensor>(const std::vector<CustomArg>&)> run;
};

// A registered operation.
class CustomOpBase {
 public:
  explicit CustomOpBase(const ops::Op* op) : op_(op) {}
  const std::string& name() const;
  const ops::Op& op() const { return *op_; }

 protected:
  // Arguments that are left out take their defaults.
  std::vector<Tensor> call(std::vector<CustomArg> args, const std::source_location& where) const;

 private:
  const ops::Op* op_;
};

template <class R>
class CustomOp : public CustomOpBase {
 public:
  // Carries the caller's line into the graph.
  struct First : CustomArg {
    template <class T>
    First(const T& v, std::source_location w = std::source_location::current()) : CustomArg(v), where(w) {}  // NOLINT
    std::source_location where;
  };
  using CustomOpBase::CustomOpBase;
  template <class... Rest>
  R operator()(const First& first, const Rest&... rest) const {
    return unpack(call({first, CustomArg(rest)...}, first.where));
  }

 private:
  static R unpack(std::vector<Tensor> list) {
    if constexpr (std::same_as<R, Tensor>) {
      return list.at(0);
    } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
      return list;
    } else if constexpr (!std::is_void_v<R>) {
      return [&]<size_t... I>(std::index_sequence<I...>) { return R{list.at(I)...}; }
      (std::make_index_sequence<std::tuple_size_v<R>>());
    }
  }
};

// Registers an operation for the life of the process. `schema` is a name with its namespace, "demo::scale" (parameters are then called
// arg0, arg1, ...), or a schema in ATen's notation: "demo::scale(Tensor x, float by=2.0) -> Tensor". Arguments that the function writes to
// are Tensor& in it and Tensor(a!) in the schema. Results must be tensors of their own, not arguments, views of them, or of each other.
// UserError for a name that is taken, and for a schema that is malformed or has other types than the function.
template <class F>
auto custom_op(std::string_view schema, F f);

// One way to compute a custom operation.
struct CustomOpConfig {
  std::string name = {};              // for people and lock files; empty: "variant <n>" and the params
  CustomFunction decomposition = {};  // empty: the operation's own function
  // Numbers and texts by name: in place of the operation's argument of that name; others follow its arguments, in this order.
  std::vector<std::pair<std::string, CustomArg>> params = {};
  // Options by name, with what they are while this variant is compiled (such as {"gemm_backends", "template"}).
  std::vector<std::pair<std::string, std::string>> options = {};
};

// What is known of an operand when variants are made and timed.
struct CustomOperand {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;  // -1: open until the run
  Device device = {};
};

struct CustomDispatch {
  std::string tensor;                 // an argument
  int64_t dim = 0;                    // negative: from the end
  int64_t range_upper_bound = 65536;  // the size at which the last range is timed
};

struct CustomTuning {
  // Contents of an operand for timing, by argument; others are random numbers, and what is fused with the call computes its operands
  // itself. `sizes` has no open size.
  std::map<std::string, std::function<Tensor(const CustomOperand&)>> input_gen_fns = {};
  // A size by which the variant is chosen when the program runs: each of the ranges [1, s1], [s1 + 1, s2], ... has its own.
  std::optional<CustomDispatch> dispatch_on = {};
  std::vector<int64_t> split_points = {};  // s1 < s2 < ..., all positive
  double min_speedup_threshold = 1.0;      // how many times faster than the operation's own function a variant must be
};

using CustomConfigGenerator = std::function<std::vector<CustomOpConfig>(const std::vector<CustomOperand>&)>;

// Gives an operation variants that must compute the same. Its own function stays the first choice, and is taken where nothing is tuned, and
// where a call writes to memory that it has by another argument too. UserError for an operation that has variants already, two variants of
// one name, a variant whose function does not take the operation's arguments and the params, unknown options, and split points that do not
// fit, or are none though dispatch_on names a size.
void register_custom_op_autotuning(const CustomOpBase& op, std::vector<CustomOpConfig> configs, CustomTuning tuning = {});
// The configs are made for each call's operands, when a graph is compiled.
void register_custom_op_autotuning(const CustomOpBase& op, CustomConfigGenerator generator, CustomTuning tuning = {});

// How often variants were made for a graph, and refused for it.
struct CustomOpCounts {
  size_t calls = 0;           // nodes that were compiled with variants
  size_t variants = 0;        // made for them, the operation's own function included
  size_t guard_refusals = 0;  // they hold for some of the sizes only
  size_t type_refusals = 0;   // their results have another dtype or size
  size_t other_refusals = 0;  // random numbers, sizes from data, and what throws or fails to compile
};
CustomOpCounts custom_op_counts(const CustomOpBase& op);

// --- implementation ---------------------------------------------------------------------------------------------------------------

namespace detail {

template <class P>
constexpr CustomFunction::Kind kind_of() {
  using T = std::remove_cvref_t<P>;
  using Kind = CustomFunction::Kind;
  if constexpr (std::same_as<T, Tensor>)
    return std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>> ? Kind::WrittenTensor : Kind::Tensor;
  else if constexpr (std::same_as<T, std::vector<Tensor>>)
    return Kind::Tensors;
  else if constexpr (std::same_as<T, SymInt>)
    return Kind::Size;
  else if constexpr (std::same_as<T, bool>)
    return Kind::Bool;
  else if constexpr (std::integral<T>)
    return Kind::Int;
  else if constexpr (std::floating_point<T>)
    return Kind::Float;
  else {
    static_assert(std::same_as<T, std::string>,
                  "a custom operation takes Tensor, std::vector<Tensor>, int64_t, SymInt, double, bool and std::string");
    return Kind::Text;
  }
}

template <class R>
constexpr int results_of() {
  if constexpr (std::is_void_v<R>)
    return 0;
  else if constexpr (std::same_as<R, Tensor>)
    return 1;
  else if constexpr (std::same_as<R, std::vector<Tensor>>)
    return -1;
  else
    return static_cast<int>(std::tuple_size_v<R>);
}

template <class T>
T taken(const CustomArg& a) {
  if constexpr (std::integral<T> && !std::same_as<T, bool>)
    return static_cast<T>(static_cast<int64_t>(std::get<SymInt>(a.value)));
  else if constexpr (std::floating_point<T>)
    return static_cast<T>(std::get<double>(a.value));
  else
    return std::get<T>(a.value);
}

const ops::Op* register_custom_op(std::string_view schema, CustomFunction f);

template <class R, class... P>
CustomOp<R> custom_op(std::string_view schema, std::function<R(P...)> f) {
  return CustomOp<R>(register_custom_op(schema, std::move(f)));
}

}  // namespace detail

template <class R, class... P>
CustomFunction::CustomFunction(std::function<R(P...)> f) : params{detail::kind_of<P>()...}, results(detail::results_of<R>()) {
  run = [f = std::move(f)](const std::vector<CustomArg>& args) -> std::vector<Tensor> {
    std::tuple<std::remove_cvref_t<P>...> own = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<std::remove_cvref_t<P>...>{detail::taken<std::remove_cvref_t<P>>(args.at(I))...};
    }
    (std::index_sequence_for<P...>());
    if constexpr (std::is_void_v<R>) {
      std::apply(f, own);
      return {};
    } else if constexpr (std::same_as<R, Tensor>) {
      return {std::apply(f, own)};
    } else if constexpr (std::same_as<R, std::vector<Tensor>>) {
      return std::apply(f, own);
    } else {
      return std::apply([](auto&&... t) { return std::vector<Tensor>{t...}; }, std::apply(f, own));
    }
  };
}

template <class F>
auto custom_op(std::string_view schema, F f) {
  return detail::custom_op(schema, std::function(std::move(f)));
}

}  // namespace toroid
