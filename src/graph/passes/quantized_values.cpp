#include "graph/passes/quantized_values.h"

#include <algorithm>

#include "graph/effects.h"
#include "graph/recipe.h"
#include "ops/reference.h"

namespace toroid::graph {
namespace {

// The operand of a sum or difference with the factor 1 for its other one.
bool is_plain(const Node* n, std::string_view name) { return is(n, name) && number(n->args[2]) == 1.0; }

// Whether numbers of a type may have these zero points.
bool are_zeros(const Tensor& zeros, DType type) {
  if (!zeros.defined()) return true;
  const double low = type == DType::U8 ? 0 : -128, high = type == DType::U8 ? 255 : 127;
  const auto v = zeros.to_vector();
  return std::all_of(v.begin(), v.end(), [&](double x) { return x == std::trunc(x) && low <= x && x <= high; });
}

// Whether a type holds differences of numbers of 8 bits.
bool holds_differences(DType t) {
  return t == DType::I16 || t == DType::I32 || t == DType::I64 || t == DType::F16 || t == DType::F32 || t == DType::F64;
}

Affine affine_of(const Quantized& q) { return {{{q.numbers, {double{q.scale}}}}, {-double{q.scale} * static_cast<double>(q.zero)}, {}}; }

// a + b
std::optional<Affine> joined(Affine a, Affine b, bool same_sizes) {
  constexpr size_t kMostTerms = 3;
  if (!same_sizes || b.is_limited() || a.terms.size() + b.terms.size() > kMostTerms) return std::nullopt;
  if (a.summands.size() < b.summands.size()) std::swap(a, b);
  if (b.summands.size() > 1 && b.sizes != a.sizes) return std::nullopt;
  for (size_t i = 0; i < a.summands.size(); ++i) a.summands[i] += b.summands[b.summands.size() == 1 ? 0 : i];
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

bool is_dear(const ops::Op& op) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{
      "erf",  "gelu", "tanh", "sigmoid",          "silu", "exp", "expm1", "log", "log1p", "mish", "elu", "selu", "softplus",
      "celu", "sin",  "cos",  "pow.Tensor_Scalar"};
  return names.count(op.name) > 0;
}

}  // namespace

std::optional<std::vector<double>> spread(const Tensor& t, size_t axis, int64_t rank, int64_t count) {
  if (!t.defined()) return std::vector<double>(static_cast<size_t>(count), 0.0);
  if (t.numel() == 1) return std::vector<double>(static_cast<size_t>(count), t.to_vector()[0]);
  const auto places = rank - t.dim();  // dimensions that it does not have come first
  const auto at = static_cast<int64_t>(axis) - places;
  if (t.numel() != count || at < 0 || t.sizes()[static_cast<size_t>(at)] != count) return std::nullopt;
  return t.to_vector();
}

QuantizedValues::QuantizedValues(const Graph& g) {
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const Input& in = g.inputs[i];
    const bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
    if (in.kind == InputKind::Constant && in.data.defined() && !recipe_of(in.data) && !written) constants_[in.value] = in.data;
  }
}

Tensor QuantizedValues::known(const Value* v, int64_t most) {
  if (!v) return {};
  if (auto it = constants_.find(v); it != constants_.end()) return it->second.numel() <= most ? moved(it->second, Device::cpu()) : Tensor();
  if (auto it = known_.find(v); it != known_.end()) return it->second;
  const Node* n = v->producer;
  const auto size = v->type.numel().maybe_constant();
  if (!n || n->results.size() != 1 || !is_pure(*n) || !size || *size > most) return {};
  bool all = true;
  for_each_operand(*n, [&](const Value* x) { all = all && known(x, most).defined(); });
  if (!all) return {};
  CallArgs args;
  for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](Value* x) { return x ? known(x, most) : Tensor(); }));
  try {
    return known_[v] = ops::evaluate(*n->op, std::move(args))[0];
  } catch (const UserError&) {
    return known_[v] = Tensor();  // it will be reported where it is run
  }
}

Tensor QuantizedValues::constant(const Value* v) const {
  const auto it = constants_.find(v);
  return it == constants_.end() ? Tensor() : moved(it->second, Device::cpu());
}

