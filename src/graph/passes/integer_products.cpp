// Products and convolutions of dequantized numbers with known weights, as sums of whole numbers of 8 bits. A dequantized tensor stands for
// scale * (numbers - zero), with one scale and zero point, which are known; what only moves its elements moves the numbers. The results are
// those of the same graph in real numbers, of which products of floats give roundings and sums of whole numbers do not.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "ops/reference.h"
#include "tensor/tensor_impl.h"

namespace toroid::graph {
namespace {

using Names = std::set<std::string_view>;
using Sizes = std::vector<Expr>;
using ops::call1;

constexpr int64_t kMostNumbers = int64_t{1} << 16;  // of scales, zero points and biases
constexpr int64_t kMostWeights = int64_t{1} << 22;  // that are quantized here: the reference evaluator is slow
constexpr int64_t kMostTerms = int64_t{1} << 15;    // of a sum, which then fits 32 bits with what zero points add

bool has_8_bits(DType t) { return t == DType::I8 || t == DType::U8; }
bool is(const Node* n, std::string_view name) { return n && n->op->name == name; }
bool is_cast(const Node* n) { return is(n, "to.dtype") || is(n, "_to_copy"); }

const Value* operand(const Node& n, size_t i) {
  auto* v = i < n.args.size() ? std::get_if<Value*>(&n.args[i]) : nullptr;
  return v ? *v : nullptr;
}

std::optional<double> number(const NodeArg& a) {
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return static_cast<double>(e->constant());
  if (auto* d = std::get_if<double>(&a)) return *d;
  return std::nullopt;
}

// The operand of a sum or difference with the factor 1 for its other one.
bool is_plain(const Node* n, std::string_view name) { return is(n, name) && number(n->args[2]) == 1.0; }

Tensor cast(const Tensor& t, DType to) { return t.dtype() == to ? t : call1("_to_copy", {t, to}); }

Sizes sizes_of(const Tensor& t) {
  Sizes out;
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(t.size(d).expr());
  return out;
}

// The same elements elsewhere, each as it was, or a choice among them that keeps their order.
bool moves(const ops::Op& op) {
  static const Names names = {"view",       "reshape",     "permute",      "transpose.int",      "t",          "unsqueeze",
                              "squeeze",    "squeeze.dim", "squeeze.dims", "flatten.using_ints", "expand",     "slice.Tensor",
                              "select.int", "alias",       "clone",        "contiguous",         "max_pool1d", "max_pool2d"};
  return names.count(op.name) > 0;
}

// scale * (numbers - zero)
struct Quantized {
  Tensor numbers;
  float scale = 1;
  int64_t zero = 0;
};

// The same with more than one scale: both have one number, or broadcast against the numbers.
template <class Numbers>
struct Scaled {
  Numbers numbers;
  Tensor scale, zero;  // zero: undefined where there is none
};

// Weights of a product: numbers less their zero points; for each output channel the scale, and the sum of the numbers.
struct Weights {
  std::vector<Tensor> parts;  // I8, whose sum the numbers are: nearly always one
  std::vector<float> scales;
  std::vector<int64_t> sums;
};

// What whole numbers become in real ones: tensors of them times factors, and a summand, then limits. Factors and summands are one number
// each, or one for each output channel, which then have `sizes` to broadcast.
struct Affine {
  struct Term {
    Tensor numbers;
    std::vector<double> factors;
  };
  std::vector<Term> terms;
  std::vector<double> summands;
  std::vector<int64_t> sizes;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();

