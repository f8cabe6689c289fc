// Products and convolutions of dequantized numbers with known weights, as sums of whole numbers of 8 bits. A dequantized tensor stands for
// scale * (numbers - zero), with one scale and zero point, which are known; what only moves its elements moves the numbers. The results are
// those of the same graph in real numbers, of which products of floats give roundings and sums of whole numbers do not.
#include <algorithm>

#include "graph/passes/movement.h"
#include "graph/passes/passes.h"
#include "graph/passes/quantized_values.h"
#include "graph/passes/rebuild.h"
#include "ops/reference.h"

namespace toroid::graph {
namespace {

using Sizes = std::vector<Expr>;
using ops::call1;

constexpr int64_t kMostWeights = int64_t{1} << 22;  // that are quantized here: the reference evaluator is slow
constexpr int64_t kMostTerms = int64_t{1} << 15;    // of a sum, which then fits 32 bits with what zero points add

Tensor cast(const Tensor& t, DType to) { return t.dtype() == to ? t : call1("_to_copy", {t, to}); }

Sizes sizes_of(const Tensor& t) {
  Sizes out;
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(t.size(d).expr());
  return out;
}

// The same elements elsewhere, each as it was, or a choice among them that keeps their order.
bool moves(const ops::Op& op) {
  static const std::set<std::string_view>& names =
      *new std::set<std::string_view>{"view",       "reshape",     "permute",      "transpose.int",      "t",          "unsqueeze",
                                      "squeeze",    "squeeze.dim", "squeeze.dims", "flatten.using_ints", "expand",     "slice.Tensor",
                                      "select.int", "alias",       "clone",        "contiguous",         "max_pool1d", "max_pool2d"};
  return names.count(op.name) > 0;
}

// Weights of a product: numbers less their zero points; for each output channel the scale, and the sum of the numbers.
struct Weights {
  std::vector<Tensor> parts;  // I8, whose sum the numbers are: nearly always one
  std::vector<float> scales;
  std::vector<int64_t> sums;
};

class Rewriter {
 public:
  explicit Rewriter(const Graph& g) : g_(g), out_(g), seen_(g) {}

  std::unique_ptr<Graph> run() {
    bool changed = false;
    for (auto& n : g_.nodes) {
      const Tensor t = n->results.size() == 1 && n->regions.empty() ? replacement(*n) : Tensor();
      if (t.defined()) {
        out_.set(n->results[0], t);
        changed = true;
      } else {
        out_.copy(*n);
        seen_.note(*n);
      }
    }
    return changed && products_ > 0 ? out_.finish() : nullptr;
  }

 private:
  // Undefined: the node stays.
  Tensor replacement(const Node& n) {
    out_.recorder().stand_in_for(n);
    if (auto q = seen_.quantized(n)) return quantize(n, *q);
    if (auto d = seen_.dequantized(n.results[0]))
      if (auto q = with_one_scale(*d, out_.at(d->numbers))) return stand_in(n, *q, seen_.is_of_sums(d->numbers));
    if (Tensor t = moved_numbers(n); t.defined()) return t;
    Tensor sums = product(n);
    if (!sums.defined()) return {};
    ++products_;
    seen_.set_of_sums(n.results[0]);
    return sums;
  }

  Tensor quantize(const Node& n, const Scaled<const Value*>& s) {
    const DType type = n.results[0]->type.dtype;
    const auto to = with_one_scale(s, {});
    if (!to || !std::isfinite(1 / to->scale)) return {};
    const Quantized* from = seen_.find(s.numbers);
    if (from && from->scale == to->scale && from->zero == to->zero && from->numbers.dtype() == type) return from->numbers;
    if (!seen_.is_of_sums(s.numbers)) return {};
    seen_.set_of_sums(n.results[0]);
    const auto f = seen_.function_of(n);
    const Tensor numbers = f && f->is_dear ? look_up(*f) : requantize(n, s, *to);
    if (f) seen_.set_function(numbers, *f);
    return numbers;
  }

  static Tensor look_up(const Function& f) {
    Tensor index = cast(f.of, DType::I32);
    if (f.of.dtype() == DType::I8) index = call1("add.Tensor", {index, Expr(128)});
    return call1("index.Tensor", {f.table, std::vector<Tensor>{index}});
  }

