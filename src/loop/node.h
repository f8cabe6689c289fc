// Loop IR: an iteration domain and one scalar SSA body of loads, reductions, scans and stores at symbolic addresses.
//
// A node runs its body for every point of its domain. A variable is either a space variable or a reduction variable. Values that
// depend on a reduction variable exist once for each of its points; a Reduce step folds such a value over all reduction variables, and
// its result exists once for each point of the space variables. A value may depend on both (softmax: exp(x[s, r] - max[s])): the body
// then takes several passes over the reduction variables, which the code generator derives. A Scan step is the fold as far as it has
// come: at each point of the reduction variables, taken in row-major order, its result is the fold of that point and all before it. Fusing
// two nodes is joining two bodies over one domain: a load of what the other stores becomes its value.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/scalar_builder.h"
#include "toroid/sym_expr.h"

namespace toroid::loop {

// Faults: where Check steps leave what they find, see base/index_fault.h; no node reads it, and no order between nodes follows from it.
// Peers: what the ranks of a group share, whose name the buffer has; nodes that meet follow each other by it.
enum class BufferKind : uint8_t { Input, Constant, Temporary, Output, Faults, Peers };

// Each run has its own, or the group that it belongs to: it is no input, and nothing is computed in it.
constexpr bool is_of_runs(BufferKind kind) { return kind == BufferKind::Faults || kind == BufferKind::Peers; }

// Memory that nodes read and write; elements are addressed by a flat element index.
struct Buffer {
  int id = 0;
  std::string name;
  DType dtype = DType::F32;
  Expr numel = 1;  // extent of the storage in elements
  BufferKind kind = BufferKind::Temporary;
};

enum class Step : uint8_t {
  Scalar,      // op over earlier values
  Load,        // buffer[index]; with mask: 0 where the mask is false, and no access there
  Index,       // the value of `index` as I64
  Reduce,      // folds args[0] over the reduction variables (ArgMax, ArgMin: result I64, the position in row-major order of them)
  Scan,        // at each point: args[0] folded over this and all earlier points of the reduction variables
  Store,       // buffer[index] = args[0]; with mask: only where true
  Accumulate,  // template nodes: what the template computed for this point; value 1: the product with the second right operand
  Check,       // args[0] where it lies in [0, index); else 0, and the first such value is left in the buffer with the site `value`.
               // With mask: 0 where the mask is false, and nothing is looked at there
};

// How Reduce and Scan fold. ArgMax, ArgMin: of equal elements Reduce takes the first one, Scan the last one, and NaN wins over all others.
// Scans: no Any and All; LogSumExp (log of the sum of exponentials) is theirs alone.
enum class Reduction : uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin, Any, All, LogSumExp };
std::string_view name_of(Reduction kind);
// Add to Min: read-modify-write, for scatters. Sum, of templates and of loops over rows: an element becomes the sum of what all points
// store there, and 0 where none does; what it held before does not count (see program::sums_place()).
enum class StoreMode : uint8_t { Set, Add, Mul, Max, Min, Sum };

// One step of a body. Steps are numbered from 0; args refer to earlier steps. A step's index may use, besides the domain's variables
// and size symbols, value symbols: the I64 value of step k (indirect addressing).
struct Statement {
  Step step = Step::Scalar;
  ScalarOp op = ScalarOp::Const;  // Scalar
  DType dtype = DType::F32;       // of the value; Store: of the buffer
  int args[3] = {-1, -1, -1};
  Number value;     // Scalar Const; Check: number of the site in its program
  int buffer = -1;  // Load, Store; Check: of kind Faults
  Expr index;       // Load, Store, Index; Check: the extent
  int mask = -1;    // Load, Store, Check: a Bool step
  Reduction reduction = Reduction::Sum;
  StoreMode mode = StoreMode::Set;
};

struct Var {
  Expr symbol;  // a loop_symbol: carries the extent
  bool reduction = false;
  const Expr& extent() const { return symbol.node()->extent; }
};

// Vars are in nominal order, outermost first; ArgMax counts positions in that order.
struct Domain {
  std::vector<Var> vars;
};

struct Body {
  std::vector<Statement> steps;
};

struct Nest {
  Domain domain;
  Body body;
};

// The symbol that stands for the value of step k in index expressions.
using sym::value_symbol;
// k of a value symbol, -1 for other symbols.
inline int step_of_symbol(const sym::Node& n) {
  return n.kind == sym::Kind::Symbol && n.symbol == sym::SymbolKind::Value ? static_cast<int>(n.id) : -1;
}

// Calls f(k) for each step k that a statement reads, through arguments, mask and value symbols of its index.
template <class F>
void for_each_use(const Statement& s, F&& f) {
  for (int a : s.args)
    if (a >= 0) f(static_cast<size_t>(a));
  if (s.mask >= 0) f(static_cast<size_t>(s.mask));
  sym::for_each_symbol(s.index, [&](const Expr& e) {
    if (int k = step_of_symbol(*e.node()); k >= 0) f(static_cast<size_t>(k));
  });
}
// Whether a store reads what it writes over.
inline bool folds_into_memory(const Statement& s) { return s.step == Step::Store && s.mode != StoreMode::Set && s.mode != StoreMode::Sum; }
inline bool stores_sum(const Statement& s) { return s.step == Step::Store && s.mode == StoreMode::Sum; }
// How many sums of each column a store of a loop over rows leaves, by its index: row r is in sum r mod that. 0: it says nothing of that.
int64_t sums_of_column(const Statement& s);
// Does an index depend on the values of steps?
bool uses_values(const Expr& index);

