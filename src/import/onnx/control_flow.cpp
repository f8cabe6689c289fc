// If, Loop and Scan: what is known when compiling is written out, the rest becomes regions.
#include "graph/control_flow.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "import/onnx/builder.h"
#include "import/onnx/control_flow.h"

namespace toroid::import::onnx {
namespace {

constexpr int64_t kMostUnrolled = 2048;  // nodes that a loop may become

constexpr int64_t kMostStacked = 1 << 20;  // rows of a buffer for a loop that may end early

constexpr int64_t kSmall = 4096;  // elements of a constant that sizes may follow from

using graph::Value;

// A sub-graph on its way to a region: its own inputs first, then what it uses of the graph around.
class Body {
 public:
  Body(OpCall& c, const GraphProto& proto, const std::vector<std::string>& free, const char* name)
      : c_(c), proto_(proto), free_(free), region_(c.builder().region(c.scope(), known_names(), name)) {}

  void add_input(const std::string& name, TensorType type) { region_.scope.values[name] = proxy_of_input(name, std::move(type)); }
  Tensor input(const std::string& name) const { return region_.builder->value(region_.scope, name); }
  void bind(const std::string& name, const Tensor& t) { region_.scope.values[name] = t; }

  // Imports the nodes. `extra` gets the values of the graph around that the region reads.
  void run(std::vector<Value*>& extra) {
    extra.clear();
    for (auto& name : free_) {
      const Item* around = c_.scope().find(name);
      if (!around || region_.scope.values.count(name)) continue;
      region_.scope.values[name] = with_tensors(*around, [&](const Tensor& t) {
        Value* v = c_.builder().recorder().value_of(t);
        extra.push_back(v);
        return proxy_of_input(name, v->type);
      });
    }
    region_.builder->run(proto_, region_.scope);
  }
  const Item& output_item(size_t i) const { return region_.builder->item(region_.scope, proto_.outputs.at(i).name); }
  Tensor output(size_t i) const { return region_.builder->value(region_.scope, proto_.outputs.at(i).name); }
  std::optional<Tensor> contents(const Tensor& t) { return region_.builder->contents(t, false); }
  GraphBuilder& builder() { return *region_.builder; }
  // Inputs at place `at`, among those that were added first.
  std::vector<Tensor> insert_inputs(size_t at, const std::vector<TensorType>& types) {
    std::vector<Tensor> out;
    for (auto& t : types) out.push_back(proxy_of_input("stacked", t));
    auto& inputs = region_.graph->inputs;
    std::rotate(inputs.begin() + static_cast<int64_t>(at), inputs.end() - static_cast<int64_t>(types.size()), inputs.end());
    return out;
  }
  void add_output(const Tensor& t) { region_.graph->outputs.push_back({region_.builder->recorder().value_of(t), {}, -1}); }

  std::shared_ptr<graph::Graph> finish() {
    graph::Graph& target = c_.builder().graph();
    target.guards = std::move(region_.graph->guards);
    region_.graph->guards.clear();
    std::erase_if(region_.graph->symbols, [&](const graph::Symbol& s) { return target.find_symbol(s.expr.node()->name) != nullptr; });
    return region_.graph;
  }

 private:
  // Small constants of the graph around are constants of the region: sizes may follow from them.
  std::vector<std::string> known_names() {
    std::vector<std::string> out;
    for (auto& name : free_)
      if (auto* t = std::get_if<Tensor>(c_.scope().find(name)); t && t->defined() && is_small(*t) && c_.constant(*t)) out.push_back(name);
    return out;
  }

  Tensor proxy_of_input(const std::string& name, TensorType type) {
    type.strides.clear();
    return region_.builder->recorder().proxy(region_.graph->add_input(std::move(type), graph::InputKind::User, name));
  }

  static bool is_small(const Tensor& t) {
    auto n = numel_of(t).maybe_constant();
    return n && *n <= kSmall;
  }

