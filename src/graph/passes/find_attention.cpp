#include <algorithm>
#include <cmath>
#include <map>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// softmax(scale * q k^T + mask) v, over [batch, heads, queries, keys] scores.
struct Attention {
  const Value *q = nullptr, *k = nullptr, *v = nullptr;  // elements of [batch, heads, queries or keys, depth] in row-major order
  bool k_transposed = false;                             // of [batch, heads, depth, keys]
  const Value* mask = nullptr;                           // added, or of Bool
  double scale = 1;
  std::vector<Expr> scores;  // sizes
  Expr depth;
};

// How many readers a value has.
class Users {
 public:
  explicit Users(const Graph& g) : counts_(g.values.size(), 0) {
    for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* v) { ++counts_[static_cast<size_t>(v->id)]; });
    for (auto& o : g.outputs)
      if (o.value) ++counts_[static_cast<size_t>(o.value->id)];
  }
  int at(const Value* v) const { return counts_[static_cast<size_t>(v->id)]; }

 private:
  std::vector<int> counts_;
};

bool is(const Value* v, std::initializer_list<const char*> ops) {
  if (!v || !v->producer) return false;
  for (const char* op : ops)
    if (v->producer->op->name == op) return true;
  return false;
}

const Value* operand(const Value* v, size_t i) {
  auto* x = std::get_if<Value*>(&v->producer->args.at(i));
  return x ? *x : nullptr;
}

std::optional<double> number(const Value* v, size_t i) {
  const auto& a = v->producer->args.at(i);
  if (auto* x = std::get_if<double>(&a)) return *x;
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return static_cast<double>(e->constant());
  return std::nullopt;
}

// Behind what leaves the elements as they are, in row-major order.
const Value* behind_views(const Value* v) {
  while (is(v, {"view", "reshape", "_unsafe_view", "clone", "contiguous", "alias", "detach"}) ||
         (is(v, {"expand"}) && operand(v, 0)->type.sizes == v->type.sizes))
    v = operand(v, 0);
  return v;
}

// Behind a multiplication by a number, which goes into `scale`.
const Value* behind_scale(const Value* v, double& scale) {
  if (is(v, {"mul.Scalar", "mul.Tensor", "div.Scalar", "div.Tensor"}))
    if (auto c = number(v, 1); c && operand(v, 0) && operand(v, 0)->type.dtype == v->type.dtype) {
      scale *= is(v, {"mul.Scalar", "mul.Tensor"}) ? *c : 1 / *c;
      return behind_views(operand(v, 0));
    }
  return v;
}

bool swaps_last_two(const Value* permute) {
  auto* order = std::get_if<std::vector<Expr>>(&permute->producer->args[1]);
  int64_t n = permute->type.dim();
  if (!order || n < 2) return false;
  for (int64_t d = 0; d < n; ++d) {
    const Expr& from = (*order)[static_cast<size_t>(d)];
    int64_t want = d < n - 2 ? d : d == n - 2 ? n - 1 : n - 2;
    if (!(from == Expr(want)) && !(from == Expr(want - n))) return false;
  }
  return true;
}

bool is_last_dimension(const Value* v, size_t arg) {
  auto d = number(v, arg);
  return d && (*d == -1 || *d == static_cast<double>(v->type.dim() - 1));
}

bool is_filled_with(const Value* v, double x) {
  v = behind_views(v);
  if (is(v, {"expand"})) v = behind_views(operand(v, 0));
  return (is(v, {"full_like", "full"}) && number(v, 1) == x) || (is(v, {"scalar_tensor"}) && number(v, 0) == x);
}

// The scores behind probabilities. Where rows may be masked as a whole those must be zero, as attention gives, and not NaN.
const Value* scores_of(const Value* p, bool& masked_rows_are_zero) {
  const Value* guard = nullptr;
  if (is(p, {"where.self"}) && operand(p, 1) && is_filled_with(operand(p, 1), 0)) {
    guard = operand(p, 0);
    p = operand(p, 2);
  }
  if (!is(p, {"_softmax", "softmax.int"}) || !is_last_dimension(p, 1) || p->type.dtype != operand(p, 0)->type.dtype) return nullptr;
  const Value* scores = operand(p, 0);
  masked_rows_are_zero = guard != nullptr;
  if (!guard) return scores;
  // not any(not (scores == -inf))
  if (!is(guard, {"logical_not"}) || !is(operand(guard, 0), {"any.dim"})) return nullptr;
  const Value* any = operand(guard, 0);
  if (!is_last_dimension(any, 1) || !is(operand(any, 0), {"logical_not"})) return nullptr;
  const Value* equal = operand(operand(any, 0), 0);
  return is(equal, {"eq.Scalar"}) && operand(equal, 0) == scores && number(equal, 1) == -INFINITY ? scores : nullptr;
}

