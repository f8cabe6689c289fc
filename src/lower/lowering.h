// Lowering a functional graph to loops and problems. The way of it: each graph value becomes a Lazy, an expression that can be asked
// for the element at an index; views and pointwise operations only compose such expressions. A value is realized (given a buffer and a
// node that fills it) where that pays or where memory is needed: reductions, template operands, outputs, values with several users.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "base/compile_options.h"
#include "program/program.h"
#include "target/target.h"

namespace toroid::lower {

// Where element (i, j, ...) of a realized value is.
struct Place {
  int buffer = -1;
  Expr offset = 0;
  std::vector<Expr> strides;
};

using Index = std::vector<Expr>;

// A function of an index. Copies share it: what is composed of many values holds each of them once.
class Element {
 public:
  Element() = default;
  template <class F>
  requires(!std::is_same_v<std::decay_t<F>, Element>) Element(F f)  // NOLINT: functions are written as they are
      : function_(std::make_shared<const Function>(std::move(f))) {}
  S operator()(loop::BodyBuilder& b, const Index& index) const { return (*function_)(b, index); }

 private:
  using Function = std::function<S(loop::BodyBuilder&, const Index&)>;
  std::shared_ptr<const Function> function_;
};

struct Lazy {
  DType dtype = DType::F32;
  std::vector<Expr> sizes;
  // The element at an index, in compute_type(dtype).
  Element at;
  // Set when the elements are in memory.
  std::optional<Place> place;
  bool over_template = false;  // reads the result of a template, whose epilogue it can become
  bool over_open = false;      // over the result of a call with several implementations: each operation may be fused with it or not
  int work = 0;                // scalar operations that one element costs, transcendental ones counted as several
  int loads = 1;               // memory reads that one element costs
};

struct LowerOptions {
  CompileOptions options = {};
  const target::Target* target = nullptr;  // what the program is for; null: target::reference(), which takes nothing

  // Products, convolutions, attention and sorts that the target takes become problems; otherwise loops and calls.
  bool templates() const { return options.get(options::kTemplates); }
  // Indices in tensors are looked at before memory is, see docs/architecture.md.
  bool checks() const { return options.get(options::kCheckIndices); }
  // Otherwise every value is realized: one node an operation.
  bool composes() const { return options.fusion() != Fusion::None; }
};

// How an index is looked at where it is computed.
struct IndexCheck {
  bool wraps = false;          // negative ones count from the end
  int faults = -1, site = -1;  // of a Check step; -1: none is needed
};

struct CheckedIndex {
  Expr at;                  // in [0, extent), where there is such a number
  std::optional<S> inside;  // unless it is false there; unset: it is not
};
// An index, of any integer dtype, into a dimension of `extent`.
CheckedIndex checked_index(loop::BodyBuilder& b, S raw, const Expr& extent, const IndexCheck& check);
// An integer that is divided by.
void check_divisor(loop::BodyBuilder& b, S divisor, const IndexCheck& check);

class Lowering {
 public:
  Lowering(const graph::Graph& g, const LowerOptions& options);
  program::Program run();

  // --- what the rules of the operation families use ---
  const Lazy& value(const graph::Value* v) const { return values_.at(v); }
  void define(const graph::Value* v, Lazy lazy);
  // Memory for a value; computes it there when it is not in memory yet. `dense`: row-major without gaps.
  Place realize(const graph::Value* v, bool dense = false);
  // A place for an operand whose index map is linear over a realized buffer (views of it included), else realizes.
  Place strided(const graph::Value* v);
  Lazy at_place(const TensorType& type, Place place);
  // A value that has no elements (a constant size is 0), from nothing. Its element function can be asked, at an index of any rank.
  Lazy nothing(const TensorType& type);
  // Memory for a value whose dimensions lie in the order in which those of `like` do (channels last stays channels last).
  Place allocate_like(const graph::Value* v, const Lazy& like);
  // The same for the result of a reduction of `input` over some dimensions.
  Place allocate_reduced(const graph::Value* v, const Lazy& input, const std::vector<bool>& reduced);
  // A new dense buffer for a result.
  Place allocate(const std::string& name, const TensorType& type);
  // A buffer that several nodes read, which `make` gives when it is first asked for. what: which it is of those made of the value.
  int shared_buffer(const graph::Value* of, const std::string& what, const std::function<int()>& make);
  // A new loop variable; the constant 0 for an extent of 1.
  Expr fresh_var(const Expr& extent, bool reduction);
  Expr fresh_symbol(const Expr& extent, bool reduction);
  // Where a scatter into `self` (the first operand of n) may write: self's own memory when the graph allows it, else a copy.
  Place place_for_update(const graph::Node& n);
  // The node overwrites part of an input that nothing reads afterwards, and may do so in the input's memory.
  bool is_inplace(const graph::Node& n) const { return inplace_.count(&n) > 0; }
  // Appends a node.
  program::Node& append(program::Node node, const graph::Value* origin);
  // A loop over `sizes` that stores value(index) at place; returns the node.
  void fill(const Place& place, DType dtype, const std::vector<Expr>& sizes, const Element& element, const graph::Value* origin);
  // Number of readers of a value among nodes, plus one when it is an output.
  int uses(const graph::Value* v) const;
  // Whether a value has several readers, or one that gives parts of it.
  bool is_read_apart(const graph::Value* v) const;
  // Whether it is computed once where it has several readers: computing it again is dearer than reading it back.
  static bool is_dear(const Lazy& lazy);
  program::Program& program() { return program_; }
  const LowerOptions& options() const { return options_; }
  // What the program is for.
  const target::Facts& facts() const { return (options_.target ? *options_.target : target::reference()).facts(); }
  // Whether the target takes a problem. constant: its right operand or weight is.
  bool takes(const program::Problem& problem, bool constant = false) const {
    return taker().refusal(problem, {options_.options, constant}).empty();
  }
  // How an index of n into a dimension of `extent` is looked at. indices: the tensor; where it is constant this is done now: UserError.
  IndexCheck check_of(const graph::Value* indices, const IndexSite& site, const Expr& extent);
  // How values are looked at that the site names.
  IndexCheck check_of(const IndexSite& site);
  // How what n divides by is looked at: integers on CPUs that nobody knows not to be 0.
  IndexCheck divisor_check(const graph::Node& n, DType compute);
  // Lowers a composite operation through what it is made of.
  void lower_composite(const graph::Node& n);
  // cond, while_loop, scan.
  void lower_control_flow(const graph::Node& n);
  // Custom operations that are left whole.
  void lower_custom(const graph::Node& n);
  // What the ranks of a group do together.
  void lower_collective(const graph::Node& n);
  // Runs the operation's kernel on realized operands.
  void lower_extern(const graph::Node& n);

