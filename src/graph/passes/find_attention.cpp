#include <algorithm>
#include <cmath>
#include <map>

#include "graph/passes/arguments.h"
#include "graph/passes/conditions.h"
#include "graph/passes/movement.h"
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

// Who reads a value; nullptr for an output of the graph.
class Users {
 public:
  explicit Users(const Graph& g) : users_(g.values.size()) {
    for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* v) { users_[static_cast<size_t>(v->id)].push_back(n.get()); });
    for (auto& o : g.outputs)
      if (o.value) users_[static_cast<size_t>(o.value->id)].push_back(nullptr);
  }
  bool has_one(const Value* v) const { return of(v).size() == 1; }
  // The one operation that reads the value; nullptr where several do, or an output does.
  const Node* only(const Value* v) const { return has_one(v) ? of(v)[0] : nullptr; }

 private:
  const std::vector<const Node*>& of(const Value* v) const { return users_[static_cast<size_t>(v->id)]; }
  std::vector<std::vector<const Node*>> users_;
};

bool is(const Value* v, std::initializer_list<const char*> ops) {
  if (!v || !v->producer) return false;
  for (const char* op : ops)
    if (v->producer->op->name == op) return true;
  return false;
}

const Value* operand(const Value* v, size_t i) { return operand(*v->producer, i); }
std::optional<double> number(const Value* v, size_t i) { return number(v->producer->args.at(i)); }

// Behind what leaves the elements as they are, in row-major order.
bool keeps_order(const Node& n) {
  return is_copy(*n.op) || is_reshape(*n.op) || (is_expand(*n.op) && std::get<Value*>(n.args[0])->type.sizes == n.results[0]->type.sizes);
}