// Appends steps to a body; equal steps are made once. Formulas are written into bodies through it.
class BodyBuilder : public ScalarBuilder {
 public:
  explicit BodyBuilder(Body& body) : body_(body) {}
  int emit(const ScalarNode& node) override;  // folds constants
  // Under a mask (below) the load gives 0, without an access, where the mask is false.
  S load(int buffer, DType dtype, const Expr& index);
  S index(const Expr& e);
  // Whether e is less than the limit, whose step is the first of the two with any compiler: it chooses the order of arguments.
  S is_below(const Expr& e, const Expr& limit);
  // `value`, an I64, where it lies in [0, extent); see Step::Check. Under a mask it is looked at only where the mask is true.
  S check(S value, const Expr& extent, int faults, int site);
  S reduce(Reduction kind, S value) { return fold(Step::Reduce, kind, value); }
  S scan(Reduction kind, S value) { return fold(Step::Scan, kind, value); }
  S accumulator(DType dtype);
  void store(int buffer, DType dtype, const Expr& index, S value, StoreMode mode = StoreMode::Set, int mask = -1);
  // An I64 value as part of index expressions, with the bounds it is known to lie in.
  Expr as_index(S value, int64_t lo, int64_t hi);
  S constant(DType dtype, Number v);
  // Loads made while a mask is set are masked by the conjunction of the masks.
  void push_mask(S condition) { masks_.push_back(masks_.empty() ? condition : masks_.back() & condition); }
  void pop_mask() { masks_.pop_back(); }
  Body& body() { return body_; }

 private:
  int add(Statement s);
  S fold(Step step, Reduction kind, S value);
  std::vector<S> masks_;
  Body& body_;
};

// --- questions about bodies -------------------------------------------------------------------------------------------------------

// For each step, whether its value differs between points of the reduction variables.
std::vector<bool> varies_over_reduction(const Domain& d, const Body& b);
// For each step, in which pass over the reduction variables it can first be computed: 1 + the number of Reduce steps on the longest
// chain below it, counting a Reduce's result as available in the next pass.
std::vector<int> pass_of(const Domain& d, const Body& b);
bool has_reduction(const Domain& d);
// What a reduction of nothing gives, and folding starts with. ArgMax, ArgMin: of the value that is compared.
Number identity_of(Reduction kind, DType dtype);
Expr space_size(const Domain& d);
Expr reduction_size(const Domain& d);
std::vector<int> buffers_read(const Body& b);
std::vector<int> buffers_written(const Body& b);

// Removes steps that no store and no check needs, renumbering the rest.
void eliminate_dead(Body& b);
// Rebuilds a body with symbols of its indices replaced (value symbols are kept).
Body substitute(const Body& b, const sym::Substitution& replace);

// Text form, and back.
//   loop (i0: 128, r r0: 384) {
//     v0: f32 = load %3 [i0*384 + r0]
//     v1: f32 = reduce max v0
//     v2: f32 = Sub v0 v1
//     store %4 [i0*384 + r0] v2
//   }
// Variables of one name are told apart by numbers. A size that is called like one of the loop's variables or values is quoted ('i0').
// A check: `v3: i64 = check %5 v2 below [384] site 0`. What is known of values that are indices stands behind the address that they are
// part of: `v4: f32 = load %1 [16*v3 + i0] where v3 in 0..383`. Where variables were not made in the order of the domain, which sums are
// written in, their order is told: `loop (i1: 8, i0: 4) order (i0, i1) {`.
std::string to_string(const Domain& d, const Body& b);
// UserError with line and column. Sizes are symbols of any value from 0 on.
Nest parse(const std::string& text);
// The loop that begins at character number `at`, which is then behind it; its sizes are what `size_of` makes of their names.
using SizeOf = std::function<Expr(const std::string& name)>;
Nest parse_at(const std::string& text, size_t& at, const SizeOf& size_of);

// Rules: args before use, operand dtypes, masks Bool, indices over known symbols, no Store of a value outside its domain. InternalError.
void verify(const Domain& d, const Body& b, const std::string& stage);

// The definition of the IR: plain loops, floats in double. memory[i] is the first element of buffer i (null when unused); symbols gives
// the values of size symbols. Checks leave what they find in the memory of their buffer, if it has some. accumulated: what a template
// computes for a point (the values of all variables, in their order), with number 1 that of the second right operand; needed for bodies
// with Accumulate, InternalError without. InternalError also for an element outside of its buffer.
using Accumulated = std::function<Number(std::span<const int64_t> point, int64_t number)>;
void interpret(const Domain& d, const Body& b, const std::vector<Buffer>& buffers, const std::vector<std::byte*>& memory,
               const sym::Lookup& symbols, const Accumulated& accumulated = {});

}  // namespace toroid::loop
