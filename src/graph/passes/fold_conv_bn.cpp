#include <algorithm>
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

Tensor constant(const Graph& g, const Value* v) {
  for (auto& in : g.inputs)
    if (in.value == v && in.kind == InputKind::Constant) return in.data;
  return {};
}
// Numbers of a constant, or nothing.
std::optional<std::vector<double>> numbers(const Graph& g, const Value* v) {
  Tensor t = constant(g, v);
  return t.defined() ? std::optional(t.to_vector()) : std::nullopt;
}
// An absent operand counts as `filler`.
std::optional<std::vector<double>> numbers_or(const Graph& g, const NodeArg* a, size_t count, double filler) {
  if (!a || std::holds_alternative<std::monostate>(*a)) return std::vector<double>(count, filler);
  auto v = numbers(g, tensor(a));
  return v && v->size() == count ? v : std::nullopt;
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

struct Folded {
  Tensor weight, bias;
};

// The weight with each output channel multiplied by its factor. groups: 0 where output channels are outermost; else of a transposed
// convolution, where those of a group are within each of the group's input channels.
Tensor scaled(const Tensor& weight, const std::vector<double>& factors, size_t groups) {
  Tensor from = weight.contiguous(), out = Tensor::empty(weight.sizes(), weight.dtype());
  const size_t in = groups ? static_cast<size_t>(weight.sizes()[0]) : 1, own = factors.size() / std::max<size_t>(groups, 1);
  const size_t each = static_cast<size_t>(from.numel()) / (in * own), step = size_of(weight.dtype());
  for (size_t row = 0; row < in * own; ++row) {
    const double factor = factors[row / own * groups / in * own + row % own];
    if (weight.dtype() == DType::F32) {
      const float* source = from.data<float>() + row * each;
      std::transform(source, source + each, out.data<float>() + row * each, [factor](float x) { return static_cast<float>(x * factor); });
      continue;
    }
    for (size_t i = row * each; i < (row + 1) * each; ++i)
      store_number(out.raw_data() + i * step, weight.dtype(),
                   Number::of(load_number(from.raw_data() + i * step, weight.dtype()).as_double() * factor));
  }
  return out;
}

std::optional<Folded> fold(const Graph& g, const Node& layer, const Node& norm) {
  Tensor w = constant(g, tensor(arg(layer, "weight")));
  if (!w.defined() || w.sizes().empty() || w.numel() == 0 || !is_float(w.dtype())) return std::nullopt;
  w = moved(w, Device::cpu());
  size_t groups = 0;
  if (is_transposed(layer)) {
    auto* count = std::get_if<Expr>(arg(layer, "groups"));
    if (!count || !count->is_const() || w.dim() < 3) return std::nullopt;
    groups = static_cast<size_t>(count->constant());
  }
  size_t channels = static_cast<size_t>(groups ? w.sizes()[1] : w.sizes()[0]) * std::max<size_t>(groups, 1);
  auto b = numbers_or(g, arg(layer, "bias"), channels, 0);
  auto gamma = numbers_or(g, arg(norm, "weight"), channels, 1), beta = numbers_or(g, arg(norm, "bias"), channels, 0);
  auto mean = numbers_or(g, arg(norm, "running_mean"), channels, 0), var = numbers_or(g, arg(norm, "running_var"), channels, 1);
  auto* eps = std::get_if<double>(arg(norm, "eps"));
  if (!b || !gamma || !beta || !mean || !var || !eps) return std::nullopt;
  std::vector<double> factors(channels);
  for (size_t c = 0; c < channels; ++c) {
    factors[c] = (*gamma)[c] / std::sqrt((*var)[c] + *eps);
    (*b)[c] = ((*b)[c] - (*mean)[c]) * factors[c] + (*beta)[c];
  }
  return Folded{scaled(w, factors, groups), Tensor::of(*b, std::vector<int64_t>{static_cast<int64_t>(channels)}, w.dtype())};
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