  OpCall& c_;
  const GraphProto& proto_;
  const std::vector<std::string>& free_;
  GraphBuilder::Region region_;
};

std::vector<Value*> values_of(OpCall& c, const std::vector<Tensor>& tensors) {
  std::vector<Value*> out;
  for (auto& t : tensors) out.push_back(c.builder().recorder().value_of(t));
  return out;
}

graph::Node* region_node(OpCall& c, const ops::Op& op, std::vector<graph::NodeArg> args,
                         std::vector<std::shared_ptr<graph::Graph>> regions) {
  const std::string& where = c.node().name.empty() ? c.node().op_type : c.node().name;
  return graph::add_region_node(c.builder().graph(), op, std::move(args), std::move(regions), where);
}

void take_branch(OpCall& c, const Tensor& condition) {
  auto out = inlined(c, c.graph(condition.item() != 0 ? "then_branch" : "else_branch"), {});
  for (size_t i = 0; i < out.size(); ++i) c.set(i, out[i]);
}

// Tensors in the same places, and sequences of as many.
bool same_lengths(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Item& x, const Item& y) {
    if (x.index() != y.index()) return false;
    if (auto* t = std::get_if<Tensor>(&x)) return t->defined() == std::get<Tensor>(y).defined();
    return std::get<std::vector<Tensor>>(x).size() == std::get<std::vector<Tensor>>(y).size();
  });
}

void both_branches(OpCall& c) {
  const GraphProto &yes = c.graph("then_branch"), &no = c.graph("else_branch");
  // Both take the same operands.
  auto free = free_names(yes);
  for (auto& name : free_names(no))
    if (std::find(free.begin(), free.end(), name) == free.end()) free.push_back(name);
  std::vector<Value*> extra;
  std::vector<Item> results;
  std::vector<std::shared_ptr<graph::Graph>> regions;
  for (auto* proto : {&yes, &no}) {
    Body body(c, *proto, free, proto == &yes ? "true" : "false");
    body.run(extra);
    std::vector<Item> outputs;
    for (size_t i = 0; i < proto->outputs.size(); ++i)
      outputs.push_back(with_tensors(body.output_item(i), [&](const Tensor& t) { return body.add_output(t), t; }));
    TOROID_USER_CHECK(proto == &yes || same_lengths(outputs, results), "the branches give sequences of different lengths");
    results = std::move(outputs);
    regions.push_back(body.finish());
  }
  Value* condition = c.builder().recorder().value_of(reshape(c.in(0), {}));
  auto* n = region_node(c, graph::cond_op(), {condition, {}, {}, extra}, regions);
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i)
    c.set(i, with_tensors(results[i], [&](const Tensor&) { return c.builder().recorder().proxy(n->results.at(next++)); }));
}

void if_else(OpCall& c) {
  c.ignore({"then_branch", "else_branch"});
  if (auto known = c.constant(0)) return take_branch(c, *known);
  try {
    both_branches(c);
  } catch (const UserError& e) {
    // One branch may not fit these inputs: then it is left out, and the condition's inputs are fixed.
    auto known = c.builder().contents(c.in(0), true);
    if (!known) throw;
    log(Artifact::Dynamic, fmt::format("{}: one branch is compiled, that of the given inputs: {}", describe(c.node()), e.what()));
    take_branch(c, *known);
  }
}

// ---- Loop ------------------------------------------------------------------------------------------------------------------------

struct LoopState {
  const GraphProto& body;
  std::vector<Item> carried;
  size_t scans = 0;  // outputs that are stacked over the iterations
};

// What a region can carry, as a loop that is not written out does.
std::vector<Tensor> carried_tensors(const LoopState& s) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < s.carried.size(); ++i) out.push_back(tensor_of(s.carried[i], s.body.inputs[i + 2].name));
  return out;
}

LoopState loop_state(OpCall& c) {
  LoopState s{c.graph("body"), {}, 0};
  for (size_t i = 2; i < c.count(); ++i) s.carried.push_back(c.item(i));
  TOROID_USER_CHECK(s.body.inputs.size() == s.carried.size() + 2 && s.body.outputs.size() > s.carried.size(),
                    "the body has {} inputs and {} outputs, which does not fit {} carried tensors", s.body.inputs.size(),
                    s.body.outputs.size(), s.carried.size());
  s.scans = s.body.outputs.size() - s.carried.size() - 1;
  return s;
}

Tensor number(int64_t v) { return Tensor::full(std::vector<int64_t>{}, static_cast<double>(v), DType::I64); }
Tensor yes() { return Tensor::full(std::vector<int64_t>{}, 1, DType::Bool); }

