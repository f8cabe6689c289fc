// Custom operations in graphs: what they are made of, and which of them stay one node until they are lowered.
#pragma once

#include "graph/graph.h"
#include "ops/custom.h"

namespace toroid::graph {

// The graph of a call with operands of these types (a row's own function for variant == nullptr): an input for each tensor, an output for
// each result. It begins with the symbols and guards of `around`. As the function was recorded: no pass has seen it. Errors of the
// function go to the caller.
std::unique_ptr<Graph> trace_custom(const Graph& around, const ops::Op& op, const CustomOpConfig* variant,
                                    const std::vector<Arg<const TensorType*>>& types);

// UserError where one of the results that a custom operation's function has recorded is a view of an operand or of another result, as for
// calls that run at once.
void check_results_apart(const ops::Op& op, const Graph& recorded, const std::vector<Value*>& results);

// Why a variant that became `g` cannot be an alternative: random numbers, which must be drawn in one order, and sizes that only the run
// tells; empty when it can.
std::string unfit_for_choice(const Graph& around, const Graph& g);

// While it lives, this thread compiles variants of the operation: calls of it in them are what its own function does.
class VariantScope {
 public:
  explicit VariantScope(const ops::Op& op);
  ~VariantScope();
  VariantScope(const VariantScope&) = delete;
  VariantScope& operator=(const VariantScope&) = delete;
};

bool compiles_variants();  // whether one lives on this thread

// Notes that a call has no choices although its operation has variants.
void note_no_choices(const ops::Op& op, std::string_view reason);

// Whether a call of a custom operation is left for lowering, which makes it a choice: it has variants, and its own function may be one
// of them.
bool stays_whole(const Graph& around, const ops::Op& op, const std::vector<Arg<const TensorType*>>& types);
bool stays_whole(const Graph& around, const ops::Op& op, const std::vector<NodeArg>& args);
bool stays_whole(const Graph& around, const ops::Op& op, const CallArgs& args);  // values of graphs, and tensors that have memory

}  // namespace toroid::graph