std::optional<Scaled<const Value*>> QuantizedValues::dequantized(const Value* v) {
  const Node* product = v ? v->producer : nullptr;
  if (!is(product, "mul.Tensor") || v->type.dtype != DType::F32) return std::nullopt;
  Scaled<const Value*> out{operand(*product, 0), known(operand(*product, 1)), {}};
  if (!out.scale.defined() || out.scale.dtype() != DType::F32 || !out.numbers || !is_cast(out.numbers->producer)) return std::nullopt;
  out.numbers = operand(*out.numbers->producer, 0);
  if (is_plain(out.numbers->producer, "sub.Tensor")) {
    const Node& difference = *out.numbers->producer;
    out.zero = known(operand(difference, 1));
    out.numbers = operand(difference, 0);
    if (!out.zero.defined() || !out.numbers || !is_cast(out.numbers->producer) || !holds_differences(out.numbers->type.dtype) ||
        !holds_differences(difference.results[0]->type.dtype))
      return std::nullopt;
    out.numbers = operand(*out.numbers->producer, 0);
  }
  if (!has_8_bits(out.numbers->type.dtype) || !(out.numbers->type.sizes == v->type.sizes)) return std::nullopt;
  if (!are_zeros(out.zero, out.numbers->type.dtype)) return std::nullopt;
  return out;
}

std::optional<Scaled<const Value*>> QuantizedValues::quantized(const Node& n) {
  const DType type = n.results[0]->type.dtype;
  const Value* x = is_cast(&n) && has_8_bits(type) ? operand(n, 0) : nullptr;
  if (!x || !is(x->producer, "clamp") || x->type.dtype != DType::F32) return std::nullopt;
  const Node& clamp = *x->producer;
  if (number(clamp.args[1]) != (type == DType::U8 ? 0.0 : -128.0) || number(clamp.args[2]) != (type == DType::U8 ? 255.0 : 127.0))
    return std::nullopt;
  x = operand(clamp, 0);
  Scaled<const Value*> out;
  if (is_plain(x->producer, "add.Tensor")) {
    out.zero = known(operand(*x->producer, 1));
    x = operand(*x->producer, 0);
    if (!out.zero.defined()) return std::nullopt;
  }
  if (!is(x->producer, "round")) return std::nullopt;
  x = operand(*x->producer, 0);
  if (!is(x->producer, "div.Tensor")) return std::nullopt;
  out.numbers = operand(*x->producer, 0);
  out.scale = known(operand(*x->producer, 1));
  if (!out.numbers || !out.scale.defined() || out.scale.dtype() != DType::F32) return std::nullopt;
  if (!(out.numbers->type.sizes == n.results[0]->type.sizes) || !are_zeros(out.zero, type)) return std::nullopt;
  return out;
}

const Quantized* QuantizedValues::find(const Value* v) const {
  auto it = v ? quantized_.find(v) : quantized_.end();
  return it == quantized_.end() ? nullptr : &it->second;
}

const Affine* QuantizedValues::affine(const Value* v) const {
  const auto it = affine_.find(v);
  return it == affine_.end() ? nullptr : &it->second;
}

void QuantizedValues::set(const Value* v, Quantized q, bool of_sums) {
  if (of_sums) {
    of_sums_.insert(v);
    affine_[v] = graph::affine_of(q);
  }
  quantized_[v] = std::move(q);
}

void QuantizedValues::note(const Node& n) {
  if (n.results.size() != 1) return;
  const Value* v = n.results[0];
  bool of_sums = false;
  for_each_operand(n, [&](const Value* x) { of_sums = of_sums || of_sums_.count(x); });
  if (of_sums && (n.op->formula || n.op->index_map || is_cast(&n))) of_sums_.insert(v);
  if (const auto most = bound_of(n)) bounds_[v] = *most;
  if (auto a = affine_of(n)) affine_[v] = std::move(*a);
}

std::optional<double> QuantizedValues::bound(const Value* v) {
  if (!v) return std::nullopt;
  if (auto it = bounds_.find(v); it != bounds_.end()) return it->second;
  if (auto* q = find(v)) return 256.0 * 2 * double{q->scale};
  const Tensor t = known(v);
  if (!t.defined()) return std::nullopt;
  double most = 0;
  for (double x : t.to_vector()) most = std::max(most, std::isfinite(x) ? std::abs(x) : std::numeric_limits<double>::infinity());
  return most;
}

