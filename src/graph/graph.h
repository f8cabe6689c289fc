// Graph IR: a program over tensors in SSA form. Node order is execution order.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/table.h"
#include "sym/guard.h"

namespace toroid::graph {

struct Graph;
struct Node;

struct Value {
  int id = 0;
  TensorType type;
  Node* producer = nullptr;  // nullptr: an input of the graph
  size_t result = 0;         // which result of the producer
  std::string name;          // "add_3"; unique within the graph
};

using NodeArg = Arg<Value*>;

// Of a graph with gradients, after its partition (autograd/partition). Again: in the backward pass, but made of values of the forward pass
// alone, as what is computed once more; it could be computed there, but is not to be.
enum class Pass : uint8_t { Forward, Again, Backward };
inline constexpr std::string_view kPassNames[] = {"", "again", "backward"};

struct Node {
  const ops::Op* op = nullptr;
  std::vector<NodeArg> args;  // parallel to the op's schema
  std::vector<Value*> results;
  std::vector<std::shared_ptr<Graph>> regions;  // cond, while_loop, scan: see their rows
  std::string where;                            // source line or the importer's name of the node
  int checkpoint = 0;                           // number of the checkpoint that it is in (toroid/checkpoint.h); 0: none
  Pass pass = Pass::Forward;
};

// Random: seed and offset of the process's stream of random numbers, i64[2], as they are when a run begins.
enum class InputKind : uint8_t { User, Parameter, Buffer, Constant, Random };

struct Input {
  Value* value = nullptr;
  InputKind kind = InputKind::User;
  std::string name;  // "weight" path for parameters, argument name for users
  Tensor data;       // what a parameter, buffer or constant holds
  Expr draws = 0;    // Random: how many numbers a run takes from the stream
};

struct Output {
  Value* value = nullptr;  // nullptr: a literal or None, which `literal` holds
  NodeArg literal;
  int mutates = -1;  // index of the input whose new contents this is; such outputs are written back, not returned
};

// A size known only by its range, or a data-dependent one.
struct Symbol {
  Expr expr;
  bool unbacked = false;  // comes from data, not from an input's size
  // The size in the inputs at hand when the graph was made, where there were some: tuning takes it for the usual one. No part of the text,
  // as the program is the same for others.
  std::optional<int64_t> hint = {};
};

// An expression over sizes by their hints, or by a usual size where one has none.
int64_t usual_value(const Expr& e, std::span<const Symbol> symbols);

struct Graph {
  Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  std::string name = "graph";
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Value>> values;
  std::vector<Symbol> symbols;
  std::vector<sym::Guard> guards;  // what must hold of the sizes for this graph to be right

  // Room for so many.
  void reserve(size_t nodes, size_t values);
  Value* new_value(TensorType type, std::string name_hint);
  Value* add_input(TensorType type, InputKind kind, std::string name, Tensor data = {});
  // Appends a node; result types are given. Results are named after the operation unless `names` says otherwise.
  Node* add_node(const ops::Op& op, std::vector<NodeArg> args, std::vector<TensorType> types, std::string where,
                 const std::vector<std::string>& names = {});
  // Appends a node as that of another graph is, but for its arguments: its results have the types of those, and their names where they are
  // free. Regions are shared.
  Node* add_copy(const Node& other, std::vector<NodeArg> args);
  // Drops all other values, which nothing may refer to any more, and numbers these anew.
  void keep_values(const std::set<const Value*>& kept);
  const Symbol* find_symbol(const std::string& name) const;
  Expr new_symbol(const std::string& prefix, int64_t lo, int64_t hi, bool unbacked);

 private:
  Value* add_value(TensorType type, const std::string& name);  // name: an identifier

  // The names of all values, by their hashes: open addressing, of a power of two places.
  struct Name {
    const Value* value = nullptr;  // null: a free place
    size_t hash = 0;
    int suffix = 1;  // to try next where the name is taken
  };
  Name* find_name(const std::string& name, size_t hash);  // its place, or the free one where it would stand
  void make_room_for_names(size_t count);
  std::vector<Name> names_;
  size_t names_used_ = 0;
};

// Calls f on every value that a node reads (not into its regions; those read only their own inputs).
template <class F>
void for_each_operand(const Node& n, F&& f) {
  for (auto& a : n.args) {
    if (auto* v = std::get_if<Value*>(&a)) f(*v);
    if (auto* list = std::get_if<std::vector<Value*>>(&a))
      for (auto* v : *list)
        if (v) f(v);
  }
}

// Readers over a node's arguments, for type rules and lowering. `storage` keeps what the reader refers to.
std::vector<Arg<const TensorType*>> type_args(const Node& n);

// The first argument is overwritten ("add_").
inline bool is_mutating(const ops::Op& op) { return op.inplace_of || (!op.schema.params.empty() && op.schema.params[0].mutated); }

// What an input of the kind Random must be: seed and offset.
inline bool is_random_state(const TensorType& t) { return t.dtype == DType::I64 && t.sizes.size() == 1 && t.sizes[0] == Expr(2); }

// One argument as the text form has it: "%x", "[1, s0]", "0.5", "none" ...
std::string to_string(const NodeArg& a);

// The graph as text, which parse() reads back. Data of parameters is not part of it.
std::string to_string(const Graph& g);
// UserError with line and column for malformed text, unknown operations and ill-typed nodes.
std::unique_ptr<Graph> parse(const std::string& text);

// Checks the rules of the IR: defined before use, types as the op's rule says, unique names, outputs present. InternalError names the
// node, the rule and `stage`.
void verify(const Graph& g, const std::string& stage);

// Deep copy.
std::unique_ptr<Graph> clone(const Graph& g);

}  // namespace toroid::graph
