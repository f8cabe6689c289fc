// One row of the op table: everything that Toroid knows of an operation, and the views through which its functions read arguments.
#pragma once

#include <functional>
#include <optional>

#include "base/check.h"
#include "base/scalar_builder.h"
#include "ops/schema.h"

namespace toroid::ops {

struct Op;

// Typed access to the arguments of one call, by parameter name. A missing parameter name is an InternalError; a value of the wrong
// type a UserError that names the operation and the parameter.
template <class T>
class ArgReader {
 public:
  ArgReader(const Op& op, std::span<const Arg<T>> args) : op_(&op), args_(args) {}

  const Op& op() const { return *op_; }
  std::span<const Arg<T>> args() const { return args_; }
  const Arg<T>& at(std::string_view name) const;
  bool has(std::string_view name) const { return !std::holds_alternative<std::monostate>(at(name)); }
  // A Tensor parameter that was given a number ("wrapped number" in type promotion).
  bool is_number(std::string_view name) const;
  T tensor(std::string_view name) const;
  // T{} when absent.
  T opt_tensor(std::string_view name) const;
  std::vector<T> tensors(std::string_view name) const;
  Expr expr(std::string_view name) const;
  std::optional<Expr> opt_expr(std::string_view name) const;
  std::vector<Expr> exprs(std::string_view name) const;  // empty when absent
  // Integers that must be known when compiling.
  int64_t integer(std::string_view name) const;
  std::optional<int64_t> opt_integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  double real(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  Number number(std::string_view name) const;
  std::optional<Number> opt_number(std::string_view name) const;
  bool flag(std::string_view name) const;  // false when absent
  std::string text(std::string_view name) const;
  std::optional<DType> dtype(std::string_view name) const;

 private:
  const Op* op_;
  std::span<const Arg<T>> args_;
};

using TypeReader = ArgReader<const TensorType*>;
using CallReader = ArgReader<Tensor>;

// A type rule fills `results` (one a result, tensor lists flattened).
struct MetaCall : TypeReader {
  using TypeReader::TypeReader;
  std::vector<TensorType> results;
  // Truth of a relation between sizes; may add a guard.
  std::function<bool(const sym::Relation&)> decide;
  // A size that only the run will tell.
  std::function<Expr()> fresh_size;
  // Makes a relation that is not known a guard of the program, whose failure is an error of the operation. See require().
  std::function<void(const sym::Relation&, const std::string& error)> demand;

  void result(DType dtype, std::vector<Expr> sizes) { results.push_back({dtype, std::move(sizes), {}}); }
  // What the operation refuses sizes without: UserError (the message, which begins with the operation's name) where the relation is known
  // not to hold; where it depends on open sizes it is checked in each run, before anything reads memory. So a rule never passes over a
  // check because a size is open.
  template <class... Args>
  void require(const sym::Relation& r, fmt::format_string<Args...> message, Args&&... args) {
    const auto k = sym::known(r);
    if (!k || !*k) refuse_or_demand(r, k.has_value(), fmt::format(message, std::forward<Args>(args)...));
  }
  // The same of equal sizes. Where one of two equal sizes is a number, results may have either.
  template <class... Args>
  void require_same(const Expr& a, const Expr& b, fmt::format_string<Args...> message, Args&&... args) {
    require({sym::Rel::Eq, a, b}, message, std::forward<Args>(args)...);
  }
  // The tensor must be a vector of n elements.
  template <class... Args>
  void require_vector(const TensorType& t, const Expr& n, fmt::format_string<Args...> message, Args&&... args) {
    if (t.dim() == 1)
      require_same(t.sizes[0], n, message, std::forward<Args>(args)...);
    else
      fail<UserError>("{}", fmt::format(message, std::forward<Args>(args)...));
  }
  // The tensor must have so many dimensions. A rank is no size: it is known when compiling.
  template <class... Args>
  void require_rank(const TensorType& t, int64_t rank, fmt::format_string<Args...> message, Args&&... args) {
    if (t.dim() != rank) fail<UserError>("{}", fmt::format(message, std::forward<Args>(args)...));
  }
  // Equal sizes, by proof or by guard: a choice between rules, never a check.
  bool same(const Expr& a, const Expr& b) { return decide_or_known({sym::Rel::Eq, a, b}); }
  bool decide_or_known(const sym::Relation& r) {
    if (auto k = sym::known(r)) return *k;
    return decide(r);
  }

