// Branches and loops that follow the values of tensors.
//
//   Tensor y = cond(sum(x) > 0, [&](const Tensor& t) { return t * scale; }, [](const Tensor& t) { return -t; }, x);
//
//   auto [i, r] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
//                            [&](const Tensor& i, const Tensor& r) { return std::tuple(i + 1, matmul(r, w)); }, std::tuple(zero, x));
//
//   auto [last, all] = scan([&](const Tensor& h, const Tensor& x) { Tensor next = tanh(matmul(h, w) + x); return std::pair(next, next); },
//   h, xs);
//
// In a function that is compiled or differentiated they become parts of its program: the functions given here are recorded once, on
// stand-ins without elements, as a region that the program runs as often as the values say. Called as they are, they are an if and two for.
//
// What they take and return holds tensors: a Tensor, or std::vector, array, map, tuple, pair and structs of up to 8 fields of such values.
// Tensors that the functions capture are read as they are when the call begins. Results have memory of their own. Gradients go through
// cond, scan and map, but not through while_loop, nor through recorded regions that draw random numbers.
//
// UserError, with the line: the branches of cond, or the rounds of a loop, return tensors that differ in number, dtype or sizes; a function
// writes in place to a tensor that no operation in it has made; one that is recorded reads a value (item()).
#pragma once

#include <functional>
#include <optional>
#include <source_location>

#include "toroid/structure.h"

namespace toroid {

// What decides: a bool tensor of one element, or a truth value, which decides at once (comparisons of sizes are such).
class Predicate {
 public:
  using Where = std::source_location;
  Predicate(const Tensor& t, Where where = Where::current()) : tensor_(t), where_(where) {}                   // NOLINT
  Predicate(std::same_as<bool> auto known, Where where = Where::current()) : known_(known), where_(where) {}  // NOLINT
  const Tensor& tensor() const { return tensor_; }
  const std::optional<bool>& known() const { return known_; }
  const Where& where() const { return where_; }