 private:
  const target::Target& taker() const { return options_.templates() && options_.target ? *options_.target : target::reference(); }
  void lower_node(const graph::Node& n);
  // Defines the results of an operation when none of them has elements; false, and nothing done, when one may have some.
  bool lower_empty(const graph::Node& n);
  // Computes now what still reads `buffer` and is used by this node or later, before it is overwritten.
  void settle_readers(int buffer, const graph::Value* except);
  // Whether some address divides a variable of the value.
  bool divides(const Lazy& lazy);
  Place row_major(const graph::Value* v);
  Place dense(const graph::Value* v);
  // Where an operand of an opaque operation, or of another one that runs as a call, is as that takes it.
  Place operand_of_call(const graph::Node& call, const graph::Value* v);
  program::Extern::View custom_operand(const graph::Value* v);
  // Of an all_reduce. False, and nothing done, where it is none of theirs.
  bool lower_meeting(const graph::Node& n);
  bool lower_reduction_ways(const graph::Node& n);
  std::shared_ptr<graph::Graph> block_of(const graph::Node& n, const graph::Graph& region) const;
  // What a constant input holds; undefined for other values.
  Tensor constant_of(const graph::Value* v) const;
  void lower_inputs();
  void lower_outputs();
  // Element after element the memory of an input, not a view that walks through it in another way.
  bool is_input_memory(const Place& p, size_t input) const;

  const graph::Graph& graph_;
  LowerOptions options_;
  program::Program program_;
  std::unordered_map<const graph::Value*, Lazy> values_;
  std::unordered_map<const graph::Value*, int> uses_, last_use_;            // number of readers; position of the last one
  std::unordered_map<const graph::Value*, const graph::Value*> stand_ins_;  // inputs of the parts of composites: what they stand for
  std::unordered_set<const graph::Node*> inplace_;
  std::map<std::pair<const graph::Value*, std::string>, int> shared_buffers_;
  int position_ = 0;                                  // of the node that is being lowered
  std::vector<std::unique_ptr<graph::Graph>> parts_;  // of composites: own the values that values_ names
  int vars_ = 0;
};

// The flat element index of an index at a place.
Expr flat_index(const Place& p, const Index& index);
std::vector<Expr> dense_strides(const std::vector<Expr>& sizes);
// Of a tensor, row-major where its type says nothing else; and the elements from its first to behind its last.
std::vector<Expr> strides_of(const TensorType& type);
Expr extent_of(const TensorType& type);
// Whether strides are those of a row-major tensor of these sizes (dimensions of extent 1 aside).
bool is_dense(const Place& p, const std::vector<Expr>& sizes);

// Rules by operation name; nullptr when the family has none.
using Rule = void (*)(Lowering&, const graph::Node&);
Rule find_rule(const std::string& op_name);

// Families.
void lower_pointwise(Lowering& l, const graph::Node& n);
void lower_view(Lowering& l, const graph::Node& n);
void lower_pad(Lowering& l, const graph::Node& n);
void lower_reduction(Lowering& l, const graph::Node& n);

program::Program lower(const graph::Graph& g, const LowerOptions& options = {});

}  // namespace toroid::lower