// Of two operands of [..., m, k] and [..., k, n] with equal other sizes.
bool is_batched_product(const Value* v) {
  if (!is(v, {"bmm", "matmul"})) return false;
  const std::vector<Expr>&a = operand(v, 0)->type.sizes, &b = operand(v, 1)->type.sizes;
  return a.size() == b.size() && a.size() > 2 && std::equal(a.begin(), a.end() - 2, b.begin());
}

std::optional<Attention> match(const Node& n, const Users& users) {
  const Value* result = n.results.empty() ? nullptr : n.results[0];
  if (!is_batched_product(result)) return std::nullopt;
  Attention a;
  a.v = behind_views(operand(result, 1));
  const Value* probabilities = behind_views(operand(result, 0));
  bool masked_rows_are_zero = false;
  const Value* scores = scores_of(probabilities, masked_rows_are_zero);
  if (!scores || scores->type.dim() < 3 || scores->type.dim() > 4 || users.at(probabilities) != 1) return std::nullopt;
  a.scores = scores->type.sizes;
  const Value* product = nullptr;
  const auto take_product = [&](const Value* v) {
    double scale = 1;
    product = behind_views(behind_scale(behind_views(v), scale));
    a.scale = scale;
    return is_batched_product(product);
  };
  if (is(scores, {"add.Tensor"}) && number(scores, 2) == 1) {
    const Value *x = operand(scores, 0), *y = operand(scores, 1);
    if (!x || !y || !masked_rows_are_zero) return std::nullopt;
    if (x->type.sizes != scores->type.sizes || !take_product(x)) std::swap(x, y);
    if (x->type.sizes != scores->type.sizes || !take_product(x)) return std::nullopt;
    if (!is_bool(y->type.dtype) && y->type.dtype != scores->type.dtype) return std::nullopt;
    a.mask = y;
  } else if (!take_product(scores)) {
    return std::nullopt;
  }
  if (users.at(product) != 1 || product->type.dtype != scores->type.dtype) return std::nullopt;
  a.depth = operand(product, 0)->type.sizes.back();
  if (!a.depth.is_const()) return std::nullopt;  // the operation has templates, which are of one width of heads
  a.q = behind_views(behind_scale(behind_views(operand(product, 0)), a.scale));
  const Value* k = behind_scale(behind_views(operand(product, 1)), a.scale);
  a.k_transposed = !is(k, {"permute"}) || !swaps_last_two(k);
  a.k = a.k_transposed ? k : operand(k, 0);
  if (a.mask && is(a.mask, {"where.self"}) && is_filled_with(operand(a.mask, 1), 0) && is_filled_with(operand(a.mask, 2), -INFINITY))
    a.mask = operand(a.mask, 0);
  return a;
}

}  // namespace

std::unique_ptr<Graph> find_attention(const Graph& g) {
  const Users users(g);
  std::map<const Node*, Attention> found;
  for (auto& n : g.nodes)
    if (auto a = match(*n, users)) found.emplace(n.get(), *a);
  if (found.empty()) return nullptr;

  Rebuild out(g);
  for (auto& n : g.nodes) {
    auto it = found.find(n.get());
    if (it == found.end()) {
      out.copy(*n);
      continue;
    }
    const Attention& a = it->second;
    out.replace(*n, [&] {
      std::vector<Expr> s = a.scores;
      if (s.size() == 3) s.insert(s.begin(), 1);
      const Expr &depth = a.depth, &value_depth = n->results[0]->type.sizes.back();
      const auto as = [&](const Value* v, std::vector<Expr> sizes) { return ops::call1("view", {out.at(v), std::move(sizes)}); };
      Tensor q = as(a.q, {s[0], s[1], s[2], depth}), v = as(a.v, {s[0], s[1], s[3], value_depth});
      Tensor k = a.k_transposed ? ops::call1("permute", {as(a.k, {s[0], s[1], depth, s[3]}), std::vector<Expr>{0, 1, 3, 2}})
                                : as(a.k, {s[0], s[1], s[3], depth});
      Arg<Tensor> mask;
      if (a.mask) mask = out.at(a.mask);
      Tensor y = ops::call1("scaled_dot_product_attention", {q, k, v, mask, 0.0, false, a.scale, false});
      return std::vector<Tensor>{ops::call1("view", {y, n->results[0]->type.sizes})};
    });
  }
  return out.finish();
}

}  // namespace toroid::graph
