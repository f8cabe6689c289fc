#include <algorithm>
#include <bit>
#include <set>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/recipe.h"
#include "ops/fold_batch_norm.h"

namespace toroid::graph {
namespace {

using Names = std::set<std::string_view>;

const NodeArg* arg(const Node& n, const char* name) {
  int i = n.op->schema.find(name);
  return i < 0 ? nullptr : &n.args[static_cast<size_t>(i)];
}
bool is_true(const NodeArg* a) {
  auto* b = a ? std::get_if<bool>(a) : nullptr;
  return b && *b;
}
const Value* tensor(const NodeArg* a) {
  auto* v = a ? std::get_if<Value*>(a) : nullptr;
  return v ? *v : nullptr;
}

Tensor constant(const Graph& g, const Value* v) {
  for (auto& in : g.inputs)
    if (in.value == v && in.kind == InputKind::Constant) return in.data;
  return {};
}
// The constant of an operand, undefined where it is absent; nothing for what is no constant of `count` elements.
std::optional<Tensor> constant_or_absent(const Graph& g, const NodeArg* a, size_t count) {
  if (!a || std::holds_alternative<std::monostate>(*a)) return Tensor();
  Tensor t = constant(g, tensor(a));
  return t.defined() && t.numel() == static_cast<int64_t>(count) ? std::optional(t) : std::nullopt;
}

bool is_transposed(const Node& n) { return n.op->name.starts_with("conv_transpose") || is_true(arg(n, "transposed")); }
bool is_layer(const Node& n) {
  static const Names& names = *new Names{"conv1d",
                                         "conv2d",
                                         "conv3d",
                                         "convolution",
                                         "_convolution",
                                         "linear",
                                         "conv_transpose1d",
                                         "conv_transpose2d.input",
                                         "conv_transpose3d.input"};
  if (!names.count(n.op->name)) return false;
  // Batch normalisation goes along dimension 1: a linear layer's features are the last one, and so without a batch are channels the first.
  const Value* weight = tensor(arg(n, "weight"));
  return weight && n.results[0]->type.dim() == weight->type.dim();
}
bool is_batch_norm(const Node& n) {
  static const Names& names = *new Names{"batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training"};
  return names.count(n.op->name) && !is_true(arg(n, "training")) && tensor(arg(n, "running_mean")) && tensor(arg(n, "running_var"));
}

std::optional<ops::FoldedNorm> fold(const Graph& g, const Node& layer, const Node& norm) {
  Tensor w = constant(g, tensor(arg(layer, "weight")));
  if (!w.defined() || w.sizes().empty() || w.numel() == 0 || !is_float(w.dtype())) return std::nullopt;
  int64_t groups = 0;
  if (is_transposed(layer)) {
    auto* count = std::get_if<Expr>(arg(layer, "groups"));
    if (!count || !count->is_const() || w.dim() < 3) return std::nullopt;
    groups = count->constant();
  }
  const auto channels = static_cast<size_t>(groups ? w.sizes()[1] * std::max<int64_t>(groups, 1) : w.sizes()[0]);
  std::vector<Tensor> of{w};
  for (const NodeArg* a :
       {arg(layer, "bias"), arg(norm, "weight"), arg(norm, "bias"), arg(norm, "running_mean"), arg(norm, "running_var")}) {
    auto t = constant_or_absent(g, a, channels);
    if (!t) return std::nullopt;
    of.push_back(*t);
  }
  auto* eps = std::get_if<double>(arg(norm, "eps"));
  if (!eps) return std::nullopt;
  ops::FoldedNorm out = ops::fold_batch_norm(of, *eps, groups);
  const std::vector<int64_t> numbers{std::bit_cast<int64_t>(*eps), groups};
  set_recipe(out.weight, {.layout = "fold_batch_norm.weight", .numbers = numbers, .of = of});
  set_recipe(out.bias, {.layout = "fold_batch_norm.bias", .numbers = numbers, .of = of});
  return out;
}

}  // namespace

std::unique_ptr<Graph> fold_conv_bn(const Graph& g) {
  std::vector<int> uses(g.values.size(), 0);
  for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* v) { ++uses[static_cast<size_t>(v->id)]; });
  for (auto& o : g.outputs)
    if (o.value) ++uses[static_cast<size_t>(o.value->id)];
  Rebuild out(g);
  bool changed = false;
  for (auto& n : g.nodes) {
    const Value* input = is_batch_norm(*n) ? tensor(arg(*n, "input")) : nullptr;
    const Node* layer = input ? input->producer : nullptr;
    bool only_first = true;
    for (size_t i = 1; i < n->results.size(); ++i) only_first = only_first && uses[static_cast<size_t>(n->results[i]->id)] == 0;
    bool fits = layer && only_first && uses[static_cast<size_t>(input->id)] == 1 && is_layer(*layer);
    auto folded = fits ? fold(g, *layer, *n) : std::nullopt;
    if (!folded) {
      out.copy(*n);
      continue;
    }
    changed = true;
    CallArgs args = out.args(*layer);
    args[static_cast<size_t>(layer->op->schema.find("weight"))] = folded->weight;
    args[static_cast<size_t>(layer->op->schema.find("bias"))] = folded->bias;
    out.recorder().stand_in_for(*n);
    out.set(n->results[0], ops::call(*layer->op, std::move(args)).at(0));
    // What else the normalisation gives is used by nothing.
    for (size_t i = 1; i < n->results.size(); ++i) out.set(n->results[i], out.at(n->results[0]));
  }
  return changed ? out.finish() : nullptr;
}

}  // namespace toroid::graph
