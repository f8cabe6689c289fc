#include <algorithm>
#include <set>
#include <unordered_map>

#include "graph/effects.h"
#include "graph/passes/arguments.h"
#include "graph/passes/movement.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/recipe.h"

namespace toroid::graph {
namespace {

// Equal sizes mean that it changed nothing.
bool is_cut(const ops::Op& op) { return op.name == "slice.Tensor" || op.name == "narrow" || op.name == "slice_copy.Tensor"; }
bool is_dropout(const ops::Op& op) {
  static const std::set<std::string_view>& names =
      *new std::set<std::string_view>{"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"};
  return names.count(op.name) > 0;
}

// Every value of `from` is one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to || is_bool(from)) return true;
  if (is_int(from) && is_int(to)) {
    auto is_unsigned = [](DType t) { return t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64; };
    if (is_unsigned(from)) return is_unsigned(to) ? size_of(to) >= size_of(from) : size_of(to) > size_of(from);
    return !is_unsigned(to) && size_of(to) >= size_of(from);
  }
  if (is_int(from)) return (to == DType::F64 && size_of(from) <= 4) || (to == DType::F32 && size_of(from) <= 2);
  if (is_float(from) && is_float(to)) return size_of(to) > size_of(from);
  return false;
}

class Simplifier {
 public:
  explicit Simplifier(const Graph& g) : g_(g), out_(g) {}

  std::unique_ptr<Graph> run() {
    bool changed = false;
    for (auto& n : g_.nodes) {
      Tensor t = n->results.size() == 1 ? replacement(*n) : Tensor();
      if (!t.defined()) {
        out_.copy(*n);
        continue;
      }
      out_.set(n->results[0], t);
      changed = true;
    }
    return changed ? out_.finish() : nullptr;
  }

 private:
  // The node of the new graph that makes t, if any.
  const Node* producer(const Tensor& t) { return out_.recorder().value_of(t)->producer; }
  Tensor operand(const Node& made, size_t i) { return out_.recorder().proxy(std::get<Value*>(made.args[i])); }
  static std::vector<Expr> sizes(const Tensor& t) {
    std::vector<Expr> out;
    for (auto& s : t.sym_sizes()) out.push_back(s.expr());
    return out;
  }

  // Whether an operation is one of those that are looked at here.
  bool is_looked_at(const ops::Op& op) {
    const auto [it, is_new] = looked_at_.try_emplace(&op, false);
    if (is_new)
      it->second = is_copy(op) || is_cast(op) || is_reshape(op) || is_permute(op) || is_expand(op) || is_cut(op) || is_dropout(op) ||
                   op.name == "index.Tensor" || op.name == "exp";
    return it->second;
  }

  // Undefined: the node stays.
  Tensor replacement(const Node& n) {
    const ops::Op& op = *n.op;
    if (n.args.empty() || !std::holds_alternative<Value*>(n.args[0])) return {};
    if (!is_looked_at(op) && !is_neutral(n)) return {};
    Tensor x = out_.at(std::get<Value*>(n.args[0]));
    const TensorType& result = n.results[0]->type;
    bool same_sizes = sizes(x) == result.sizes, same_type = same_sizes && x.dtype() == result.dtype;
    out_.recorder().stand_in_for(n);
    if (is_copy(op) && same_type) return x;
    if ((is_reshape(op) || is_expand(op) || is_cut(op) || is_cast(op)) && same_type && op.name != "view.dtype") return x;
    if (is_dropout(op) && same_type && is_inactive_dropout(n)) return x;
    if (same_type && is_neutral(n)) return x;
    if (op.name == "_to_copy") return merged_cast(x, result);
    if (is_reshape(op)) return merged_reshape(x, result);
    if (is_expand(op)) return merged_expand(x, result);
    if (is_permute(op)) return merged_permute(n, x);
    if (op.name == "index.Tensor") return neighbours(n, x);
    if (op.name == "exp") return probabilities(n, x);
    return {};
  }