std::optional<double> QuantizedValues::bound_of(const Node& n) {
  if (n.op->name == "relu" || n.op->name == "clamp") {
    if (!bounds_.count(operand(n, 0))) return std::nullopt;
    double most = *bound(operand(n, 0));
    for (size_t i = 1; i < n.args.size(); ++i)  // limits may lie past it
      if (const auto limit = number(n.args[i])) most = std::max(most, std::abs(*limit));
    return most;
  }
  if (!is_plain(&n, "add.Tensor")) return std::nullopt;
  const auto a = bound(operand(n, 0)), b = bound(operand(n, 1));
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

std::optional<Affine> QuantizedValues::affine_of(const Node& n) {
  const Value* x = n.args.empty() ? nullptr : operand(n, 0);
  const Value* y = n.args.size() > 1 ? operand(n, 1) : nullptr;
  const bool adds = is_plain(&n, "add.Tensor");
  if (adds && !affine_.count(x)) std::swap(x, y);
  auto it = affine_.find(x);
  if (it == affine_.end() || it->second.is_limited() || !(n.results[0]->type.sizes == x->type.sizes)) return std::nullopt;
  Affine a = it->second;
  if (n.op->name == "relu") {
    a.low = 0;
    return a;
  }
  if (n.op->name == "clamp") {
    const auto low = number(n.args[1]), high = number(n.args[2]);
    if (!low || !high || !(*low <= *high)) return std::nullopt;
    a.low = *low, a.high = *high;
    return a;
  }
  if (!adds || !y) return std::nullopt;
  if (auto other = affine_.find(y); other != affine_.end()) return joined(std::move(a), other->second, y->type.sizes == x->type.sizes);
  const Tensor numbers = known(y);
  const auto rank = x->type.dim(), channel = rank - static_cast<int64_t>(a.sizes.size());
  if (!numbers.defined() || numbers.dtype() != DType::F32) return std::nullopt;
  const auto count = static_cast<int64_t>(a.summands.size());
  const auto more = numbers.numel() == 1 ? numbers.to_vector() : spread(numbers, static_cast<size_t>(channel), rank, count);
  if (!more) return std::nullopt;
  Affine summand{{}, *more, a.sizes};
  return joined(std::move(a), std::move(summand), true);
}

std::optional<Function> QuantizedValues::function_of(const Node& n) {
  std::map<const Value*, Tensor> values;
  Function f;
  if (!evaluate(n.results[0], n.results[0]->type.sizes, f, values)) return std::nullopt;
  f.table = values.at(n.results[0]);
  return f.of.defined() && f.table.dim() == 1 ? std::optional(f) : std::nullopt;
}

// The numbers of a dequantized value, as reals, for each of the 256.
bool QuantizedValues::take_leaf(const Quantized& q, Function& f, Tensor& values) const {
  const DType type = q.numbers.dtype();
  auto it = functions_.find(q.numbers.impl());
  const Tensor root = it == functions_.end() ? q.numbers : it->second.of;
  if (f.of.defined() && f.of.impl() != root.impl()) return false;
  f.of = root;
  std::vector<double> reals;
  if (it != functions_.end()) {
    f.is_dear = f.is_dear || it->second.is_dear;
    reals = it->second.table.to_vector();
  } else {
    for (int i = 0; i < 256; ++i) reals.push_back(type == DType::I8 ? i - 128 : i);
  }
  for (double& x : reals) x = static_cast<float>(x - static_cast<double>(q.zero)) * q.scale;
  values = Tensor::of(reals, std::vector<int64_t>{256}, DType::F32);
  return true;
}

bool QuantizedValues::evaluate(const Value* v, const std::vector<Expr>& sizes, Function& f, std::map<const Value*, Tensor>& values) {
  if (values.count(v)) return true;
  if (const Tensor t = known(v); t.defined()) {
    if (t.numel() != 1) return false;
    values[v] = t.as_strided({}, {});
    return true;
  }
  if (!(v->type.sizes == sizes) || v->type.dtype == DType::F16 || v->type.dtype == DType::BF16) return false;
  if (auto* q = find(v)) return take_leaf(*q, f, values[v]);
  const Node* n = v->producer;
  constexpr size_t kMostSteps = 64;
  if (!n || n->results.size() != 1 || !is_pure(*n) || !(n->op->formula || is_cast(n)) || values.size() > kMostSteps) return false;
  bool all = true;
  for_each_operand(*n, [&](const Value* x) { all = all && evaluate(x, sizes, f, values); });
  if (!all) return false;
  f.is_dear = f.is_dear || is_dear(*n->op);
  CallArgs args;
  for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](Value* x) { return x ? values.at(x) : Tensor(); }));
  try {
    values[v] = ops::evaluate(*n->op, std::move(args))[0];
  } catch (const UserError&) {
    return false;  // it will be reported where it is run
  }
  return true;
}

}  // namespace toroid::graph