 private:
  Tensor tensor_;
  std::optional<bool> known_;
  Where where_;
};

struct ScanOptions {
  int64_t dim = 0;       // of xs; may be negative
  bool reverse = false;  // from the last step to the first; results stay where their steps are
};

namespace detail {

// What one of the functions has returned, and its structure.
struct RegionResults {
  std::vector<Tensor> tensors;
  std::string structure;
};
using RegionFunction = std::function<RegionResults(std::span<const Tensor>)>;

std::vector<Tensor> run_cond(const Predicate& pred, const RegionFunction& true_fn, const RegionFunction& false_fn,
                             std::span<const Tensor> operands);
std::vector<Tensor> run_while_loop(const RegionFunction& cond_fn, const RegionFunction& body_fn, std::vector<Tensor> carried,
                                   const std::string& structure, const std::source_location& where);
// The carried tensors, then the stacked ones.
std::vector<Tensor> run_scan(const RegionFunction& combine_fn, std::vector<Tensor> init, const std::string& structure,
                             std::span<const Tensor> xs, const ScanOptions& options, const std::source_location& where);

// Calls f with a value or, where f does not take it as one, with the parts of a tuple.
template <class F, class T>
decltype(auto) call_with(F& f, T& value) {
  if constexpr (is_tuple<std::remove_const_t<T>> && !std::is_invocable_v<F&, T&>)
    return std::apply(f, value);
  else
    return f(value);
}

template <class R>
RegionResults results_of(R&& value) {
  std::string structure = structure_of(value);
  return {take_tensors(value), std::move(structure)};
}

}  // namespace detail

// true_fn(operands...) where the predicate holds, else false_fn(operands...). Recorded, both are part of the program and one of them runs:
// sizes that an operation of either refuses are an error whichever runs.
template <class T, class F, class... A>
auto cond(const Predicate& pred, T&& true_fn, F&& false_fn, const A&... operands) {
  using R = std::decay_t<std::invoke_result_t<T&, A&...>>;
  static_assert(std::is_same_v<R, std::decay_t<std::invoke_result_t<F&, A&...>>>, "the branches of cond return values of one type");
  static_assert(detail::holds_tensors_alone<R>(), "the branches of cond return tensors, and structures of tensors alone");
  std::optional<R> out;
  const auto region = [&](auto& fn) {
    return [&](std::span<const Tensor> tensors) {
      std::tuple<A...> given(operands...);
      detail::put_tensors(given, tensors);
      out = std::apply(fn, given);
      return detail::results_of(*out);
    };
  };
  const std::vector<Tensor> tensors = detail::tensors_of(std::tuple<const A&...>(operands...));
  const std::vector<Tensor> results = detail::run_cond(pred, region(true_fn), region(false_fn), tensors);
  detail::put_tensors(*out, results);
  return std::move(*out);
}

// While cond_fn(carried), a bool tensor of one element, holds: carried = body_fn(carried). A tuple is given to functions that take its
// parts as those. The body returns tensors of the dtypes and sizes that it is given.
template <class C, class B, class T>
T while_loop(C&& cond_fn, B&& body_fn, T carried, const std::source_location& where = std::source_location::current()) {
  static_assert(detail::holds_tensors_alone<T>(), "what while_loop carries is tensors, and structures of tensors alone");
  const std::string structure = detail::structure_of(carried);
  const auto given = [&](std::span<const Tensor> tensors) {
    T value = carried;
    detail::put_tensors(value, tensors);
    return value;
  };
  std::vector<Tensor> start = detail::take_tensors(carried);
  const detail::RegionFunction condition = [&](std::span<const Tensor> tensors) -> detail::RegionResults {
    T value = given(tensors);
    static_assert(std::is_same_v<std::decay_t<decltype(detail::call_with(cond_fn, value))>, Tensor>,
                  "the condition of while_loop returns a Tensor: bool, of one element");
    return {{detail::call_with(cond_fn, value)}, structure};
  };
  const detail::RegionFunction body = [&](std::span<const Tensor> tensors) {
    T value = given(tensors);
    return detail::results_of(T(detail::call_with(body_fn, value)));
  };
  detail::put_tensors(carried, detail::run_while_loop(condition, body, std::move(start), structure, where));
  return carried;
}

// For each index i along the dimension: [carry, y] = combine_fn(carry, slice i of each tensor in xs). The last carry, and all y stacked
// along a new dimension 0.
template <class F, class C, class X>
auto scan(F&& combine_fn, C init, const X& xs, const ScanOptions& options = {},
          const std::source_location& where = std::source_location::current()) {
  using R = std::decay_t<std::invoke_result_t<F&, C&, X&>>;
  static_assert(detail::is_tuple<R> && std::tuple_size_v<R> == 2, "the function of scan returns a pair: what is carried on, and a result");
  using Y = std::tuple_element_t<1, R>;
  static_assert(detail::holds_tensors_alone<C>() && detail::holds_tensors_alone<X>() && detail::holds_tensors_alone<Y>(),
                "what scan takes and returns is tensors, and structures of tensors alone");
  const std::string structure = detail::structure_of(init);
  std::vector<Tensor> start = detail::take_tensors(init);
  std::optional<Y> out;
  const detail::RegionFunction combine = [&](std::span<const Tensor> tensors) {
    C carry = init;
    X slice = xs;
    detail::put_tensors(carry, tensors.first(start.size()));
    detail::put_tensors(slice, tensors.subspan(start.size()));
    auto result = combine_fn(carry, slice);
    detail::RegionResults made = detail::results_of(C(std::move(std::get<0>(result))));
    out = std::move(std::get<1>(result));
    for (Tensor& t : detail::take_tensors(*out)) made.tensors.push_back(std::move(t));
    return made;
  };
  const size_t carried = start.size();
  const std::vector<Tensor> results = detail::run_scan(combine, start, structure, detail::tensors_of(xs), options, where);
  detail::put_tensors(init, std::span(results).first(carried));
  detail::put_tensors(*out, std::span(results).subspan(carried));
  return std::pair<C, Y>(std::move(init), std::move(*out));
}

// fn(slice i of each tensor in xs) for each index i along the dimension, stacked along a new dimension 0.
template <class F, class X>
auto map(F&& fn, const X& xs, int64_t dim = 0, const std::source_location& where = std::source_location::current()) {
  return scan([&](const std::tuple<>& nothing, X& x) { return std::pair(nothing, detail::call_with(fn, x)); }, std::tuple<>(), xs,
              {.dim = dim}, where)
      .second;
}

}  // namespace toroid