 private:
  void refuse_or_demand(const sym::Relation& r, bool known, const std::string& error) const;
};

// The same for functions of composites, about the sizes of their operands.
void require_relation(const sym::Relation& r, const std::string& error);
template <class... Args>
void require(const sym::Relation& r, fmt::format_string<Args...> message, Args&&... args) {
  if (!sym::known(r).value_or(false)) require_relation(r, fmt::format(message, std::forward<Args>(args)...));
}

// A scalar formula: operand i is the i-th Tensor parameter, already in the compute dtype.
struct FormulaCall : TypeReader {
  using TypeReader::TypeReader;
  std::vector<S> operands;
  DType compute = DType::F32;
  S operator[](size_t i) const { return operands[i]; }
  // A constant of the compute dtype.
  S constant(double v) const { return lit_as(operands.at(0), compute, Number::of(v)); }
  // A Scalar parameter as a constant of the compute dtype.
  S constant(std::string_view name) const { return lit_as(operands.at(0), compute, number(name)); }
};

// The reference implementation on host memory. `outputs` are allocated row-major from the type rule; those with sizes that only the
// run tells are undefined, and the kernel sets them.
struct KernelCall : CallReader {
  using CallReader::CallReader;
  std::vector<Tensor> outputs;
};

// How a pointwise operation finds its dtypes. Operands are cast to the compute dtype: the promoted dtype, but f32 for f16 and bf16.
enum class Promote : uint8_t {
  Default,    // result = promoted dtype of the operands
  Float,      // integers and Bool become f32
  Compare,    // compute in the promoted dtype, result Bool
  Logical,    // operands become Bool, result Bool
  KeepFirst,  // result and compute dtype are the first operand's
  Predicate,  // as the first operand, result Bool
};

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin, Any, All };

using Meta = void (*)(MetaCall&);
using Formula = S (*)(const FormulaCall&);
using Kernel = void (*)(KernelCall&);
// A pointwise operation on complex numbers (operands in schema order, numbers included).
using ComplexFormula = std::complex<double> (*)(std::span<const std::complex<double>>);
using Decompose = std::vector<Tensor> (*)(const CallReader&);
// Index into the viewed tensor of element `index` of result number `result`.
using IndexMap = std::vector<Expr> (*)(const TypeReader&, size_t result, const std::vector<Expr>& index);
// The viewed tensor after result number `result` of the view was overwritten by `value`.
using WriteBack = Tensor (*)(const CallReader&, size_t result, const Tensor& value);

struct Op {
  std::string name;  // "add.Tensor"; the overload ".default" is left out
  Schema schema;
  Meta meta = nullptr;
  // What it is, exactly one of: formula (pointwise), index_map (view), decompose (in terms of other operations), or none of them: then
  // `kernel` defines it, and lowering knows it or it runs as an extern call.
  Formula formula = nullptr;
  IndexMap index_map = nullptr;
  Decompose decompose = nullptr;
  Kernel kernel = nullptr;
  ComplexFormula complex_formula = nullptr;  // pointwise rows that also take complex operands
  std::optional<ReduceKind> reduce;          // reductions over parameter "dim" (int or list, absent = all) with optional "keepdim"

  Promote promote = Promote::Default;
  uint32_t bool_operands = 0;  // bit i: operand i is a condition, cast to Bool and not promoted
  WriteBack write_back = nullptr;
  const Op* inplace_of = nullptr;  // add_.Tensor -> add.Tensor: writes the first result into the first argument
  bool random = false;             // results differ from call to call
  bool effect = false;             // kept though nothing uses its results (assertions)
  bool collective = false;         // all ranks of a group call it together, in one order
  bool divides = false;            // pointwise, by its second parameter; where integers are divided by 0 that is a UserError on CPUs
  const Op* primal = nullptr;      // the pointwise row whose derivative by its parameter number primal_param this one is (ops/derivative.h)
  size_t primal_param = 0;
  // Composites of which a result may be an argument, or a view of one: those whose schema says so, and others of which ATen's does not.
  // Writes to the result are writes to the argument, so that such a call is always that of its parts.
  bool may_alias = false;
  // Kept whole where a template exists (attention); decomposed elsewhere.
  bool has_template = false;
  double domain_lo = -3, domain_hi = 3;  // operand values for generated samples
};

// The namespace of a name that is not ATen's, with its dot: "prims.", "_c10d_functional."; else empty.
std::string_view space_of(std::string_view name);
// Its name for errors, without overload and namespace: "remainder".
std::string_view plain_name(const Op& op);
// Which of the tensor operands of a binary operation its second parameter is; -1: a number.
int second_operand(const Op& op);

// One-element view of dtype rules used by several type rules.
DType promote_types(DType a, DType b);
// float for integers and Bool.
DType float_type(DType t);
// f32 for f16 and bf16, else t.
DType compute_type(DType t);
// Result sizes of broadcasting. UserError naming the operation when sizes do not fit.
std::vector<Expr> broadcast(MetaCall& c, const std::vector<Expr>& a, const std::vector<Expr>& b);
// Promoted dtype of a call's tensor operands (0-d tensors and numbers take part by category only, as in PyTorch), skipping bool_operands.
DType promoted_dtype(const TypeReader& c);
// Where the results of a call are: where its tensors are, else default_device(). UserError naming two tensors that are on different
// devices; those without dimensions, and indices, may be on the CPU.
Device device_of(const Op& op, std::span<const Arg<Tensor>> args);
// Non-negative dimension. UserError naming the operation when out of range; 0 and -1 are allowed for 0-d tensors.
int64_t normal_dim(const Op& op, int64_t dim, int64_t rank);

}  // namespace toroid::ops