  // Positions first, first + 1, ... of one dimension, given as a constant.
  Tensor neighbours(const Node& n, const Tensor& x) {
    auto& indices = std::get<std::vector<Value*>>(n.args[1]);
    size_t dim = indices.size();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] && dim < indices.size()) return {};
      if (indices[i]) dim = i;
    }
    if (dim == indices.size() || indices[dim]->type.dim() > 1) return {};
    const Tensor index = constant(indices[dim]);
    auto size = sizes(x)[dim].maybe_constant();
    if (!index.defined() || recipe_of(index) || !size || (index.dtype() != DType::I64 && index.dtype() != DType::I32) || index.numel() == 0)
      return {};
    std::vector<double> at = moved(index, Device::cpu()).to_vector();
    if (at[0] < 0)
      for (double& i : at) i += static_cast<double>(*size);
    for (size_t i = 1; i < at.size(); ++i)
      if (at[i] != at[0] + static_cast<double>(i)) return {};
    const Expr along = static_cast<int64_t>(dim), first = static_cast<int64_t>(at[0]);
    if (at[0] < 0 || at.back() >= static_cast<double>(*size)) return {};  // the run says so
    if (index.dim() == 0) return ops::call1("select.int", {x, along, first});
    return ops::call1("slice.Tensor", {x, along, first, first + static_cast<int64_t>(at.size())});
  }

  Tensor constant(const Value* v) const {
    for (auto& in : g_.inputs)
      if (in.value == v && in.kind == InputKind::Constant) return in.data;
    return {};
  }

  static bool is_inactive_dropout(const Node& n) {
    auto at = [&](const char* name) -> const NodeArg* {
      int i = n.op->schema.find(name);
      return i < 0 ? nullptr : &n.args[static_cast<size_t>(i)];
    };
    auto* train = at("train");
    auto* p = at("p");
    if (train && std::holds_alternative<bool>(*train) && !std::get<bool>(*train)) return true;
    return p && number(*p) == 0.0;
  }

  // x + 0 of integers, x + -0., x - 0, x * 1, x / 1, x ** 1. A float x + 0. is another number where x is -0.
  static bool is_neutral(const Node& n) {
    static const std::vector<std::pair<std::string_view, double>>& neutral = *new std::vector<std::pair<std::string_view, double>>{
        {"add.Tensor", 0}, {"add.Scalar", 0}, {"sub.Tensor", 0}, {"sub.Scalar", 0},       {"mul.Tensor", 1},
        {"mul.Scalar", 1}, {"div.Tensor", 1}, {"div.Scalar", 1}, {"pow.Tensor_Scalar", 1}};
    if (n.args.size() < 2) return false;
    const std::optional<double> by = number(n.args[1]);
    const bool adds = n.op->name.starts_with("add."), subtracts = n.op->name.starts_with("sub.");
    if (by && (adds || subtracts) && !is_int(n.results[0]->type.dtype) && std::signbit(*by) != adds) return false;
    return by && std::find(neutral.begin(), neutral.end(), std::pair<std::string_view, double>(n.op->name, *by)) != neutral.end();
  }

  Tensor merged_cast(const Tensor& x, const TensorType& result) {
    const Node* inner = producer(x);
    if (!inner || inner->op->name != "_to_copy") return {};
    Tensor source = operand(*inner, 0);
    if (!is_lossless(source.dtype(), x.dtype())) return {};
    if (source.dtype() == result.dtype) return source;
    return ops::call1("_to_copy", {source, result.dtype});
  }

  Tensor merged_reshape(const Tensor& x, const TensorType& result) {
    const Node* inner = producer(x);
    if (!inner || !is_reshape(*inner->op)) return {};
    Tensor source = operand(*inner, 0);
    if (sizes(source) == result.sizes) return source;
    return ops::call1("view", {source, result.sizes});
  }

  Tensor merged_expand(const Tensor& x, const TensorType& result) {
    const Node* inner = producer(x);
    if (!inner || !is_expand(*inner->op)) return {};
    return ops::call1("expand", {operand(*inner, 0), result.sizes});
  }

  Tensor merged_permute(const Node& n, const Tensor& x) {
    std::vector<size_t> dims = permutation(n);
    Tensor source = x;
    if (const Node* inner = producer(x); inner && is_permute(*inner->op)) {
      const std::vector<size_t> before = permutation(*inner);
      for (auto& d : dims) d = before[d];
      source = operand(*inner, 0);
    }
    if (std::is_sorted(dims.begin(), dims.end())) return source;
    std::vector<Expr> list;
    for (size_t d : dims) list.push_back(static_cast<int64_t>(d));
    if (source.impl() == x.impl()) {
      if (const Tensor product = transposed_product(n, x, list); product.defined()) return product;
      if (n.op->name == "permute") return {};  // the one name for what comes behind
    }
    return ops::call1("permute", {source, list});
  }

  // The transpose of a product that nothing else reads, as the gradient of a weight is: the product of the transposes, whose rows lie in
  // memory as they are read.
  Tensor transposed_product(const Node& n, const Tensor& x, const std::vector<Expr>& swapped) {
    constexpr int64_t kLeastRows = 17;  // fewer are a product of vectors for some kernels, and should stay the rows
    const Node* inner = producer(x);
    if (!inner || inner->op->name != "mm" || uses_of(std::get<Value*>(n.args[0])) != 1) return {};
    for (auto& s : sizes(x))
      if (s.maybe_constant().value_or(0) < kLeastRows) return {};
    const auto transposed = [&](size_t i) { return ops::call1("permute", {operand(*inner, i), swapped}); };
    return ops::call1("mm", {transposed(1), transposed(0)});
  }

  // exp(s - log(sum(exp(s)))), as of a log_softmax that nothing else reads: exp(s) / sum(exp(s)), without a logarithm and the second exp.
  // Where others read it (a loss and its gradient), it is in memory anyway. s must be at most 0 with a 0 in each sum, as a difference from
  // the maximum is: else the sum may overflow, where the logarithm gives 0 and the quotient NaN.
  Tensor probabilities(const Node& n, const Tensor& x) {
    const auto* logarithms = std::get<Value*>(n.args[0]);
    const Node *outer = made_by(x, "sub.Tensor"), *log = second(outer, "log"), *sum = first(log, "sum.dim_IntList"),
               *exp = first(sum, "exp"), *s = first(exp, "sub.Tensor"), *max = second(s, "amax");
    if (!max || outer->args[0] != exp->args[0] || max->args[0] != s->args[0] || max->args[1] != sum->args[1]) return {};
    if (!is_plain_difference(*outer) || !is_plain_difference(*s) || !is_kept(*sum) || !is_kept(*max)) return {};
    if (!logarithms->producer || logarithms->producer->op != outer->op || uses_of(logarithms) != 1) return {};
    const Tensor e = out_.recorder().proxy(exp->results[0]), total = out_.recorder().proxy(sum->results[0]);
    if (e.dtype() != x.dtype() || total.dtype() != x.dtype()) return {};
    return ops::call1("div.Tensor", {e, total});
  }
  const Node* made_by(const Tensor& t, std::string_view name) {
    const Node* n = producer(t);
    return n && n->op->name == name ? n : nullptr;
  }
  // What makes the first or second operand, where it is the operation `name`.
  const Node* first(const Node* n, std::string_view name) { return n ? made_by(operand(*n, 0), name) : nullptr; }
  const Node* second(const Node* n, std::string_view name) {
    return n && std::holds_alternative<Value*>(n->args[1]) ? made_by(operand(*n, 1), name) : nullptr;
  }
  static bool is_plain_difference(const Node& n) { return number(n.args[2]) == 1.0; }
  static bool is_kept(const Node& reduction) { return std::get<bool>(reduction.args[2]); }

  size_t uses_of(const Value* v) {
    if (uses_.empty()) {
      for (auto& n : g_.nodes) for_each_operand(*n, [&](const Value* used) { ++uses_[used]; });
      for (auto& o : g_.outputs)
        if (o.value) ++uses_[o.value];
    }
    return uses_[v];
  }

  const Graph& g_;
  Rebuild out_;
  std::unordered_map<const Value*, size_t> uses_;
  std::unordered_map<const ops::Op*, bool> looked_at_;
};

}  // namespace

std::unique_ptr<Graph> simplify(const Graph& g) {
  if (std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return effects_of(*n).has(Effect::Writes); })) return nullptr;
  return Simplifier(g).run();
}

}  // namespace toroid::graph
