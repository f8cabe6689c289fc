#include "graph/control_flow.h"

#include "base/check.h"

namespace toroid::graph {
namespace {

ops::Op make_row(std::string_view schema) {
  ops::Op op;
  op.schema = ops::parse_schema(schema);
  op.name = op.schema.name;
  return op;
}

std::vector<TensorType> types_of(const std::vector<Value*>& values) {
  std::vector<TensorType> out;
  for (Value* v : values) {
    TOROID_USER_CHECK(v, "a control-flow operand is missing");
    out.push_back({v->type.dtype, v->type.sizes, {}});
  }
  return out;
}

std::vector<TensorType> output_types(const ops::Op& op, const Graph& region) {
  std::vector<TensorType> out;
  for (auto& o : region.outputs) {
    TOROID_USER_CHECK(o.value && o.mutates < 0, "{}: the region {} must return tensors and write none of its inputs", op.name, region.name);
    out.push_back({o.value->type.dtype, o.value->type.sizes, {}});
  }
  return out;
}

void check_same(const ops::Op& op, const char* what, const std::vector<TensorType>& expected, const std::vector<TensorType>& found) {
  TOROID_USER_CHECK(expected.size() == found.size(), "{}: {}: {} tensors where {} are expected", op.name, what, found.size(),
                    expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    TOROID_USER_CHECK(expected[i] == found[i], "{}: {}: tensor {} is {} where {} is expected", op.name, what, i, to_string(found[i]),
                      to_string(expected[i]));
}

void check_inputs(const ops::Op& op, const Graph& region, const std::vector<TensorType>& given) {
  std::vector<TensorType> expected;
  for (auto& in : region.inputs)
    if (in.kind == InputKind::User) expected.push_back({in.value->type.dtype, in.value->type.sizes, {}});
  check_same(op, "inputs of a region", expected, given);
}

}  // namespace

const ops::Op& cond_op() {
  static const ops::Op& op =
      *new ops::Op(make_row("cond(Tensor pred, Graph true_graph, Graph false_graph, Tensor[] operands) -> Tensor[]"));
  return op;
}
const ops::Op& while_loop_op() {
  static const ops::Op& op =
      *new ops::Op(make_row("while_loop(Graph cond_graph, Graph body_graph, Tensor[] carried, Tensor[] extra) -> Tensor[]"));
  return op;
}
const ops::Op& scan_op() {
  static const ops::Op& op = *new ops::Op(make_row("scan(Graph combine, Tensor[] init, Tensor[] xs, Tensor[] extra) -> Tensor[]"));
  return op;
}

const ops::Op* find_op(std::string_view name) {
  for (auto* op : {&cond_op(), &while_loop_op(), &scan_op()})
    if (op->name == name) return op;
  return ops::table().find(name);
}

const std::vector<Value*>& operands(const std::vector<NodeArg>& args, size_t index) {
  static const std::vector<Value*>& none = *new std::vector<Value*>;
  if (auto* v = std::get_if<std::vector<Value*>>(&args.at(index))) return *v;
  auto* empty = std::get_if<std::vector<Expr>>(&args[index]);
  TOROID_USER_CHECK(empty && empty->empty(), "a control-flow operation needs a list of tensors as its argument {}", index);
  return none;
}

std::vector<TensorType> region_result_types(const ops::Op& op, const std::vector<NodeArg>& args,
                                            const std::vector<std::shared_ptr<Graph>>& regions) {
  size_t expected = &op == &scan_op() ? 1 : 2;
  TOROID_USER_CHECK(regions.size() == expected, "{} needs {} regions, it has {}", op.name, expected, regions.size());
  auto out = output_types(op, *regions.back());
  if (&op == &cond_op()) {
    TOROID_USER_CHECK(std::holds_alternative<Value*>(args.at(0)), "cond: the predicate must be a tensor");
    for (auto& r : regions) check_inputs(op, *r, types_of(operands(args, 3)));
    check_same(op, "results of the two regions", output_types(op, *regions[0]), out);
    return out;
  }
  if (&op == &while_loop_op()) {
    auto carried = types_of(operands(args, 2));
    auto all = carried;
    for (auto& t : types_of(operands(args, 3))) all.push_back(t);
    for (auto& r : regions) check_inputs(op, *r, all);
    TOROID_USER_CHECK(output_types(op, *regions[0]).size() == 1, "while_loop: the condition must return one tensor");
    check_same(op, "results of the body", carried, out);
    return out;
  }
  auto all = types_of(operands(args, 1));
  size_t carried = all.size();
  auto xs = types_of(operands(args, 2));
  TOROID_USER_CHECK(!xs.empty(), "scan: there is nothing to scan over");
  Expr length;
  for (size_t i = 0; i < xs.size(); ++i) {
    TOROID_USER_CHECK(!xs[i].sizes.empty(), "scan: tensor {} to scan over has no dimensions", i);
    if (i == 0) length = xs[i].sizes[0];
    TOROID_USER_CHECK(xs[i].sizes[0] == length, "scan: the tensors to scan over differ in length");
    xs[i].sizes.erase(xs[i].sizes.begin());
    all.push_back(xs[i]);
  }
  for (auto& t : types_of(operands(args, 3))) all.push_back(t);
  check_inputs(op, *regions[0], all);
  TOROID_USER_CHECK(out.size() >= carried, "scan: the region returns {} tensors; the carried ones alone are {}", out.size(), carried);
  check_same(op, "carried results", types_of(operands(args, 1)), {out.begin(), out.begin() + static_cast<int64_t>(carried)});
  for (size_t i = carried; i < out.size(); ++i) out[i].sizes.insert(out[i].sizes.begin(), length);
  return out;
}

Node* add_region_node(Graph& g, const ops::Op& op, std::vector<NodeArg> args, std::vector<std::shared_ptr<Graph>> regions,
                      std::string where) {
  auto types = region_result_types(op, args, regions);
  Node* n = g.add_node(op, std::move(args), std::move(types), std::move(where));
  n->regions = std::move(regions);
  return n;
}

}  // namespace toroid::graph