// Written out, iteration by iteration, as long as each says that it goes on. False: that is not known.
bool unroll(OpCall& c, LoopState s, int64_t trips) {
  if (trips > kMostUnrolled || trips * static_cast<int64_t>(s.body.nodes.size()) > kMostUnrolled) return false;
  std::vector<std::vector<Tensor>> scans(s.scans);
  bool goes_on = true;
  for (int64_t i = 0; i < trips && goes_on; ++i) {
    std::vector<Item> inputs = {number(i), yes()};
    inputs.insert(inputs.end(), s.carried.begin(), s.carried.end());
    auto out = inlined(c, s.body, inputs);
    auto next = c.constant(tensor_of(out[0], s.body.outputs[0].name));
    if (!next) return false;
    goes_on = next->item() != 0;
    std::copy(out.begin() + 1, out.begin() + 1 + static_cast<int64_t>(s.carried.size()), s.carried.begin());
    for (size_t k = 0; k < s.scans; ++k) {
      size_t at = 1 + s.carried.size() + k;
      scans[k].push_back(tensor_of(out[at], s.body.outputs[at].name));
    }
  }
  for (size_t i = 0; i < s.carried.size(); ++i) c.set(i, s.carried[i]);
  for (size_t k = 0; k < s.scans; ++k) {
    TOROID_USER_CHECK(!scans[k].empty(), "the loop has no iteration, so that its output {} has no sizes", s.carried.size() + k);
    c.set(s.carried.size() + k, op("stack", scans[k], 0));
  }
  return true;
}

// A number of iterations that is known, or follows from sizes: a scan over their numbers.
bool counted(OpCall& c, const LoopState& s, const Expr& trips) {
  auto free = free_names(s.body);
  auto carried = values_of(c, carried_tensors(s));
  Body body(c, s.body, free, "body");
  for (size_t i = 0; i < carried.size(); ++i) body.add_input(s.body.inputs[i + 2].name, carried[i]->type);
  body.add_input(s.body.inputs[0].name, {DType::I64, {}, {}});
  body.bind(s.body.inputs[1].name, yes());
  std::vector<Value*> extra;
  body.run(extra);
  auto next = body.contents(body.output(0));
  if (!next || next->item() == 0) return false;
  for (size_t i = 1; i < s.body.outputs.size(); ++i) body.add_output(body.output(i));
  Value* numbers = c.builder().recorder().value_of(op("arange", trips, DType::I64));
  auto* n = region_node(c, graph::scan_op(), {{}, carried, std::vector<Value*>{numbers}, extra}, {body.finish()});
  for (size_t i = 0; i < n->results.size(); ++i) c.set(i, c.builder().recorder().proxy(n->results[i]));
  return true;
}

// How often a loop runs at most, which stacks outputs.
Expr most_trips(OpCall& c) {
  auto trips = c.has(0) ? c.builder().integers(c.in(0), true) : std::nullopt;
  TOROID_USER_CHECK(trips && trips->size() == 1 && (*trips)[0].maybe_constant().value_or(0) <= kMostStacked,
                    "how often the loop runs is known only at run time, and no trip count of at most {} bounds what it stacks",
                    kMostStacked);
  return (*trips)[0];
}