  Tensor requantize(const Node& n, const Scaled<const Value*>& s, const Quantized& to) {
    const DType type = n.results[0]->type.dtype;
    // Once a point of a product a division takes as long as the sum of a hundred products.
    const double inverse = static_cast<float>(1 / to.scale);
    const auto most = seen_.bound(s.numbers);
    Range range = type == DType::I8 ? Range{-128, 127} : Range{0, 255};
    Tensor x;
    if (const Affine* a = seen_.affine(s.numbers)) {
      for (auto& term : a->terms) {
        Tensor part = call1("mul.Tensor", {cast(term.numbers, DType::F32), channels(term.factors, inverse, a->sizes)});
        x = x.defined() ? call1("add.Tensor", {x, part}) : part;
      }
      x = call1("add.Tensor", {x, channels(a->summands, inverse, a->sizes)});
      const auto limit = [&](double real) {
        return static_cast<double>(to.zero) + std::nearbyint(static_cast<double>(static_cast<float>(real * inverse)));
      };
      range = {std::clamp(limit(a->low), range.low, range.high), std::clamp(limit(a->high), range.low, range.high)};
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
    seen_.set(n.results[0], std::move(q), of_sums);
    return real;
  }

  Tensor moved_numbers(const Node& n) {
    const ops::Op& op = *n.op;
    if (op.name == "cat") return joined(n);
    const Quantized* x = n.args.empty() ? nullptr : seen_.find(operand(n, 0));
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
    return stand_in(n, std::move(q), seen_.is_of_sums(operand(n, 0)));
  }

  Tensor joined(const Node& n) {
    const auto* list = std::get_if<std::vector<Value*>>(&n.args[0]);
    if (!list || list->empty() || !seen_.find(list->front())) return {};
    Quantized q = *seen_.find(list->front());
    std::vector<Tensor> parts;
    for (const Value* v : *list) {
      const Quantized* x = seen_.find(v);
      if (!x || x->scale != q.scale || x->zero != q.zero || x->numbers.dtype() != q.numbers.dtype()) return {};
      parts.push_back(x->numbers);
    }
    CallArgs args = out_.args(n);
    args[0] = parts;
    q.numbers = ops::call(*n.op, std::move(args))[0];
    return stand_in(n, std::move(q), seen_.is_of_sums(list->front()));
  }

  // --- products ---------------------------------------------------------------------------------------------------------------------

  // Numbers of 8 bits with their scales, through transpositions.
  std::optional<Scaled<Tensor>> scaled_weights(const Value* v) {
    const Node* n = v ? v->producer : nullptr;
    if (!n) return std::nullopt;
    if (is_permute(*n->op)) {
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
    auto d = seen_.dequantized(v);
    if (!d) return std::nullopt;
    Tensor numbers = seen_.constant(d->numbers);
    if (!numbers.defined()) numbers = seen_.known(d->numbers, kMostWeights);
    if (!numbers.defined() || numbers.numel() == 0) return std::nullopt;
    return Scaled<Tensor>{numbers, d->scale, d->zero};
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
    const Tensor numbers = seen_.known(bias);
    if (numbers.defined()) a.summands = numbers.to_vector();
    if (bias)
      y = call1("add.Tensor",
                {y, numbers.defined() ? channels(a.summands, 1, a.sizes)
                                      : Arg<Tensor>(call1("reshape", {out_.at(bias), Sizes(a.sizes.begin(), a.sizes.end())}))});
    const auto of_bias = bias ? seen_.bound(bias) : 0.0;
    if (of_bias) seen_.set_bound(n.results[0], most + *of_bias);
    if (!bias || numbers.defined()) seen_.set_affine(n.results[0], std::move(a));
    return y;
  }

  Tensor product(const Node& n) {
    if (n.op->name == "convolution") return convolution(n);
    const bool linear = n.op->name == "linear", sum = n.op->name == "addmm";
    if (!linear && !sum && n.op->name != "mm" && n.op->name != "matmul") return {};
    const size_t first = sum ? 1 : 0;
    const Value *bias = linear ? operand(n, 2) : sum ? operand(n, 0) : nullptr, *right = operand(n, first + 1);
    const Quantized* x = seen_.find(operand(n, first));
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
    const Quantized* x = seen_.find(operand(n, 0));
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
  QuantizedValues seen_;
  int products_ = 0;
};

}  // namespace

std::unique_ptr<Graph> integer_products(const Graph& g) {
  const auto has_numbers = [](const Node* n) { return is_cast(n) && operand(*n, 0) && has_8_bits(operand(*n, 0)->type.dtype); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), [&](auto& n) { return has_numbers(n.get()); })) return nullptr;
  return Rewriter(g).run();
}

}  // namespace toroid::graph
