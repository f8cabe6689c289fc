// compile(): turns a C++ function over tensors into a compiled one.
//
//   auto f = compile([](const Tensor& x, const Tensor& w) { return relu(matmul(x, w)); });
//   Tensor y = f(x, w);  // the first call traces and compiles, later ones run what was compiled
//
//   // Weights that no longer change are folded, and laid out once as kernels read them (option freezing).
//   auto g = compile([&](const Tensor& x) { return net.forward(x); }, {.options = {{"freezing", "1"}}});
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "toroid/model.h"
#include "toroid/ops.h"

namespace toroid {

struct CompileConfig {
  Mode mode = Mode::Default;
  // A read of a value while tracing (item()) is a UserError that names the line, before anything has run. Otherwise it splits the
  // function into several graphs.
  bool fullgraph = false;
  // true: all sizes are symbolic from the start; false: never; not set: a size that has changed between calls becomes symbolic.
  std::optional<bool> dynamic = {};
  // Values by name, of compile_options(), in place of those that the process has. UserError for an unknown name and for an option that
  // belongs to the process.
  std::map<std::string, std::string> options = {};
  // For messages.
  std::string name = "function";
  std::vector<std::string> input_names = {};
};

// Options that one compiled function can have, with their meaning.
std::vector<std::pair<std::string, std::string>> compile_options();

// What a compiled function has done since it was made, or since reset().
struct CompileReport {
  int64_t calls = 0;
  int64_t compiles = 0;                        // graphs that were compiled
  int64_t cache_hits = 0;                      // calls whose guards matched
  int64_t eager_calls = 0;                     // calls that ran without compiled code, by a stance, the limit, or for want of support
  int64_t limit_calls = 0;                     // those among them that ran eagerly because of recompile_limit
  int64_t rebinds = 0;                         // cache hits whose compiled code was given other captured tensors
  size_t entries = 0;                          // compiled variants now
  std::vector<std::string> recompile_reasons;  // which guard failed or what was captured, in order of the compiles
  std::vector<std::string> graph_breaks;       // reasons with source lines, each once
  std::vector<std::string> fallbacks;          // why calls ran eagerly
  std::vector<std::string> guards;             // of the latest variant
  std::vector<std::string> graphs;             // of the latest variant, as text
  std::vector<std::string> saved;              // by variant and inputs whose gradients were wanted: what calls keep for backward(), and why
  std::vector<std::string> tuning;  // by variant, with the option tune_in_background: how far it is, what it found, why it failed
  std::vector<std::string> hints;   // options that would make calls faster, each once
};
std::string to_string(const CompileReport& r);

namespace detail {

// One argument of a call, seen from the type-erased side.
using ArgumentView = std::variant<const Tensor*, const std::vector<Tensor>*, int64_t, double, bool, std::string_view>;
// Calls the function with other tensors in place of those in the arguments, in their order.
using Body = std::vector<Tensor> (*)(void* function, std::span<const Tensor> tensors, std::span<const ArgumentView> arguments);

class Function {
 public:
  explicit Function(CompileConfig config);
  ~Function();
  std::vector<Tensor> call(std::span<const ArgumentView> arguments, Body body, void* function);
  CompileReport report() const;
  void reset();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// UserError for null: a compiled function that was moved from.
Function& require_function(const std::shared_ptr<Function>& f);

// Runs body outside of the trace, if there is one: what was recorded so far runs first.
std::vector<Tensor> run_untraced(std::span<const ArgumentView> arguments, Body body, void* function);

template <class D>
inline constexpr bool is_passable = std::is_same_v<D, Tensor> || std::is_same_v<D, std::vector<Tensor>> || std::is_same_v<D, SymInt> ||
                                    std::is_arithmetic_v<D> || std::is_convertible_v<const D&, std::string_view>;

template <class T>
struct Passed {
  using D = std::decay_t<T>;
  using Type = std::conditional_t<
      std::is_same_v<D, Tensor> || std::is_same_v<D, std::vector<Tensor>> || std::is_same_v<D, bool>, D,
      std::conditional_t<std::is_same_v<D, SymInt> || std::is_integral_v<D>, int64_t,
                         std::conditional_t<std::is_floating_point_v<D>, double, std::conditional_t<is_passable<D>, std::string, D>>>>;
};

template <class T>
ArgumentView view_of(const T& v) {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)
    return &v;
  else if constexpr (std::is_same_v<T, bool>)
    return v;
  else if constexpr (std::is_same_v<T, SymInt> || std::is_integral_v<T>)
    return static_cast<int64_t>(v);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(v);
  else if constexpr (is_passable<T>)
    return std::string_view(v);
  else {
    static_assert(
        sizeof(T) == 0,
        "an argument of a compiled function is a Tensor, std::vector<Tensor>, number, bool, SymInt or text: give the parts of a map, "
        "an optional or a struct one by one, and other values by capture (they are baked in: see Watched)");
    return false;
  }
}

// Reads the next argument; tensors come from `tensors`.
template <class T>
T take(std::span<const ArgumentView> arguments, size_t& position, std::span<const Tensor> tensors, size_t& next) {
  const ArgumentView& v = arguments[position++];
  if constexpr (std::is_same_v<T, Tensor>) {
    return tensors[next++];
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>>) {
    size_t n = std::get<const std::vector<Tensor>*>(v)->size();
    next += n;
    return {tensors.begin() + static_cast<std::ptrdiff_t>(next - n), tensors.begin() + static_cast<std::ptrdiff_t>(next)};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(std::get<std::string_view>(v));
  } else if constexpr (is_passable<T>) {
    return std::get<T>(v);
  } else {
    static_cast<void>(v);
    throw std::bad_variant_access();  // view_of() says what is allowed
  }
}

// Results as a list, and back.
template <class R>
struct Results {
  static_assert(sizeof(R) == 0, "a compiled function returns Tensor, std::vector<Tensor>, an array, tuple or pair of these, or void");
  static std::vector<Tensor> list(R r);
  static R value(std::vector<Tensor> l);
};
template <>
struct Results<Tensor> {
  static std::vector<Tensor> list(Tensor r) { return {std::move(r)}; }
  static Tensor value(std::vector<Tensor> l) { return std::move(l.at(0)); }
};
template <>
struct Results<std::vector<Tensor>> {
  static std::vector<Tensor> list(std::vector<Tensor> r) { return r; }
  static std::vector<Tensor> value(std::vector<Tensor> l) { return l; }
};
inline void append_part(std::vector<Tensor>& out, Tensor& t) { out.push_back(std::move(t)); }
inline void append_part(std::vector<Tensor>& out, std::vector<Tensor>& part) {
  for (Tensor& t : part) out.push_back(std::move(t));
}
template <class Part>
Part take_part(std::vector<Tensor>& list, size_t& next, [[maybe_unused]] size_t rest) {
  if constexpr (std::is_same_v<Part, Tensor>) {
    return std::move(list.at(next++));
  } else {
    Part out;
    for (size_t end = next + rest; next < end;) out.push_back(std::move(list.at(next++)));
    return out;
  }
}
template <class... T>
inline constexpr bool are_results = ((std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<Tensor>>)&&...) &&
                                    (size_t{std::is_same_v<T, std::vector<Tensor>>} + ... + size_t{0}) <= 1;

template <class Tuple, bool are_tensors>
struct TupleResults {
  static std::vector<Tensor> list(Tuple r) {
    std::vector<Tensor> out;
    std::apply([&](auto&... part) { (append_part(out, part), ...); }, r);
    return out;
  }
  static Tuple value(std::vector<Tensor> l) {
    constexpr size_t kParts = std::tuple_size_v<Tuple>;
    [[maybe_unused]] size_t next = 0, rest = l.size() + 1 < kParts ? 0 : l.size() + 1 - kParts;
    // Braces: from left to right.
    return [&]<size_t... I>(std::index_sequence<I...>) { return Tuple{take_part<std::tuple_element_t<I, Tuple>>(l, next, rest)...}; }
    (std::make_index_sequence<kParts>{});
  }
};
template <class Tuple>
struct TupleResults<Tuple, false> {
  static_assert(sizeof(Tuple) == 0,
                "an array, tuple or pair that a compiled function returns holds Tensor, and at most one std::vector<Tensor> beside: join "
                "lists into one, and make tensors of numbers");
  static std::vector<Tensor> list(Tuple r);
  static Tuple value(std::vector<Tensor> l);
};
template <class... T>
struct Results<std::tuple<T...>> : TupleResults<std::tuple<T...>, are_results<T...>> {};
template <class A, class B>
struct Results<std::pair<A, B>> : TupleResults<std::pair<A, B>, are_results<A, B>> {};
template <class T, size_t n>
struct Results<std::array<T, n>> : TupleResults<std::array<T, n>, std::is_same_v<T, Tensor>> {};

template <class F, class... T>
std::vector<Tensor> invoke(void* function, [[maybe_unused]] std::span<const Tensor> tensors,
                           [[maybe_unused]] std::span<const ArgumentView> arguments) {
  [[maybe_unused]] size_t next = 0, position = 0;
  // Braces: the arguments are read from left to right.
  std::tuple<T...> values{take<T>(arguments, position, tensors, next)...};
  using R = std::invoke_result_t<F&, T&...>;
  if constexpr (std::is_void_v<R>) {
    std::apply(*static_cast<F*>(function), values);
    return {};
  } else {
    return Results<std::decay_t<R>>::list(std::apply(*static_cast<F*>(function), values));
  }
}

}  // namespace detail

// A compiled function. Copies share their compiled code; one that was moved from can only be assigned (UserError). Safe to call from
// several threads, if the function itself is.
template <class F>
class Compiled {
 public:
  Compiled(F fn, CompileConfig config)
      : fn_(std::make_shared<F>(std::move(fn))), function_(std::make_shared<detail::Function>(std::move(config))) {}