// As long as the body says so: the number of the iteration and the condition are carried along, and a buffer for each stacked output, with
// as many rows as there may be iterations.
void open_ended(OpCall& c, const LoopState& s) {
  Expr most = s.scans ? most_trips(c) : 0;
  auto free = free_names(s.body);
  Tensor start = op("scalar_tensor", 0, DType::I64);
  Tensor condition = c.has(1) ? reshape(c.in(1), {}) : op("scalar_tensor", true, DType::Bool);
  std::vector<Tensor> carried = {start, condition};
  for (auto& t : carried_tensors(s)) carried.push_back(t);
  Tensor limit = c.has(0) ? reshape(c.in(0), {}) : op("scalar_tensor", std::numeric_limits<int64_t>::max(), DType::I64);
  auto types = values_of(c, carried);
  std::vector<Value*> extra;
  Body body(c, s.body, free, "body");
  for (size_t i = 0; i < carried.size(); ++i) body.add_input(s.body.inputs[i].name, types[i]->type);
  body.add_input("limit of the loop", values_of(c, {limit})[0]->type);
  Tensor at = body.input(s.body.inputs[0].name);
  body.run(extra);
  const size_t first_scan = s.body.outputs.size() - s.scans;
  std::vector<TensorType> stacks;
  for (size_t i = first_scan; i < s.body.outputs.size(); ++i) {
    Tensor row = body.output(i);
    Sizes sizes = sizes_of(row);
    sizes.insert(sizes.begin(), most);
    stacks.push_back({row.dtype(), sizes, {}});
    types.push_back(values_of(c, {op("full", sizes, is_float(row.dtype()) ? Arg<Tensor>(0.0) : Arg<Tensor>(Expr(0)), row.dtype())})[0]);
  }
  auto buffers = body.insert_inputs(carried.size(), stacks);
  {
    DispatchScope dispatch(body.builder().recorder());
    body.add_output(op("add.Tensor", at, 1));
    body.add_output(reshape(body.output(0), {}));
    for (size_t i = 1; i < first_scan; ++i) body.add_output(body.output(i));
    for (size_t k = 0; k < s.scans; ++k)
      body.add_output(op("index_put", buffers[k], std::vector<Tensor>{reshape(at, {1})}, op("unsqueeze", body.output(first_scan + k), 0)));
  }
  auto body_graph = body.finish();
  extra.insert(extra.begin(), values_of(c, {limit})[0]);
  // The condition reads the number of the iteration, the limit and the body's own word.
  auto test = std::make_shared<graph::Graph>();
  test->name = "condition";
  graph::Recorder recorder(*test);
  std::vector<Tensor> in;
  for (auto& i : body_graph->inputs)
    if (i.kind == graph::InputKind::User) in.push_back(recorder.proxy(test->add_input(i.value->type, graph::InputKind::User, i.name)));
  {
    DispatchScope dispatch(recorder);
    Tensor go = op("logical_and", op("lt.Tensor", in[0], in[types.size()]), in[1]);
    test->outputs.push_back({recorder.value_of(go), {}, -1});
  }
  auto* n = region_node(c, graph::while_loop_op(), {{}, {}, types, extra}, {test, body_graph});
  auto result = [&](size_t i) { return c.builder().recorder().proxy(n->results[i]); };
  for (size_t i = 0; i < s.carried.size(); ++i) c.set(i, result(i + 2));
  if (s.scans == 0) return;
  Tensor written = op("nonzero", op("lt.Tensor", op("arange", most, DType::I64), result(0)));
  for (size_t k = 0; k < s.scans; ++k)
    c.set(s.carried.size() + k, op("index_select", result(carried.size() + k), 0, op("select.int", written, 1, 0)));
}

void loop(OpCall& c) {
  LoopState s = loop_state(c);
  auto condition = c.has(1) ? c.builder().contents(c.in(1), true) : yes();
  if (condition && condition->item() == 0) {
    for (size_t i = 0; i < s.carried.size(); ++i) c.set(i, s.carried[i]);
    TOROID_USER_CHECK(s.scans == 0, "the loop never runs, so that what it stacks has no sizes");
    return;
  }
  auto trips = condition && c.has(0) ? c.builder().integers(c.in(0), true) : std::nullopt;
  if (trips) {
    auto count = (*trips)[0].maybe_constant();
    if (count && unroll(c, s, *count)) return;
    if (counted(c, s, (*trips)[0])) return;
  }
  open_ended(c, s);
}

// ---- Scan ------------------------------------------------------------------------------------------------------------------------

// One scan over dimension 0 of each of `xs`. Returns the last states and the stacked outputs.
std::vector<Tensor> scan_over(OpCall& c, const GraphProto& proto, const std::vector<Tensor>& states, const std::vector<Tensor>& xs) {
  auto free = free_names(proto);
  Body body(c, proto, free, "combine");
  auto inits = values_of(c, states), scanned = values_of(c, xs);
  TOROID_USER_CHECK(proto.inputs.size() == inits.size() + scanned.size(), "the body takes {} inputs, {} are given", proto.inputs.size(),
                    inits.size() + scanned.size());
  size_t next = 0;
  for (auto* v : inits) body.add_input(proto.inputs[next++].name, v->type);
  for (auto* v : scanned) {
    TensorType slice = v->type;
    TOROID_USER_CHECK(!slice.sizes.empty(), "a tensor without dimensions is scanned over");
    slice.sizes.erase(slice.sizes.begin());
    body.add_input(proto.inputs[next++].name, slice);
  }
  std::vector<Value*> extra;
  body.run(extra);
  for (size_t i = 0; i < proto.outputs.size(); ++i) body.add_output(body.output(i));
  auto* n = region_node(c, graph::scan_op(), {{}, inits, scanned, extra}, {body.finish()});
  std::vector<Tensor> out;
  for (auto* r : n->results) out.push_back(c.builder().recorder().proxy(r));
  return out;
}

