#include "graph/bind.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::graph {
namespace {

// Binds the only symbol without a value in e when e == size determines it.
bool solve(BoundSymbols& symbols, const Expr& e, int64_t size) {
  std::optional<Expr> unknown;
  bool several = false;
  sym::for_each_symbol(e, [&](const Expr& s) {
    if (symbols.find(s.node()->name)) return;
    if (unknown && !(*unknown == s)) several = true;
    unknown = s;
  });
  if (!unknown || several) return false;
  auto coefficient = sym::linear_coefficient(e, *unknown);
  if (!coefficient) return false;
  auto factor = symbols.try_value(*coefficient);
  auto rest = symbols.try_value(e - *coefficient * *unknown);
  if (!factor || *factor == 0 || !rest) return false;
  if ((size - *rest) % *factor != 0) return false;
  symbols.set(unknown->node()->name, (size - *rest) / *factor);
  return true;
}

std::string describe(const Input& in, size_t index) { return fmt::format("input {} (\"{}\")", index, in.name); }

}  // namespace

void check_sizes(const Graph& g, const BoundSymbols& symbols) {
  for (auto& s : g.symbols) {
    const sym::Node& n = *s.expr.node();
    auto v = symbols.find(n.name);
    if (!v || s.unbacked) continue;  // files state ranges of data's sizes that data does not keep to
    TOROID_USER_CHECK(*v >= n.lo && *v <= n.hi, "the size {} is {}, but the program \"{}\" was made for {} <= {} <= {}", n.name, *v, g.name,
                      n.lo, n.name, n.hi);
  }
  for (auto& r : g.guards) {
    auto a = symbols.try_value(r.a), b = symbols.try_value(r.b);
    if (!a || !b || sym::holds({r.rel, *a, *b}, [](const sym::Node&) { return int64_t{0}; })) continue;
    if (r.is_requirement()) fail<UserError>("{}", sym::refusal(r, [&](const sym::Node& s) { return *symbols.find(s.name); }));
    fail<UserError>("the sizes do not satisfy {} (here {} and {}), which the program \"{}\" was made for", sym::to_string(r), *a, *b,
                    g.name);
  }
}

std::optional<int64_t> BoundSymbols::find(const std::string& name) const {
  auto it = values_.find(name);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

std::optional<int64_t> BoundSymbols::try_value(const Expr& e) const {
  if (auto c = e.maybe_constant()) return c;
  bool known = true;
  sym::for_each_symbol(e, [&](const Expr& s) { known = known && values_.count(s.node()->name); });
  if (!known) return std::nullopt;
  return sym::evaluate(e, [&](const sym::Node& s) { return values_.at(s.name); });
}

int64_t BoundSymbols::value(const Expr& e) const {
  auto v = try_value(e);
  TOROID_CHECK(v, "the size {} has no value", sym::to_string(e));
  return *v;
}

std::vector<int64_t> BoundSymbols::values(std::span<const Expr> exprs) const {
  std::vector<int64_t> out;
  for (auto& e : exprs) out.push_back(value(e));
  return out;
}

int64_t bind_sizes(BoundSymbols& symbols, const TensorType& type, std::span<const int64_t> sizes) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    const Expr& e = type.sizes[d];
    if (!symbols.try_value(e)) solve(symbols, e, sizes[d]);
  }
  for (size_t d = 0; d < sizes.size(); ++d)
    if (auto v = symbols.try_value(type.sizes[d]); v && *v != sizes[d]) return static_cast<int64_t>(d);
  return -1;
}

BoundSymbols bind_inputs(const Graph& g, std::span<const Tensor> user_inputs) {
  std::vector<std::pair<const Input*, const Tensor*>> pairs;
  for (auto& in : g.inputs) {
    if (in.kind != InputKind::User) continue;
    pairs.emplace_back(&in, pairs.size() < user_inputs.size() ? &user_inputs[pairs.size()] : nullptr);
  }
  TOROID_USER_CHECK(pairs.size() == user_inputs.size(), "the program \"{}\" takes {} inputs, {} were given", g.name, pairs.size(),
                    user_inputs.size());
  BoundSymbols symbols;
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto [in, t] = pairs[i];
    const TensorType& type = in->value->type;
    TOROID_USER_CHECK(t->defined(), "{} is undefined; {} is expected", describe(*in, i), to_string(type));
    TOROID_USER_CHECK(t->dtype() == type.dtype, "{} has dtype {}; {} is expected", describe(*in, i), name_of(t->dtype()),
                      name_of(type.dtype));
    TOROID_USER_CHECK(t->dim() == type.dim(), "{} has {} dimensions; {} are expected: {}", describe(*in, i), t->dim(), type.dim(),
                      to_string(type));
    for (size_t d = 0; d < type.sizes.size(); ++d)
      if (type.sizes[d].kind() == sym::Kind::Symbol && !symbols.try_value(type.sizes[d]))
        symbols.set(type.sizes[d].node()->name, t->sizes()[d]);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    auto [in, t] = pairs[i];
    int64_t d = bind_sizes(symbols, in->value->type, t->sizes());
    if (d < 0) continue;
    const Expr& e = in->value->type.sizes[static_cast<size_t>(d)];
    std::string expected = e.is_const() ? sym::to_string(e) : fmt::format("{} = {}", sym::to_string(e), symbols.value(e));
    fail<UserError>("{} has size {} in dimension {}; {} is expected", describe(*in, i), t->sizes()[static_cast<size_t>(d)], d, expected);
  }
  check_sizes(g, symbols);
  return symbols;
}

void take_usual_sizes(Graph& g, std::span<const Tensor> user_inputs) {
  BoundSymbols symbols;
  if (std::all_of(user_inputs.begin(), user_inputs.end(), [](auto& t) { return t.defined(); })) {
    symbols = bind_inputs(g, user_inputs);
  } else {
    size_t next = 0;
    for (auto& in : g.inputs) {
      if (in.kind != InputKind::User || next >= user_inputs.size()) continue;
      const Tensor& t = user_inputs[next++];
      if (t.defined() && t.sizes().size() == in.value->type.sizes.size()) bind_sizes(symbols, in.value->type, t.sizes());
    }
  }
  for (auto& s : g.symbols)
    if (const auto size = symbols.find(s.expr.node()->name); size && !s.unbacked) s.hint = size;
}

}  // namespace toroid::graph
