#include "import/onnx/known.h"

#include <algorithm>

#include "base/scalar.h"
#include "graph/effects.h"
#include "graph/interpreter.h"
#include "tensor/tensor_impl.h"

namespace toroid::import::onnx {
namespace {

constexpr int kMaxDepth = 1000;            // of a chain of operations on numbers
constexpr int64_t kMaxNumbers = 4096;      // more are no sizes
constexpr int64_t kMaxElements = 1 << 22;  // of what is computed while importing

using Numbers = std::optional<std::vector<Expr>>;

std::vector<Expr> integers_of(const Tensor& any) {
  Tensor t = any.contiguous();
  std::vector<Expr> out;
  const std::byte* p = t.raw_data();
  for (int64_t i = 0; i < t.numel(); ++i, p += size_of(t.dtype())) out.push_back(load_number(p, t.dtype()).as_int());
  return out;
}

// Nothing for symbolic sizes, and for more elements than are computed.
std::optional<int64_t> constant_numel(const TensorType& t) {
  int64_t n = 1;
  for (auto& s : t.sizes) {
    auto c = s.maybe_constant();
    if (!c || (*c > 0 && n > kMaxElements / *c)) return std::nullopt;
    n *= *c;
  }
  return n;
}

// Whether the sizes among the node's arguments are numbers.
bool has_constant_sizes(const graph::Node& n) {
  auto is_const = [](const Expr& e) { return e.is_const(); };
  return std::all_of(n.args.begin(), n.args.end(), [&](const graph::NodeArg& a) {
    if (auto* e = std::get_if<Expr>(&a)) return is_const(*e);
    auto* list = std::get_if<std::vector<Expr>>(&a);
    return !list || std::all_of(list->begin(), list->end(), is_const);
  });
}

std::optional<int64_t> constant_arg(const graph::Node& n, std::string_view param) {
  int at = n.op->schema.find(param);
  auto* e = at < 0 ? nullptr : std::get_if<Expr>(&n.args[static_cast<size_t>(at)]);
  return e ? e->maybe_constant() : std::nullopt;
}

Numbers zip(const std::string& op, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  size_t n = std::max(a.size(), b.size());
  if ((a.size() != n && a.size() != 1) || (b.size() != n && b.size() != 1)) return std::nullopt;
  std::vector<Expr> out;
  for (size_t i = 0; i < n; ++i) {
    const Expr &x = a[a.size() == 1 ? 0 : i], &y = b[b.size() == 1 ? 0 : i];
    if (op == "add.Tensor") out.push_back(x + y);
    if (op == "sub.Tensor") out.push_back(x - y);
    if (op == "mul.Tensor") out.push_back(x * y);
    if (op == "minimum") out.push_back(sym::min(x, y));
    if (op == "maximum") out.push_back(sym::max(x, y));
    if (op == "remainder.Tensor" || op == "div.Tensor_mode") {
      // Rounds towards zero; so does the floor of what is not negative.
      if (!sym::known_ge(y, 1) || !sym::known_ge(x, 0)) return std::nullopt;
      out.push_back(op[0] == 'r' ? sym::mod(x, y) : sym::floor_div(x, y));
    }
    if (op == "eq.Tensor") {
      auto k = sym::known({sym::Rel::Eq, x, y});
      if (!k) return std::nullopt;
      out.push_back(*k ? 1 : 0);
    }
  }
  return out;
}

// Part of a list along its only dimension.
Numbers slice(const graph::Node& n, const std::vector<Expr>& x) {
  auto size = static_cast<int64_t>(x.size());
  int64_t step = constant_arg(n, "step").value_or(1);
  auto place = [&](std::string_view name, int64_t otherwise) {
    int64_t at = constant_arg(n, name).value_or(otherwise);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  std::vector<Expr> out;
  for (int64_t i = place("start", 0), end = place("end", size); i < end; i += step) out.push_back(x[static_cast<size_t>(i)]);
  return out;
}

bool keeps_elements(const std::string& op) {
  static constexpr std::string_view kNames[] = {"reshape",  "view",     "unsqueeze", "squeeze.dims", "squeeze",
                                                "to.dtype", "_to_copy", "clone",     "contiguous"};
  return std::find(std::begin(kNames), std::end(kNames), op) != std::end(kNames);
}

}  // namespace

bool KnownValues::follows(const graph::Value* v, bool use_offered, int depth) {
  if (held_.count(v) || computed_.count(v)) return true;
  if (!v->producer) return use_offered && offered_.count(v);
  auto [it, fresh] = follows_[use_offered].emplace(v, false);
  if (!fresh) return it->second;
  const graph::Node& n = *v->producer;
  bool out = depth < kMaxDepth && graph::is_pure(n) && has_constant_sizes(n) && constant_numel(v->type);
  graph::for_each_operand(n, [&](const graph::Value* operand) { out = out && follows(operand, use_offered, depth + 1); });
  return follows_[use_offered][v] = out;
}

Tensor KnownValues::evaluate(const graph::Value* v) {
  if (auto it = held_.find(v); it != held_.end()) return it->second;
  if (auto it = computed_.find(v); it != computed_.end()) return it->second;
  if (auto it = offered_.find(v); it != offered_.end()) {
    if (std::find(pinned_.begin(), pinned_.end(), v) == pinned_.end()) pinned_.push_back(v);
    return it->second;
  }
  const graph::Node& n = *v->producer;
  CallArgs args;
  for (auto& a : n.args)
    args.push_back(map_arg<Tensor>(a, [&](const graph::Value* operand) { return operand ? evaluate(operand) : Tensor(); }));
  graph::BoundSymbols none;
  auto results = graph::interpret_node(n, std::move(args), none);
  for (size_t i = 0; i < results.size(); ++i) computed_[n.results[i]] = results[i];
  return results.at(v->result);
}

std::optional<Tensor> KnownValues::contents(const graph::Value* v, bool use_offered) {
  if (follows(v, false, 0) || (use_offered && follows(v, true, 0))) return evaluate(v);
  return std::nullopt;
}

std::optional<std::vector<Expr>> KnownValues::integers(const graph::Value* v, bool use_offered) { return symbolic(v, use_offered, 0); }

Numbers KnownValues::symbolic(const graph::Value* v, bool use_offered, int depth) {
  if (is_float(v->type.dtype) || is_complex(v->type.dtype) || depth > kMaxDepth) return std::nullopt;
  auto numel = constant_numel(v->type);
  if (!numel || *numel > kMaxNumbers) return std::nullopt;
  if (auto t = contents(v, use_offered)) return integers_of(*t);
  if (!v->producer || !v->producer->regions.empty()) return std::nullopt;
  const graph::Node& n = *v->producer;
  const std::string& op = n.op->name;
  auto operand = [&](size_t i) -> Numbers {
    auto* x = std::get_if<graph::Value*>(&n.args[i]);
    return x ? symbolic(*x, use_offered, depth + 1) : std::nullopt;
  };
  if (op == "scalar_tensor") {
    auto* e = std::get_if<Expr>(&n.args[0]);
    return e ? Numbers({*e}) : std::nullopt;
  }
  if (keeps_elements(op)) return operand(0);
  if (op == "cat") {
    std::vector<Expr> out;
    for (auto* x : std::get<std::vector<graph::Value*>>(n.args[0])) {
      auto part = x->type.dim() == 1 ? symbolic(x, use_offered, depth + 1) : std::nullopt;
      if (!part) return std::nullopt;
      out.insert(out.end(), part->begin(), part->end());
    }
    return out;
  }
  auto x = n.args.empty() ? std::nullopt : operand(0);
  if (op == "neg" && x) {
    for (auto& e : *x) e = -e;
    return x;
  }
  if (op == "expand" && x && x->size() == 1) return std::vector<Expr>(static_cast<size_t>(*numel), x->front());
  if (op == "slice.Tensor" && x && v->type.dim() == 1) return slice(n, *x);
  if (op == "select.int" && x && v->type.dim() == 0) {
    auto at = constant_arg(n, "index");
    auto size = static_cast<int64_t>(x->size());
    if (!at || *at < -size || *at >= size) return std::nullopt;
    return std::vector<Expr>{(*x)[static_cast<size_t>(*at < 0 ? *at + size : *at)]};
  }
  if (op == "prod" && x) {
    Expr product = 1;
    for (auto& e : *x) product *= e;
    return std::vector<Expr>{product};
  }
  if (op == "index_select" && x && v->type.dim() == 1) {
    auto at = operand(2);
    if (!at) return std::nullopt;
    std::vector<Expr> out;
    for (auto& i : *at) {
      auto c = i.maybe_constant();
      if (!c || *c < 0 || *c >= static_cast<int64_t>(x->size())) return std::nullopt;
      out.push_back((*x)[static_cast<size_t>(*c)]);
    }
    return out;
  }
  if (op == "where.self" && x) {
    auto a = operand(1), b = operand(2);
    auto n_out = static_cast<size_t>(*numel);
    if (!a || !b) return std::nullopt;
    auto at = [&](const std::vector<Expr>& list, size_t i) { return list[list.size() == 1 ? 0 : i]; };
    std::vector<Expr> out;
    for (auto* list : {&*x, &*a, &*b})
      if (list->size() != 1 && list->size() != n_out) return std::nullopt;
    for (size_t i = 0; i < n_out; ++i) {
      auto c = at(*x, i).maybe_constant();
      if (!c) return std::nullopt;
      out.push_back(at(*c ? *a : *b, i));
    }
    return out;
  }
  if (n.args.size() < 2 || !x) return std::nullopt;
  auto y = operand(1);
  if (!y) return std::nullopt;
  auto out = zip(op, *x, *y);
  return out && out->size() == static_cast<size_t>(*numel) ? out : std::nullopt;
}

}  // namespace toroid::import::onnx
