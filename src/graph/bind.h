// The numbers behind the symbols of a graph during one run.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>

#include "graph/graph.h"

namespace toroid::graph {

class BoundSymbols {
 public:
  void set(const std::string& name, int64_t value) { values_[name] = value; }
  std::optional<int64_t> find(const std::string& name) const;
  // nullopt when a symbol in e has no value yet.
  std::optional<int64_t> try_value(const Expr& e) const;
  // InternalError when a symbol in e has no value.
  int64_t value(const Expr& e) const;
  std::vector<int64_t> values(std::span<const Expr> exprs) const;

 private:
  std::unordered_map<std::string, int64_t> values_;
};

// Gives each symbol its value from the sizes of the user inputs, and checks count, dtypes, ranks, sizes, ranges and guards. UserError
// names the input, the dimension and what was expected. Guards about sizes that only the run tells are left to the caller.
BoundSymbols bind_inputs(const Graph& g, std::span<const Tensor> user_inputs);

// Takes the sizes of these inputs for the usual ones, which tuning times at: they become the symbols' hints, in place of others. Of those
// that are undefined nothing is known. UserError as bind_inputs, where all are defined.
void take_usual_sizes(Graph& g, std::span<const Tensor> user_inputs);

// Checks ranges and guards of the symbols that have values. UserError says which do not hold.
void check_sizes(const Graph& g, const BoundSymbols& symbols);

// Binds symbols of `type` that have no value from the sizes that a tensor of that type has; returns the first dimension that
// contradicts what is bound, or -1.
int64_t bind_sizes(BoundSymbols& symbols, const TensorType& type, std::span<const int64_t> sizes);

}  // namespace toroid::graph