  bool is_limited() const { return std::isfinite(low) || std::isfinite(high); }
};

// Numbers of 8 bits that are a function of others, point by point: what each of the 256 becomes, the least first.
struct Function {
  Tensor of;
  Tensor table;
  bool is_dear = false;  // to compute
};

class Rewriter {
 public:
  explicit Rewriter(const Graph& g) : g_(g), out_(g) {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const Input& in = g.inputs[i];
      const bool written = std::any_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); });
      if (in.kind == InputKind::Constant && in.data.defined() && !written) constants_[in.value] = in.data;
    }
  }

  std::unique_ptr<Graph> run() {
    bool changed = false;
    for (auto& n : g_.nodes) {
      const Tensor t = n->results.size() == 1 && n->regions.empty() ? replacement(*n) : Tensor();
      if (t.defined()) {
        out_.set(n->results[0], t);
        changed = true;
      } else {
        out_.copy(*n);
        note(*n);
      }
    }
    return changed && products_ > 0 ? out_.finish() : nullptr;
  }

 private:
  // --- what is known ----------------------------------------------------------------------------------------------------------------

  // The contents of a value that depends on constants alone; undefined where there are more than `most` or they are not known.
  Tensor known(const Value* v, int64_t most = kMostNumbers) {
    if (!v) return {};
    if (auto it = constants_.find(v); it != constants_.end())
      return it->second.numel() <= most ? moved(it->second, Device::cpu()) : Tensor();
    if (auto it = known_.find(v); it != known_.end()) return it->second;
    const Node* n = v->producer;
    const auto size = v->type.numel().maybe_constant();
    if (!n || n->results.size() != 1 || n->op->random || n->op->effect || is_mutating(*n->op) || !n->regions.empty() || !size ||
        *size > most)
      return {};
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

  // Whether numbers of a type may have these zero points.
  static bool are_zeros(const Tensor& zeros, DType type) {
    if (!zeros.defined()) return true;
    const double low = type == DType::U8 ? 0 : -128, high = type == DType::U8 ? 255 : 127;
    const auto v = zeros.to_vector();
    return std::all_of(v.begin(), v.end(), [&](double x) { return x == std::trunc(x) && low <= x && x <= high; });
  }

  // Whether a type holds differences of numbers of 8 bits.
  static bool holds_differences(DType t) {
    return t == DType::I16 || t == DType::I32 || t == DType::I64 || t == DType::F16 || t == DType::F32 || t == DType::F64;
  }

  std::optional<Scaled<const Value*>> dequantized(const Value* v) {
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

  // What a quantized value is made of; its numbers are real ones.
  std::optional<Scaled<const Value*>> quantized(const Node& n) {
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

  // Of one scale and zero point, which are usual.
  template <class Numbers>
  static std::optional<Quantized> with_one_scale(const Scaled<Numbers>& s, Tensor numbers) {
    if (s.scale.numel() != 1 || (s.zero.defined() && s.zero.numel() != 1)) return std::nullopt;
    const auto scale = static_cast<float>(s.scale.to_vector()[0]);
    if (!std::isfinite(scale) || !(scale > 0)) return std::nullopt;
    return Quantized{std::move(numbers), scale, s.zero.defined() ? static_cast<int64_t>(s.zero.to_vector()[0]) : 0};
  }

  const Quantized* find(const Value* v) const {
    auto it = v ? quantized_.find(v) : quantized_.end();
    return it == quantized_.end() ? nullptr : &it->second;
  }

  // Keeps in mind what a copied node computes.
  void note(const Node& n) {
    if (n.results.size() != 1) return;
    const Value* v = n.results[0];
    bool of_sums = false;
    for_each_operand(n, [&](const Value* x) { of_sums = of_sums || of_sums_.count(x); });
    if (of_sums && (n.op->formula || n.op->index_map || is_cast(&n))) of_sums_.insert(v);
    if (const auto most = bound_of(n)) bounds_[v] = *most;
    if (auto a = affine_of(n)) affine_[v] = std::move(*a);
  }

  // Absolute values that no element exceeds, where that is known.
  std::optional<double> bound(const Value* v) {
    if (!v) return std::nullopt;
    if (auto it = bounds_.find(v); it != bounds_.end()) return it->second;
    if (auto* q = find(v)) return 256.0 * 2 * double{q->scale};
    const Tensor t = known(v);
    if (!t.defined()) return std::nullopt;
    double most = 0;
    for (double x : t.to_vector()) most = std::max(most, std::isfinite(x) ? std::abs(x) : std::numeric_limits<double>::infinity());
    return most;
  }

  std::optional<double> bound_of(const Node& n) {
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

  static Affine affine_of(const Quantized& q) {
    return {{{q.numbers, {double{q.scale}}}}, {-double{q.scale} * static_cast<double>(q.zero)}, {}};
  }

  std::optional<Affine> affine_of(const Node& n) {
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
    return more ? joined(std::move(a), {{}, *more, a.sizes}, true) : std::nullopt;
  }

  // a + b
  static std::optional<Affine> joined(Affine a, Affine b, bool same_sizes) {
    constexpr size_t kMostTerms = 3;
    if (!same_sizes || b.is_limited() || a.terms.size() + b.terms.size() > kMostTerms) return std::nullopt;
    if (a.summands.size() < b.summands.size()) std::swap(a, b);
    if (b.summands.size() > 1 && b.sizes != a.sizes) return std::nullopt;
    for (size_t i = 0; i < a.summands.size(); ++i) a.summands[i] += b.summands[b.summands.size() == 1 ? 0 : i];
    a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
    return a;
  }

  // --- what is changed --------------------------------------------------------------------------------------------------------------

  // Undefined: the node stays.
  Tensor replacement(const Node& n) {
    out_.recorder().set_where(n.where);
    if (auto q = quantized(n)) return quantize(n, *q);
    if (auto d = dequantized(n.results[0]))
      if (auto q = with_one_scale(*d, out_.at(d->numbers))) return stand_in(n, *q, of_sums_.count(d->numbers) > 0);
    if (Tensor t = moved_numbers(n); t.defined()) return t;
    Tensor sums = product(n);
    if (!sums.defined()) return {};
    ++products_;
    of_sums_.insert(n.results[0]);
    return sums;
  }

  Tensor quantize(const Node& n, const Scaled<const Value*>& s) {
    const DType type = n.results[0]->type.dtype;
    const auto to = with_one_scale(s, {});
    if (!to || !std::isfinite(1 / to->scale)) return {};
    const Quantized* from = find(s.numbers);
    if (from && from->scale == to->scale && from->zero == to->zero && from->numbers.dtype() == type) return from->numbers;
    if (!of_sums_.count(s.numbers)) return {};
    of_sums_.insert(n.results[0]);
    const auto f = function_of(n);
    const Tensor numbers = f && f->is_dear ? look_up(*f) : requantize(n, s, *to);
    if (f) functions_[numbers.impl()] = *f;
    return numbers;
  }

  // --- tables -----------------------------------------------------------------------------------------------------------------------

  static Tensor look_up(const Function& f) {
    Tensor index = cast(f.of, DType::I32);
    if (f.of.dtype() == DType::I8) index = call1("add.Tensor", {index, Expr(128)});
    return call1("index.Tensor", {f.table, std::vector<Tensor>{index}});
  }

  static bool is_dear(const ops::Op& op) {
    static const Names names = {
        "erf",  "gelu", "tanh", "sigmoid",          "silu", "exp", "expm1", "log", "log1p", "mish", "elu", "selu", "softplus",
        "celu", "sin",  "cos",  "pow.Tensor_Scalar"};
    return names.count(op.name) > 0;
  }

  // What a quantized value is of the numbers that all of it depends on, if it is a function of one tensor of them.
  std::optional<Function> function_of(const Node& n) {
    std::map<const Value*, Tensor> values;
    Function f;
    if (!evaluate(n.results[0], n.results[0]->type.sizes, f, values)) return std::nullopt;
    f.table = values.at(n.results[0]);
    return f.of.defined() && f.table.dim() == 1 ? std::optional(f) : std::nullopt;
  }

  // The numbers of a dequantized value, as reals, for each of the 256.
  bool take_leaf(const Quantized& q, Function& f, Tensor& values) {
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

  bool evaluate(const Value* v, const Sizes& sizes, Function& f, std::map<const Value*, Tensor>& values) {
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
    if (!n || n->results.size() != 1 || n->op->random || !(n->op->formula || is_cast(n)) || values.size() > kMostSteps) return false;
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

  Tensor requantize(const Node& n, const Scaled<const Value*>& s, const Quantized& to) {
    const DType type = n.results[0]->type.dtype;
    // Once a point of a product a division takes as long as the sum of a hundred products.
    const double inverse = static_cast<float>(1 / to.scale);
    const auto most = bound(s.numbers);
    Range range = type == DType::I8 ? Range{-128, 127} : Range{0, 255};
    Tensor x;
    if (auto it = affine_.find(s.numbers); it != affine_.end()) {
      const Affine& a = it->second;
      for (auto& term : a.terms) {
        Tensor part = call1("mul.Tensor", {cast(term.numbers, DType::F32), channels(term.factors, inverse, a.sizes)});
        x = x.defined() ? call1("add.Tensor", {x, part}) : part;
      }
      x = call1("add.Tensor", {x, channels(a.summands, inverse, a.sizes)});
      const auto limit = [&](double real) {
        return static_cast<double>(to.zero) + std::nearbyint(static_cast<double>(static_cast<float>(real * inverse)));
      };
      range = {std::clamp(limit(a.low), range.low, range.high), std::clamp(limit(a.high), range.low, range.high)};
    } else {
      x = call1("mul.Tensor", {out_.at(s.numbers), inverse});
    }
    x = call1("round", {x});
    constexpr double kWhole = 1 << 30;
    if (most && *most * inverse < kWhole) x = cast(x, DType::I32);
    if (to.zero) x = call1("add.Tensor", {x, Expr(to.zero)});
    return cast(call1("clamp", {x, Expr(static_cast<int64_t>(range.low)), Expr(static_cast<int64_t>(range.high))}), type);
  }

  struct Range {
    double low, high;
  };

  // A number for each channel, times `factor`; one where they are all equal.
  static Arg<Tensor> channels(std::vector<double> numbers, double factor, const std::vector<int64_t>& sizes) {
    for (double& x : numbers) x *= factor;
    const bool one = std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x == numbers[0]; });
    if (one) return double{static_cast<float>(numbers[0])};
    return Tensor::of(numbers, sizes, DType::F32);
  }

  // Lets `q` stand for the node's result; gives the real numbers for those that want them, which cost less to compute again than to keep.
  Tensor stand_in(const Node& n, Quantized q, bool of_sums) {
    Tensor real = cast(q.numbers, DType::F32);
    if (q.zero) real = call1("sub.Tensor", {real, Expr(q.zero)});
    real = call1("mul.Tensor", {real, static_cast<double>(q.scale)});
    if (of_sums) {
      of_sums_.insert(n.results[0]);
      affine_[n.results[0]] = affine_of(q);
    }
    quantized_[n.results[0]] = std::move(q);
    return real;
  }

  Tensor moved_numbers(const Node& n) {
    const ops::Op& op = *n.op;
    if (op.name == "cat") return joined(n);
    const Quantized* x = n.args.empty() ? nullptr : find(operand(n, 0));
    if (!x || n.results[0]->type.dtype != DType::F32) return {};
    Quantized q = *x;
    if (op.name == "relu") {
      q.numbers = call1("clamp_min", {q.numbers, Expr(q.zero)});
    } else if (op.name == "constant_pad_nd" && number(n.args[2]) == 0.0) {
      q.numbers = call1("constant_pad_nd", {q.numbers, out_.args(n)[1], Expr(q.zero)});
    } else if (moves(op)) {
      CallArgs args = out_.args(n);
      args[0] = q.numbers;
      q.numbers = ops::call(op, std::move(args))[0];
    } else {
      return {};
    }
    return stand_in(n, std::move(q), of_sums_.count(operand(n, 0)) > 0);
  }

  Tensor joined(const Node& n) {
    const auto* list = std::get_if<std::vector<Value*>>(&n.args[0]);
    if (!list || list->empty() || !find(list->front())) return {};
    Quantized q = *find(list->front());
    std::vector<Tensor> parts;
    for (const Value* v : *list) {
      const Quantized* x = find(v);
      if (!x || x->scale != q.scale || x->zero != q.zero || x->numbers.dtype() != q.numbers.dtype()) return {};
      parts.push_back(x->numbers);
    }
    CallArgs args = out_.args(n);
    args[0] = parts;
    q.numbers = ops::call(*n.op, std::move(args))[0];
    return stand_in(n, std::move(q), of_sums_.count(list->front()) > 0);
  }

  // --- products ---------------------------------------------------------------------------------------------------------------------

  // Numbers of 8 bits with their scales, through transpositions.
  std::optional<Scaled<Tensor>> scaled_weights(const Value* v) {
    const Node* n = v ? v->producer : nullptr;
    if (!n) return std::nullopt;
    if (is(n, "permute") || is(n, "transpose.int") || is(n, "t")) {
      auto w = scaled_weights(operand(*n, 0));
      if (!w) return std::nullopt;
      for (Tensor* t : {&w->numbers, &w->scale, &w->zero}) {
        if (!t->defined() || (t != &w->numbers && t->numel() == 1)) continue;
        if (t->dim() != w->numbers.dim()) return std::nullopt;
        CallArgs args;
        for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](Value*) { return *t; }));
        *t = ops::evaluate(*n->op, std::move(args))[0];
      }
      return w;
    }
    auto d = dequantized(v);
    if (!d) return std::nullopt;
    auto it = constants_.find(d->numbers);
    Tensor numbers = it != constants_.end() ? moved(it->second, Device::cpu()) : known(d->numbers, kMostWeights);
    if (!numbers.defined() || numbers.numel() == 0) return std::nullopt;
    return Scaled<Tensor>{numbers, d->scale, d->zero};
  }

  // One number for each of `count` positions of `axis`; nothing where others have more.
  static std::optional<std::vector<double>> spread(const Tensor& t, size_t axis, int64_t rank, int64_t count) {
    if (!t.defined()) return std::vector<double>(static_cast<size_t>(count), 0.0);
    if (t.numel() == 1) return std::vector<double>(static_cast<size_t>(count), t.to_vector()[0]);
    const auto places = rank - t.dim();  // dimensions that it does not have come first
    const auto at = static_cast<int64_t>(axis) - places;
    if (t.numel() != count || at < 0 || t.sizes()[static_cast<size_t>(at)] != count) return std::nullopt;
    return t.to_vector();
  }

  // Adds a part: of the numbers what those before it have left, as far as it fits. Whether something is left still.
  template <class T>
  static bool add_part(const Tensor& from, const std::vector<double>& zeros, int64_t inner, Weights& w) {
    const size_t before = w.parts.size();
    w.parts.push_back(Tensor::empty(from.sizes(), DType::I8));
    const T* x = from.data<T>();
    int8_t* to = w.parts.back().template data<int8_t>();
    const auto channels = static_cast<int64_t>(zeros.size()), rows = from.numel() / inner;
    bool more = false;
    for (int64_t row = 0; row < rows; ++row) {
      const auto channel = static_cast<size_t>(row % channels);
      const int zero = static_cast<int>(zeros[channel]);
      int64_t sum = 0;
      for (int64_t i = 0; i < inner; ++i, ++x, ++to) {
        int left = *x - zero;
        for (size_t j = 0; j < before; ++j) left -= std::clamp(left, -128, 127);
        *to = static_cast<int8_t>(std::clamp(left, -128, 127));
        more = more || left != *to;
        sum += *to;
      }
      w.sums[channel] += sum;
    }
    return more;
  }

  // `axis`: of the output channels.
  std::optional<Weights> weights(const Value* v, size_t axis) {
    auto s = scaled_weights(v);
    if (!s || s->numbers.dim() <= static_cast<int64_t>(axis)) return std::nullopt;
    const Tensor from = s->numbers.contiguous();
    const int64_t count = from.sizes()[axis], rank = from.dim();
    const auto scales = spread(s->scale, axis, rank, count), zeros = spread(s->zero, axis, rank, count);
    if (!scales || !zeros || from.numel() / count > kMostTerms) return std::nullopt;
    if (!std::all_of(scales->begin(), scales->end(), [](double x) { return std::isfinite(x); })) return std::nullopt;
    int64_t inner = 1;
    for (size_t d = axis + 1; d < static_cast<size_t>(rank); ++d) inner *= from.sizes()[d];
    Weights w{{}, {scales->begin(), scales->end()}, std::vector<int64_t>(static_cast<size_t>(count))};
    while (from.dtype() == DType::I8 ? add_part<int8_t>(from, *zeros, inner, w) : add_part<uint8_t>(from, *zeros, inner, w)) continue;
    return w;
  }

  // The sum of what `product` makes of each part.
  template <class Product>
  static Tensor over_parts(const Weights& w, Product&& product) {
    Tensor sums;
    for (auto& part : w.parts) {
      const Tensor y = product(part);
      sums = sums.defined() ? call1("add.Tensor", {sums, y}) : y;
    }
    return sums;
  }

  // Sums as real numbers, which `n` has computed; `bias` may be undefined.
  Tensor real(const Node& n, const Tensor& sums, const Quantized& x, const Weights& w, std::vector<int64_t> sizes, const Value* bias) {
    std::vector<double> factors;
    for (float s : w.scales) factors.push_back(double{static_cast<float>(double{s} * double{x.scale})});
    Affine a{{{sums, factors}}, std::vector<double>(factors.size()), std::move(sizes)};
    Tensor y = call1("mul.Tensor", {cast(sums, DType::F32), channels(factors, 1, a.sizes)});
    const int64_t terms = w.parts[0].numel() / static_cast<int64_t>(w.scales.size());
    double most = 0;
    for (double f : factors)
      most = std::isfinite(f) ? std::max(most, std::abs(f) * 2 * 256 * 512 * static_cast<double>(terms))
                              : std::numeric_limits<double>::infinity();
    const Tensor numbers = known(bias);
    if (numbers.defined()) a.summands = numbers.to_vector();
    if (bias)
      y = call1("add.Tensor",
                {y, numbers.defined() ? channels(a.summands, 1, a.sizes)
                                      : Arg<Tensor>(call1("reshape", {out_.at(bias), Sizes(a.sizes.begin(), a.sizes.end())}))});
    const auto of_bias = bias ? bound(bias) : 0.0;
    if (of_bias) bounds_[n.results[0]] = most + *of_bias;
    if (!bias || numbers.defined()) affine_[n.results[0]] = std::move(a);
    return y;
  }

  Tensor product(const Node& n) {
    if (n.op->name == "convolution") return convolution(n);
    const bool linear = n.op->name == "linear", sum = n.op->name == "addmm";
    if (!linear && !sum && n.op->name != "mm" && n.op->name != "matmul") return {};
    const size_t first = sum ? 1 : 0;
    const Value *bias = linear ? operand(n, 2) : sum ? operand(n, 0) : nullptr, *right = operand(n, first + 1);
    const Quantized* x = find(operand(n, first));
    if (!x || x->numbers.dim() < 2 || !right || right->type.dim() != 2) return {};
    if (sum && (number(n.args[3]) != 1.0 || number(n.args[4]) != 1.0 || !bias || !(bias->type.sizes == Sizes{right->type.sizes[1]})))
      return {};
    auto w = weights(right, linear ? 0 : 1);
    if (!w) return {};
    const auto count = static_cast<int64_t>(w->scales.size());
    const int64_t k = w->parts[0].numel() / count;
    if (linear)
      for (Tensor& part : w->parts) part = part.as_strided(std::vector<int64_t>{k, count}, std::vector<int64_t>{1, k});
    Sizes sizes = sizes_of(x->numbers);
    Tensor rows = x->numbers;
    if (sizes.size() > 2) {
      Expr m = 1;
      for (size_t d = 0; d + 1 < sizes.size(); ++d) m = m * sizes[d];
      rows = call1("reshape", {rows, Sizes{m, sizes.back()}});
    }
    Tensor sums = over_parts(*w, [&](const Tensor& part) { return call1("_int_mm", {rows, part}); });
    if (x->zero) {
      std::vector<double> of_zero;
      for (int64_t s : w->sums) of_zero.push_back(static_cast<double>(s * x->zero));
      sums = call1("sub.Tensor", {sums, Tensor::of(of_zero, std::vector<int64_t>{count}, DType::I32)});
    }
    sizes.back() = count;
    if (sizes.size() > 2) sums = call1("reshape", {sums, sizes});
    return real(n, sums, *x, *w, {count}, bias);
  }

  // One of one dimension is one of rows.
  Tensor convolution(const Node& n) {
    const Quantized* x = find(operand(n, 0));
    const auto types = type_args(n);
    const ops::TypeReader r(*n.op, types);
    const auto& input = operand(n, 0)->type.sizes;
    if (!x || (input.size() != 4 && input.size() != 3) || r.flag("transposed")) return {};
    if (std::any_of(input.begin() + 1, input.end(), [](auto& s) { return !s.is_const(); })) return {};
    auto w = weights(operand(n, 1), 0);
    if (!w) return {};
    const auto count = static_cast<int64_t>(w->scales.size());
    const int64_t groups = r.integer("groups"), in = input[1].constant();
    // Others are loops, of floats as well as of whole numbers.
    constexpr int64_t kLeastOfGroup = 4, kLeastDepthwise = 16;
    const bool depthwise = groups == in && groups == count, line = input.size() == 3;
    if (groups > 1 && (depthwise ? in < kLeastDepthwise : count / groups < kLeastOfGroup)) return {};
    const auto list = [&](const char* name, int64_t of_rows) {
      const auto numbers = r.integers(name);
      Sizes all(numbers.begin(), numbers.end());
      if (line) all.insert(all.begin(), of_rows);
      return all;
    };
    const auto plane = [&](const Tensor& t) { return line ? call1("unsqueeze", {t, Expr(2)}) : t; };
    const Tensor image = plane(x->numbers);
    Tensor sums = over_parts(*w, [&](Tensor part) {
      std::vector<int64_t> sizes = part.sizes();
      if (line) sizes.insert(sizes.begin() + 2, 1), part = part.as_strided(sizes, dense(sizes));
      return call1("_int_convolution",
                   {image, part, list("stride", 1), list("padding", 0), list("dilation", 1), Expr(groups), Expr(x->zero)});
    });
    if (line) sums = call1("squeeze.dim", {sums, Expr(2)});
    std::vector<int64_t> along(input.size() - 1, 1);
    along[0] = count;
    return real(n, sums, *x, *w, along, operand(n, 2));
  }

  static std::vector<int64_t> dense(const std::vector<int64_t>& sizes) {
    std::vector<int64_t> strides(sizes.size(), 1);
    for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
    return strides;
  }

  const Graph& g_;
  Rebuild out_;
  std::map<const Value*, Tensor> constants_, known_;
  std::map<const Value*, Quantized> quantized_;
  std::map<const Value*, Affine> affine_;
  std::map<const Value*, double> bounds_;
  std::map<const TensorImpl*, Function> functions_;  // by the numbers of the new graph
  std::set<const Value*> of_sums_;                   // computed from sums of whole numbers, point by point
  int products_ = 0;
};

}  // namespace

std::unique_ptr<Graph> integer_products(const Graph& g) {
  const auto has_numbers = [](const Node* n) { return is_cast(n) && operand(*n, 0) && has_8_bits(operand(*n, 0)->type.dtype); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), [&](auto& n) { return has_numbers(n.get()); })) return nullptr;
  return Rewriter(g).run();
}

}  // namespace toroid::graph