  // The first call traces and compiles; later ones run the compiled code while the guards hold. Arguments are tensors, lists of
  // tensors, and numbers, truth values and texts, whose values are guarded.
  template <class... A>
  auto operator()(A&&... args) const {
    std::array<detail::ArgumentView, sizeof...(A)> views{detail::view_of<std::decay_t<A>>(args)...};
    using R = std::invoke_result_t<F&, typename detail::Passed<A>::Type&...>;
    auto results = detail::require_function(function_).call(views, &detail::invoke<F, typename detail::Passed<A>::Type...>, fn_.get());
    if constexpr (!std::is_void_v<R>) return detail::Results<std::decay_t<R>>::value(std::move(results));
  }

  CompileReport report() const { return detail::require_function(function_).report(); }
  // Forgets all compiled code; the next call compiles again.
  void reset() { detail::require_function(function_).reset(); }

 private:
  std::shared_ptr<F> fn_;
  std::shared_ptr<detail::Function> function_;
};

// The compiled form of fn, which takes tensors (and numbers) and returns a Tensor, a std::vector, array, tuple or pair of them, or nothing.
// UserError for unknown options. A module: toroid/nn/compile.h.
//
// What fn captures. Elements of captured tensors, and of those in captured modules and containers, are read at each call. Where such a
// variable (the Tensor object) is assigned, moved from or destroyed, or a module's load_state(), to(), train() or eval() is called, the
// next call sees it: other tensors of the same dtype, sizes, strides and device are taken over without a compile (CompileReport::rebinds),
// any other change compiles again. Frozen at the first call are captured integers, bools, strings and pointers (wrap numbers that change in
// Watched), and the length of captured containers; the option verify_trace finds what has changed of those. With the option freezing the
// elements of captured tensors are frozen, too.
//
// Numbers that fn reads from captured tensors (item(), to_vector(), data()) are part of the compiled code, and compared at each call. Once
// one has changed, such reads end the graph, as reads of other tensors do, or, with fullgraph, each value is another compile. A read of
// what fn has written before ends the graph at once, and is a UserError with fullgraph. Of tensors of more than 256 bytes, and on GPUs,
// writes by operations are seen, and not those by data().
//
// Indices in tensors that are out of range are a UserError of the call, as in PyTorch (option check_indices); on a GPU of the next call
// that waits for the device: synchronize(), a copy to the host, item(). Tensors that fn writes in place then hold what was written up to
// there, and nothing outside of them has been touched. The next call is clean.
//
// Results have memory of their own: where fn returns an argument, a captured tensor or a view of one, the caller gets a copy of the
// elements as they are at the end of the call, and a tensor that fn returns twice comes as two. (Called without compile(), fn returns
// tensors that share memory. Results that are to be written for others to see must be arguments that fn writes.) A function that is split
// by reads of values, or that runs eagerly (CompileReport::eager_calls), may return either.
template <class F>
Compiled<std::decay_t<F>> compile(F&& fn, CompileConfig config = {}) {
  return {std::forward<F>(fn), std::move(config)};
}

// A function that is never traced: inside of a compiled function it ends the graph and runs on ordinary tensors.
template <class F>
auto compile_disable(F fn) {
  return [fn = std::make_shared<F>(std::move(fn))](const auto&... args) {
    std::array<detail::ArgumentView, sizeof...(args)> views{detail::view_of<std::decay_t<decltype(args)>>(args)...};
    using R = std::invoke_result_t<F&, typename detail::Passed<decltype(args)>::Type&...>;
    auto results = detail::run_untraced(views, &detail::invoke<F, typename detail::Passed<decltype(args)>::Type...>, fn.get());
    if constexpr (!std::is_void_v<R>) return detail::Results<std::decay_t<R>>::value(std::move(results));
  };
}

// Makes one dimension of t symbolic in every trace that takes it: one compile covers sizes min to max. Code that needs a fixed size, or a
// narrower range, is then a UserError that names the line: with a min of 0 or 1 also code that broadcasts the dimension where it is 1. With
// the min of 2 these sizes get code of their own. dim may be negative.
void mark_dynamic(const Tensor& t, int64_t dim, int64_t min = 2, int64_t max = int64_t{1} << 60,
                  Tensor::Where where = Tensor::Where::current());
// Keeps a dimension (or all) of t out of automatic dynamic sizes.
void mark_static(const Tensor& t, std::optional<int64_t> dim = std::nullopt, Tensor::Where where = Tensor::Where::current());

// What compiled functions do at run time, for the whole process.
enum class Stance {
  Default,
  ForceEager,        // run the functions as they are
  EagerOnRecompile,  // compiled code where guards match, eager elsewhere
  FailOnRecompile,   // UserError where guards do not match
};
// Returns the stance before.
Stance set_stance(Stance s);

// Whether this thread is tracing a function.
bool is_compiling();

// Drops the compiled code of all functions and of eager operations.
void reset();

// What compile() makes of a call.
struct Explanation {
  size_t graph_count = 0;
  size_t operation_count = 0;
  std::vector<std::string> breaks;  // reasons with source lines
  std::vector<std::string> guards;
  std::vector<std::string> graphs;  // as text
  std::vector<std::string> saved;   // where arguments require gradients: what a call keeps for backward(), and why
};
std::string to_string(const Explanation& e);

namespace detail {
Explanation explain(std::span<const ArgumentView> arguments, Body body, void* function, CompileConfig config);
}

// Traces fn on the arguments and tells about it. Parts before graph breaks are run, by the reference evaluator.
template <class F, class... A>
Explanation explain(F fn, const A&... args) {
  std::array<detail::ArgumentView, sizeof...(A)> views{detail::view_of<std::decay_t<A>>(args)...};
  return detail::explain(views, &detail::invoke<F, typename detail::Passed<A>::Type...>, &fn, {});
}

}  // namespace toroid
