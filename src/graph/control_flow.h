// Operations that run sub-graphs. Their nodes carry one region for each Graph parameter, in order; a region reads only its own
// inputs, but may use the size symbols of the graph around it.
#pragma once

#include "graph/graph.h"

namespace toroid::graph {

// cond(Tensor pred, Graph true_graph, Graph false_graph, Tensor[] operands): both regions take the operands and return alike.
const ops::Op& cond_op();
// while_loop(Graph cond_graph, Graph body_graph, Tensor[] carried, Tensor[] extra): while cond(carried..., extra...) holds,
// carried = body(carried..., extra...).
const ops::Op& while_loop_op();
// scan(Graph combine, Tensor[] init, Tensor[] xs, Tensor[] extra): for each i, combine(carry..., xs[i]..., extra...) returns the next
// carry... and y...; results are the last carry and the ys stacked along a new dimension 0.
const ops::Op& scan_op();

// One of the above by name, or an operation of the table; nullptr for an unknown name.
const ops::Op* find_op(std::string_view name);
inline bool is_control_flow(const ops::Op& op) { return &op == &cond_op() || &op == &while_loop_op() || &op == &scan_op(); }

// Result types of a control-flow node. UserError when the regions do not fit the operands.
std::vector<TensorType> region_result_types(const ops::Op& op, const std::vector<NodeArg>& args,
                                            const std::vector<std::shared_ptr<Graph>>& regions);

// Appends a control-flow node, types included.
Node* add_region_node(Graph& g, const ops::Op& op, std::vector<NodeArg> args, std::vector<std::shared_ptr<Graph>> regions,
                      std::string where);

// The tensors in argument `index` of a control-flow node.
const std::vector<Value*>& operands(const std::vector<NodeArg>& args, size_t index);

}  // namespace toroid::graph
