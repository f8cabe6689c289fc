#include <cmath>
#include <set>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

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

// Numbers of a constant, or nothing.
std::optional<std::vector<double>> numbers(const Graph& g, const Value* v) {
  for (auto& in : g.inputs)
    if (in.value == v && in.kind == InputKind::Constant && in.data.defined()) return in.data.to_vector();
  return std::nullopt;
}
// An absent operand counts as `filler`.
std::optional<std::vector<double>> numbers_or(const Graph& g, const NodeArg* a, size_t count, double filler) {
  if (!a || std::holds_alternative<std::monostate>(*a)) return std::vector<double>(count, filler);
  auto v = numbers(g, tensor(a));
  return v && v->size() == count ? v : std::nullopt;
}

bool is_layer(const Node& n) {
  static const Names names = {"conv1d", "conv2d", "conv3d", "convolution", "_convolution", "linear"};
  if (!names.count(n.op->name) || is_true(arg(n, "transposed"))) return false;
  // Batch normalisation goes along dimension 1, a linear layer's features along the last.
  return n.op->name != "linear" || n.results[0]->type.dim() == 2;
}
bool is_batch_norm(const Node& n) {
  static const Names names = {"batch_norm", "native_batch_norm", "_native_batch_norm_legit_no_training"};
  return names.count(n.op->name) && !is_true(arg(n, "training")) && tensor(arg(n, "running_mean")) && tensor(arg(n, "running_var"));
}

struct Folded {
  Tensor weight, bias;
};

std::optional<Folded> fold(const Graph& g, const Node& layer, const Node& norm) {
  const Value* weight = tensor(arg(layer, "weight"));
  auto w = numbers(g, weight);
  if (!w || weight->type.sizes.empty() || w->empty()) return std::nullopt;
  size_t channels = static_cast<size_t>(weight->type.sizes[0].constant());
  auto b = numbers_or(g, arg(layer, "bias"), channels, 0);
  auto gamma = numbers_or(g, arg(norm, "weight"), channels, 1), beta = numbers_or(g, arg(norm, "bias"), channels, 0);
  auto mean = numbers_or(g, arg(norm, "running_mean"), channels, 0), var = numbers_or(g, arg(norm, "running_var"), channels, 1);
  auto* eps = std::get_if<double>(arg(norm, "eps"));
  if (!b || !gamma || !beta || !mean || !var || !eps) return std::nullopt;
  size_t each = w->size() / channels;
  for (size_t c = 0; c < channels; ++c) {
    double scale = (*gamma)[c] / std::sqrt((*var)[c] + *eps);
    for (size_t i = 0; i < each; ++i) (*w)[c * each + i] *= scale;
    (*b)[c] = ((*b)[c] - (*mean)[c]) * scale + (*beta)[c];
  }
  std::vector<int64_t> sizes;
  for (auto& s : weight->type.sizes) sizes.push_back(s.constant());
  std::vector<int64_t> count = {sizes[0]};
  return Folded{Tensor::of(*w, sizes, weight->type.dtype), Tensor::of(*b, count, weight->type.dtype)};
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
    out.recorder().set_where(n->where);
    out.set(n->results[0], ops::call(*layer->op, std::move(args)).at(0));
    // What else the normalisation gives is used by nothing.
    for (size_t i = 1; i < n->results.size(); ++i) out.set(n->results[i], out.at(n->results[0]));
  }
  return changed ? out.finish() : nullptr;
}

}  // namespace toroid::graph