const Value* behind_views(const Value* v) {
  while (v->producer && keeps_order(*v->producer)) v = operand(v, 0);
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

// Behind a cast to f32 of halves.
const Value* behind_widening(const Value* v) {
  if (!v->producer || !is_cast(*v->producer->op) || v->type.dtype != DType::F32 || !is_half(operand(v, 0)->type.dtype)) return v;
  return behind_views(operand(v, 0));
}

const Value* behind_transposition(const Value* v) {
  if (!v->producer || !is_permute(*v->producer->op)) return v;
  std::vector<size_t> order = permutation(*v->producer);
  if (order.size() < 2) return v;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return std::is_sorted(order.begin(), order.end()) ? operand(v, 0) : v;
}

// Behind all of these, in whatever order they come, each at most once.
const Value* operand_of_product(const Value* v, double& scale) {
  v = behind_scale(behind_views(v), scale);
  return behind_scale(behind_widening(v), scale);
}

bool is_last_dimension(const Value* v, size_t arg) {
  auto d = number(v, arg);
  return d && (*d == -1 || *d == static_cast<double>(v->type.dim() - 1));
}

bool is_filled_with(const Value* v, double x) {
  v = behind_views(v);
  if (is(v, {"expand"})) v = behind_views(operand(v, 0));
  if (is(v, {"zeros_like", "zeros"})) return x == 0;
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
  // all(scores == -inf), or not any(not (scores == -inf))
  const bool negated = is(guard, {"logical_not"});
  const Value* folded = negated ? operand(guard, 0) : guard;
  if (!is(folded, {negated ? "any.dim" : "all.dim"}) || !is_last_dimension(folded, 1)) return nullptr;
  const Value* equal = operand(folded, 0);
  if (negated && !is(equal, {"logical_not"})) return nullptr;
  if (negated) equal = operand(equal, 0);
  return is(equal, {"eq.Scalar"}) && operand(equal, 0) == scores && number(equal, 1) == -INFINITY ? scores : nullptr;
}

// What says which scores a mask keeps as they are, where it makes the others -inf; else the mask.
const Value* condition_of(const Value* mask) {
  const bool masks = is(mask, {"where.self"}) && is_filled_with(operand(mask, 1), 0) && is_filled_with(operand(mask, 2), -INFINITY);
  return masks ? operand(mask, 0) : mask;
}

// Of two operands of [..., m, k] and [..., k, n] with equal other sizes.
bool is_batched_product(const Value* v) {
  if (!is(v, {"bmm", "matmul"})) return false;
  const std::vector<Expr>&a = operand(v, 0)->type.sizes, &b = operand(v, 1)->type.sizes;
  return a.size() == b.size() && a.size() > 2 && std::equal(a.begin(), a.end() - 2, b.begin());
}

// Whether a value is read once, perhaps through views, to be rounded to this dtype.
bool is_rounded(const Value* v, DType to, const Users& users) {
  const Node* reader = users.only(v);
  while (reader && keeps_order(*reader)) reader = users.only(reader->results[0]);
  return reader && is_cast(*reader->op) && reader->results[0]->type.dtype == to;
}

// Halves may be widened before, as PyTorch writes out attention of halves; the result is rounded then.
std::optional<Attention> match(const Node& n, const Users& users) {
  const Value* result = n.results.empty() ? nullptr : n.results[0];
  if (!is_batched_product(result)) return std::nullopt;
  Attention a;
  a.v = behind_widening(behind_views(operand(result, 1)));
  const Value* probabilities = behind_views(operand(result, 0));
  bool masked_rows_are_zero = false;
  const Value* scores = scores_of(probabilities, masked_rows_are_zero);
  if (!scores || scores->type.dim() < 3 || scores->type.dim() > 4 || !users.has_one(probabilities)) return std::nullopt;
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
    a.mask = y;
  } else if (!take_product(scores)) {
    return std::nullopt;
  }
  if (!users.has_one(product) || product->type.dtype != scores->type.dtype) return std::nullopt;
  a.depth = operand(product, 0)->type.sizes.back();
  if (!a.depth.is_const()) return std::nullopt;  // the operation has templates, which are of one width of heads
  a.q = operand_of_product(operand(product, 0), a.scale);
  const Value* k = operand_of_product(operand(product, 1), a.scale);
  a.k = behind_transposition(k);
  a.k_transposed = a.k == k;
  a.k = operand_of_product(a.k, a.scale);
  const DType dtype = a.q->type.dtype;
  if (a.k->type.dtype != dtype || a.v->type.dtype != dtype) return std::nullopt;
  if (dtype != result->type.dtype && !is_rounded(result, dtype, users)) return std::nullopt;
  if (a.mask) a.mask = condition_of(a.mask);
  if (a.mask && always_holds(a.mask)) a.mask = nullptr;
  if (!a.mask) return a;
  if (a.mask->type.dtype != dtype) a.mask = behind_widening(a.mask);
  if (!is_bool(a.mask->type.dtype) && a.mask->type.dtype != dtype) return std::nullopt;
  return a;
}

// The argument of an operation of attention that is a mask which keeps all scores; -1 where there is none.
int idle_mask(const Node& n) {
  if (n.op->name != "scaled_dot_product_attention" && n.op->name != "_scaled_dot_product_flash_attention_for_cpu") return -1;
  const int i = n.op->schema.find("attn_mask");
  auto* mask = std::get_if<Value*>(&n.args[static_cast<size_t>(i)]);
  return mask && *mask && always_holds(condition_of(*mask)) ? i : -1;
}

}  // namespace

std::unique_ptr<Graph> find_attention(const Graph& g) {
  const Users users(g);
  std::map<const Node*, Attention> found;
  std::map<const Node*, size_t> idle_masks;
  for (auto& n : g.nodes) {
    if (auto a = match(*n, users)) found.emplace(n.get(), *a);
    if (const int i = idle_mask(*n); i >= 0) idle_masks.emplace(n.get(), i);
  }
  if (found.empty() && idle_masks.empty()) return nullptr;

  Rebuild out(g);
  for (auto& n : g.nodes) {
    if (auto idle = idle_masks.find(n.get()); idle != idle_masks.end()) {
      CallArgs args = out.args(*n);
      args[idle->second] = std::monostate();
      out.replace(*n, [&] { return ops::call(*n->op, std::move(args)); });
      continue;
    }
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
      const TensorType& result = n->results[0]->type;
      if (y.dtype() != result.dtype) y = ops::call1("_to_copy", {y, result.dtype});
      return std::vector<Tensor>{ops::call1("view", {y, result.sizes})};
    });
  }
  return out.finish();
}

}  // namespace toroid::graph
