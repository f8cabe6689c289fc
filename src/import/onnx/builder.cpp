#include "import/onnx/builder.h"

#include <algorithm>
#include <functional>
#include <set>

#include "base/check.h"
#include "import/named_guards.h"
#include "import/onnx/tensors.h"
#include "ops/call_place.h"
#include "tensor/tensor_impl.h"

namespace toroid::import::onnx {
namespace {

constexpr int kMaxDepth = 64;            // functions that call functions
constexpr int64_t kMostNodes = 1 << 18;  // those of functions count at each call, those of loops at each iteration

const FunctionProto* find_function(const ModelProto& model, const NodeProto& node) {
  for (auto& f : model.functions)
    if (f.name == node.op_type && f.domain == node.domain && f.overload == node.overload) return &f;
  return nullptr;
}

// Calls f on each node of a graph and of the graphs in its attributes.
void for_each_node(const std::vector<NodeProto>& nodes, const std::function<void(const NodeProto&)>& f) {
  for (auto& n : nodes) {
    f(n);
    for (auto& a : n.attributes)
      if (a.g) for_each_node(a.g->nodes, f);
  }
}

void collect_free(const GraphProto& graph, std::set<std::string> defined, std::vector<std::string>& out) {
  for (auto& in : graph.inputs) defined.insert(in.name);
  for (auto& t : graph.initializers) defined.insert(t.name);
  auto use = [&](const std::string& name) {
    if (!name.empty() && !defined.count(name) && std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  };
  for (auto& n : graph.nodes) {
    for (auto& name : n.inputs) use(name);
    for (auto& a : n.attributes)
      if (a.g) collect_free(*a.g, defined, out);
    defined.insert(n.outputs.begin(), n.outputs.end());
  }
  for (auto& o : graph.outputs) use(o.name);
}

int64_t version_of(const OpsetImports& opsets, const std::string& domain) {
  auto it = opsets.find(domain);
  if (it != opsets.end()) return it->second;
  return domain.empty() ? 1 : 0;  // files of the first version of the format name no versions
}

}  // namespace

namespace {

// Weights of 4 bits are loaded with 8: right as long as only their numbers count.
void check_4bit_uses(const GraphProto& graph, const std::string& source) {
  for (auto& t : graph.initializers) {
    if (!is_4bit(t.data_type)) continue;
    for_each_node(graph.nodes, [&](const NodeProto& n) {
      bool used = std::find(n.inputs.begin(), n.inputs.end(), t.name) != n.inputs.end();
      TOROID_USER_CHECK(!used || n.op_type == "DequantizeLinear",
                        "{}: {} takes the tensor \"{}\" of type {}; Toroid has those only as what "
                        "DequantizeLinear takes",
                        source, describe(n), t.name, element_name(t.data_type));
    });
  }
}

}  // namespace

std::vector<std::string> free_names(const GraphProto& graph) {
  std::vector<std::string> out;
  collect_free(graph, {}, out);
  return out;
}

std::string describe(const NodeProto& node) {
  std::string type = node.domain.empty() ? node.op_type : node.domain + "::" + node.op_type;
  if (!node.name.empty()) return fmt::format("node \"{}\" ({})", node.name, type);
  return fmt::format("the node that computes \"{}\" ({})", node.outputs.empty() ? "" : node.outputs[0], type);
}

void check_operators(const ModelFile& file) {
  const ModelProto& model = file.model();
  std::map<std::string, size_t> unknown;
  auto look = [&](const std::vector<NodeProto>& nodes, const OpsetImports& opsets) {
    for_each_node(nodes, [&](const NodeProto& n) {
      int64_t version = version_of(opsets, n.domain);
      if (find_function(model, n) || operators().find(n.domain, n.op_type, version)) return;
      std::string text = n.domain.empty() ? n.op_type : n.domain + "::" + n.op_type;
      if (int64_t first = operators().first_version(n.domain, n.op_type))
        text += fmt::format(" of version {} (Toroid has it from version {} on)", version, first);
      ++unknown[text];
    });
  };
  look(model.graph.nodes, model.opsets);
  for (auto& f : model.functions) look(f.nodes, f.opsets);
  if (unknown.empty()) return;
  std::string list;
  for (auto& [name, count] : unknown) {
    list += fmt::format("\n  {} ({} node{})", name, count, count == 1 ? "" : "s");
    std::string near;
    for (auto& n : operators().near(name)) near += (near.empty() ? "" : ", ") + n;
    if (!near.empty()) list += "; Toroid has " + near;
  }
  fail<UserError>("{}: Toroid does not have {} of the operators in this model:{}", file.source(), unknown.size(), list);
}

const Item* Scope::find(const std::string& name) const {
  for (const Scope* s = this; s; s = s->around)
    if (auto it = s->values.find(name); it != s->values.end()) return &it->second;
  return nullptr;
}

const Attribute* Scope::bound(const std::string& name) const {
  for (const Scope* s = this; s; s = s->around)
    if (auto it = s->attributes.find(name); it != s->attributes.end()) return it->second;
  return nullptr;
}

GraphBuilder::GraphBuilder(graph::Graph& target, std::shared_ptr<const ModelFile> file)
    : target_(target), file_(std::move(file)), recorder_(target) {}

Tensor GraphBuilder::constant(const TensorProto& proto) const { return load_tensor(proto, file_); }

const Item& GraphBuilder::item(const Scope& scope, const std::string& name) const {
  const Item* found = scope.find(name);
  TOROID_USER_CHECK(found, "the tensor \"{}\" is used before it is computed", name);
  return *found;
}

Tensor GraphBuilder::value(const Scope& scope, const std::string& name) const { return tensor_of(item(scope, name), name); }

std::optional<Tensor> GraphBuilder::contents(const Tensor& t, bool use_offered) {
  if (!is_proxy(t)) return t;
  hold_inputs();
  return known_.contents(recorder_.value_of(t), use_offered);
}

std::optional<Sizes> GraphBuilder::integers(const Tensor& t, bool use_offered) {
  graph::Value* v = recorder_.value_of(t);
  hold_inputs();
  return known_.integers(v, use_offered);
}

void GraphBuilder::hold_inputs() {
  for (; inputs_held_ < target_.inputs.size(); ++inputs_held_)
    if (auto& in = target_.inputs[inputs_held_]; in.data.defined()) known_.hold(in.value, in.data);
}

void GraphBuilder::run(const GraphProto& graph, Scope& scope) {
  TOROID_USER_CHECK(graph.sparse_initializers == 0, "{}: the graph \"{}\" has sparse weights; Toroid reads dense ones", file_->source(),
                    graph.name);
  for (auto& t : graph.initializers)
    if (!scope.values.count(t.name)) scope.values[t.name] = constant(t);
  check_4bit_uses(graph, file_->source());
  DispatchScope dispatch(recorder_);
  for (auto& n : graph.nodes) import_node(n, scope);
}

void GraphBuilder::import_node(const NodeProto& node, Scope& scope) {
  std::string prefix = file_->source() + ": ";
  try {
    TOROID_USER_CHECK(++*nodes_ <= kMostNodes, "functions and loops that are written out make more than {} nodes of this model",
                      kMostNodes);
    const std::string& place = node.name.empty() ? node.op_type : node.name;
    recorder_.set_where(place);
    const ops::PlaceScope bodies_too(place);  // of control flow, which other recorders take down
    if (import_function(node, scope)) return;
    int64_t version = version_of(*scope.opsets, node.domain);
    ImportOp run = operators().find(node.domain, node.op_type, version);
    TOROID_USER_CHECK(run, "Toroid does not have this operator");
    OpCall call(*this, scope, node, version);
    const size_t guards_before = target_.guards.size();
    run(call);
    name_guards(target_, guards_before, node.op_type, describe(node), "load the model for the sizes at hand: Model::load(path, inputs)");
    call.check_attributes();
  } catch (const UserError& e) {
    if (std::string_view(e.what()).starts_with(prefix)) throw;
    fail<UserError>("{}{}: {}", prefix, describe(node), e.what());
  }
}

bool GraphBuilder::import_function(const NodeProto& node, Scope& scope) {
  const FunctionProto* f = find_function(file_->model(), node);
  if (!f) return false;
  TOROID_USER_CHECK(scope.depth < kMaxDepth, "functions call each other more than {} deep", kMaxDepth);
  TOROID_USER_CHECK(node.inputs.size() <= f->inputs.size() && node.outputs.size() <= f->outputs.size(),
                    "the function takes {} inputs and has {} results; {} and {} are named", f->inputs.size(), f->outputs.size(),
                    node.inputs.size(), node.outputs.size());
  Scope inner;
  inner.opsets = &f->opsets;
  inner.depth = scope.depth + 1;
  for (auto& a : f->defaults) inner.attributes[a.name] = &a;
  for (auto& a : node.attributes) {
    const Attribute* given = a.ref.empty() ? &a : scope.bound(a.ref);
    if (given) inner.attributes[a.name] = given;
  }
  for (size_t i = 0; i < f->inputs.size(); ++i) {
    bool given = i < node.inputs.size() && !node.inputs[i].empty();
    inner.values[f->inputs[i]] = given ? item(scope, node.inputs[i]) : Item();
  }
  for (auto& n : f->nodes) import_node(n, inner);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) scope.values[node.outputs[i]] = item(inner, f->outputs[i]);
  return true;
}

GraphBuilder::Region GraphBuilder::region(const Scope& around, const std::vector<std::string>& known, const std::string& name) {
  Region out;
  out.graph = std::make_shared<graph::Graph>();
  out.graph->name = name;
  out.graph->symbols = target_.symbols;
  out.graph->guards = target_.guards;
  out.builder = std::make_unique<GraphBuilder>(*out.graph, file_);
  out.builder->nodes_ = nodes_;
  out.scope.opsets = around.opsets;
  out.scope.depth = around.depth;
  for (const Scope* s = &around; s; s = s->around) out.scope.attributes.insert(s->attributes.begin(), s->attributes.end());
  for (auto& n : known) out.scope.values[n] = *contents(value(around, n), false);
  return out;
}

// ---- OpCall ----------------------------------------------------------------------------------------------------------------------

bool OpCall::has(size_t i) const {
  if (i >= node_.inputs.size() || node_.inputs[i].empty()) return false;
  auto* t = std::get_if<Tensor>(&builder_.item(scope_, node_.inputs[i]));
  return !t || t->defined();
}

Tensor OpCall::in(size_t i) {
  TOROID_USER_CHECK(has(i), "input {} is missing", i);
  return builder_.value(scope_, node_.inputs[i]);
}

Item OpCall::item(size_t i) const { return has(i) ? builder_.item(scope_, node_.inputs[i]) : Item(); }

std::vector<Tensor> OpCall::sequence(size_t i) const {
  Item found = item(i);
  auto* list = std::get_if<std::vector<Tensor>>(&found);
  TOROID_USER_CHECK(list, "input {} should be a sequence", i);
  return std::move(*list);
}

std::vector<Tensor> OpCall::all() {
  std::vector<Tensor> out;
  for (size_t i = 0; i < count(); ++i) out.push_back(in(i));
  return out;
}

const Attribute* OpCall::attribute(std::string_view name) const {
  read_.push_back(name);
  const Attribute* a = node_.find(name);
  return a && !a->ref.empty() ? scope_.bound(a->ref) : a;
}

void OpCall::check_attributes() const {
  // A hint of early versions to share memory; and where random numbers begin, which here are those of the process.
  constexpr std::string_view kWithoutMeaning[] = {"consumed_inputs", "seed"};
  for (auto& a : node_.attributes) {
    bool known = std::find(std::begin(kWithoutMeaning), std::end(kWithoutMeaning), a.name) != std::end(kWithoutMeaning) ||
                 std::find(read_.begin(), read_.end(), a.name) != read_.end();
    TOROID_USER_CHECK(known, "Toroid does not know the attribute \"{}\" of this operator in version {}", a.name, version_);
  }
}

int64_t OpCall::integer(std::string_view name, int64_t otherwise) const {
  const Attribute* a = attribute(name);
  if (!a) return otherwise;
  TOROID_USER_CHECK(a->i, "the attribute \"{}\" should be a whole number", name);
  return *a->i;
}

int64_t OpCall::integer(std::string_view name) const {
  TOROID_USER_CHECK(attribute(name), "the attribute \"{}\" is missing", name);
  return integer(name, 0);
}

double OpCall::real(std::string_view name, double otherwise) const {
  const Attribute* a = attribute(name);
  if (!a) return otherwise;
  TOROID_USER_CHECK(a->f, "the attribute \"{}\" should be a number", name);
  return static_cast<double>(*a->f);
}

std::string OpCall::text(std::string_view name, std::string_view otherwise) const {
  const Attribute* a = attribute(name);
  if (!a) return std::string(otherwise);
  TOROID_USER_CHECK(a->s, "the attribute \"{}\" should be a text", name);
  return *a->s;
}

std::vector<int64_t> OpCall::integers(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? a->ints : std::vector<int64_t>();
}

std::vector<double> OpCall::reals(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? std::vector<double>(a->floats.begin(), a->floats.end()) : std::vector<double>();
}

std::vector<std::string> OpCall::texts(std::string_view name) const {
  const Attribute* a = attribute(name);
  return a ? a->strings : std::vector<std::string>();
}

Tensor OpCall::tensor(std::string_view name) const {
  const Attribute* a = attribute(name);
  TOROID_USER_CHECK(a && a->t, "the attribute \"{}\" should be a tensor", name);
  TOROID_USER_CHECK(!is_4bit(a->t->data_type), "the attribute \"{}\" is of type {}, which Toroid has only as an initializer", name,
                    element_name(a->t->data_type));
  return builder_.constant(*a->t);
}

const GraphProto& OpCall::graph(std::string_view name) const {
  const Attribute* a = attribute(name);
  TOROID_USER_CHECK(a && a->g, "the attribute \"{}\" should be a graph", name);
  return *a->g;
}

namespace {

[[noreturn]] void unknown_contents(const NodeProto& node, size_t i) {
  fail<UserError>(
      "input {} (\"{}\") must be known when the model is compiled, since sizes follow from it: make it an initializer, or give the "
      "inputs that it follows from when the model is loaded",
      i, node.inputs[i]);
}

}  // namespace

Sizes OpCall::sizes(size_t i) {
  auto v = builder_.integers(in(i), true);
  if (!v) unknown_contents(node_, i);
  return *v;
}

std::vector<int64_t> OpCall::numbers(size_t i) {
  std::vector<int64_t> out;
  for (auto& e : sizes(i)) out.push_back(known_size(e, fmt::format("input {} (\"{}\")", i, node_.inputs[i])));
  return out;
}

Tensor OpCall::contents(size_t i) {
  auto t = builder_.contents(in(i), true);
  if (!t) unknown_contents(node_, i);
  return *t;
}

std::vector<double> OpCall::real_numbers(size_t i) { return contents(i).to_vector(); }

namespace {

template <class List>
auto only(const List& list, size_t i) {
  TOROID_USER_CHECK(list.size() == 1, "input {} holds {} numbers; one is expected", i, list.size());
  return list.front();
}

}  // namespace

Expr OpCall::size(size_t i) { return only(sizes(i), i); }
int64_t OpCall::number(size_t i) { return only(numbers(i), i); }
double OpCall::real_number(size_t i) { return only(real_numbers(i), i); }

std::optional<Tensor> OpCall::constant(size_t i) { return constant(in(i)); }
std::optional<Tensor> OpCall::constant(const Tensor& t) { return builder_.contents(t, false); }

void OpCall::require_equal(const Expr& a, const Expr& b, std::string_view what) {
  auto known = sym::known({sym::Rel::Eq, a, b});
  const auto error = [&] { return fmt::format("{} has size {}; {} is expected", what, sym::to_string(a), sym::to_string(b)); };
  if (known && !*known) fail<UserError>("{}", error());
  if (!known) builder_.graph().guards.push_back({{sym::Rel::Eq, a, b}, fmt::format("{} (called at {})", error(), describe(node_))});
}

void OpCall::set(size_t i, Item item) {
  if (wants(i)) scope_.values[node_.outputs[i]] = std::move(item);
}

}  // namespace toroid::import::onnx