Tensor axis_first(const Tensor& t, int64_t axis) {
  axis = normal_axis(axis, rank_of(t));
  auto order = range(0, rank_of(t));
  order.erase(order.begin() + axis);
  order.insert(order.begin(), axis);
  return axis ? permuted(t, order) : t;
}

Tensor axis_back(const Tensor& t, int64_t axis) {
  axis = normal_axis(axis, rank_of(t));
  auto order = range(1, rank_of(t));
  order.insert(order.begin() + axis, 0);
  return axis ? permuted(t, order) : t;
}

void scan(OpCall& c) {
  const GraphProto& proto = c.graph("body");
  auto scanned = static_cast<size_t>(c.integer("num_scan_inputs"));
  TOROID_USER_CHECK(scanned > 0 && scanned <= c.count(), "num_scan_inputs is {} of {} inputs", scanned, c.count());
  size_t states = c.count() - scanned, stacked = proto.outputs.size() - std::min(proto.outputs.size(), states);
  auto list = [&](const char* name, size_t size) {
    auto v = c.integers(name);
    v.resize(size, 0);
    return v;
  };
  auto in_axes = list("scan_input_axes", scanned), in_reversed = list("scan_input_directions", scanned);
  auto out_axes = list("scan_output_axes", stacked), out_reversed = list("scan_output_directions", stacked);
  std::vector<Tensor> init, xs;
  const std::vector<int64_t> first = {0};
  for (size_t i = 0; i < states; ++i) init.push_back(c.in(i));
  for (size_t i = 0; i < scanned; ++i) {
    Tensor x = axis_first(c.in(states + i), in_axes[i]);
    xs.push_back(in_reversed[i] ? op("flip", x, first) : x);
  }
  auto out = scan_over(c, proto, init, xs);
  for (size_t i = 0; i < out.size(); ++i) {
    if (i < states) {
      c.set(i, out[i]);
      continue;
    }
    Tensor y = out_reversed[i - states] ? op("flip", out[i], first) : out[i];
    c.set(i, axis_back(y, out_axes[i - states]));
  }
}

// Version 8: a batch of scans, each over dimension 1.
void batched_scan(OpCall& c) {
  const GraphProto& proto = c.graph("body");
  auto scanned = static_cast<size_t>(c.integer("num_scan_inputs"));
  TOROID_USER_CHECK(!c.has(0) && c.integers("directions").empty(), "scans of version 8 with lengths or directions are not supported");
  TOROID_USER_CHECK(scanned > 0 && scanned < c.count(), "num_scan_inputs is {} of {} inputs", scanned, c.count() - 1);
  size_t states = c.count() - 1 - scanned;
  int64_t batch = known_size(sizes_of(c.in(1))[0], "the number of scans in the batch");
  TOROID_USER_CHECK(batch <= kMostUnrolled / std::max<int64_t>(static_cast<int64_t>(proto.nodes.size()), 1),
                    "a batch of {} scans of version 8 is more than is written out", batch);
  std::vector<std::vector<Tensor>> results(proto.outputs.size());
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Tensor> init, xs;
    for (size_t i = 1; i < c.count(); ++i) (i <= states ? init : xs).push_back(op("select.int", c.in(i), 0, b));
    auto out = scan_over(c, proto, init, xs);
    for (size_t i = 0; i < out.size(); ++i) results.at(i).push_back(out[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) c.set(i, op("stack", results[i], 0));
}

}  // namespace

std::vector<Item> inlined(OpCall& c, const GraphProto& proto, const std::vector<Item>& inputs) {
  TOROID_USER_CHECK(inputs.size() == proto.inputs.size(), "the sub-graph takes {} inputs, {} are given", proto.inputs.size(),
                    inputs.size());
  Scope inner;
  inner.around = &c.scope();
  inner.opsets = c.scope().opsets;
  inner.depth = c.scope().depth + 1;
  for (size_t i = 0; i < inputs.size(); ++i) inner.values[proto.inputs[i].name] = inputs[i];
  c.builder().run(proto, inner);
  std::vector<Item> out;
  for (auto& o : proto.outputs) out.push_back(c.builder().item(inner, o.name));
  return out;
}

void add_control_flow_operators(Operators& t) {
  t.add("If", 1, if_else);
  t.add("Loop", 1, loop);
  t.add("Scan", 8, batched_scan);
  t.add("Scan", 9, scan);
}

}  // namespace toroid::import::onnx
