#include "backend/epilogue_chain.h"

#include <algorithm>
#include <set>

#include "loop/var_map.h"
#include "ops/formula_steps.h"
#include "ops/table.h"

namespace toroid::backend {
namespace {

using external::PostOpKind;
using external::TensorMemory;
using loop::Step;

struct Activation {
  PostOpKind kind;
  std::string_view name;
  loop::Body formula;  // of the accumulator; its last step is the result
};

// The formulas of the op table: what a body holds where a program calls these operations.
const std::vector<Activation>& activations() {
  static const std::vector<Activation>& all = *new std::vector<Activation>([] {
    std::vector<Activation> out;
    auto add = [&](PostOpKind kind, std::string_view op, const char* approximate = nullptr) {
      Activation a{kind, op, {}};
      loop::BodyBuilder builder(a.formula);
      TensorType type{DType::F32, {}, {}};
      std::vector<Arg<const TensorType*>> args = {&type};
      if (approximate) args.emplace_back(std::string(approximate));
      ops::FormulaCall call(ops::get(op), args);
      call.operands = {builder.accumulator(DType::F32)};
      ops::emit_formula(call);
      out.push_back(std::move(a));
    };
    add(PostOpKind::Relu, "relu");
    add(PostOpKind::GeluErf, "gelu", "none");
    add(PostOpKind::GeluTanh, "gelu", "tanh");
    add(PostOpKind::Silu, "silu");
    add(PostOpKind::Sigmoid, "sigmoid");
    add(PostOpKind::Tanh, "tanh");
    add(PostOpKind::HardSwish, "hardswish");
    return out;
  }());
  return all;
}

class ChainReader {
 public:
  explicit ChainReader(const loop::Body& body) : body_(body), users_(body.steps.size()) {
    for (size_t i = 0; i < body.steps.size(); ++i) {
      const loop::Statement& s = body.steps[i];
      for (int x : s.args) use(x, i);
      use(s.mask, i);
      sym::for_each_symbol(s.index, [&](const Expr& e) { use(loop::step_of_symbol(*e.node()), i); });
    }
  }

  Chain read() const {
    Chain chain;
    for (size_t i = 0; i < body_.steps.size(); ++i)
      if (body_.steps[i].step == Step::Accumulate) chain.first = static_cast<int>(i);
    if (chain.first < 0 || step(chain.first).dtype != DType::F32) return chain;
    int value = chain.first;
    while (auto link = next(value)) {
      chain.links.push_back(*link);
      value = link->value;
    }
    if (only_user(value) >= 0 && step(only_user(value)).step == Step::Scalar && step(only_user(value)).op == ScalarOp::Cast)
      value = only_user(value);
    if (int user = only_user(value); user >= 0 && step(user).step == Step::Store && step(user).mask < 0 &&
                                     step(user).mode == loop::StoreMode::Set && step(user).args[0] == value)
      chain.store = &step(user);
    for (auto& s : body_.steps)
      if (s.step == Step::Store && &s != chain.store) chain.store = nullptr;
    return chain;
  }

 private:
  const loop::Statement& step(int i) const { return body_.steps[static_cast<size_t>(i)]; }
  void use(int used, size_t by) {
    if (used >= 0) users_[static_cast<size_t>(used)].insert(static_cast<int>(by));
  }
  int only_user(int value) const {
    const auto& users = users_[static_cast<size_t>(value)];
    return users.size() == 1 ? *users.begin() : -1;
  }

  std::optional<Link> next(int value) const {
    for (auto& a : activations())
      for (int user = value + 1; user < static_cast<int>(body_.steps.size()); ++user) {
        std::set<int> inside;
        if (same(a.formula, static_cast<int>(a.formula.steps.size()) - 1, user, value, inside) && closed(inside, value, user))
          return Link{a.kind, -1, user, a.name};
      }
    int user = only_user(value);
    if (user < 0 || step(user).step != Step::Scalar || (step(user).op != ScalarOp::Add && step(user).op != ScalarOp::Mul))
      return std::nullopt;
    const bool adds = step(user).op == ScalarOp::Add;
    int other = step(user).args[0] == value ? step(user).args[1] : step(user).args[0];
    if (other == value) return std::nullopt;
    if (step(other).step == Step::Scalar && step(other).op == ScalarOp::Cast) other = step(other).args[0];
    const loop::Statement& load = step(other);
    if (load.step != Step::Load || load.mask >= 0 || (load.dtype != DType::F32 && !is_half(load.dtype))) return std::nullopt;
    return Link{adds ? PostOpKind::Add : PostOpKind::Mul, other, user, adds ? "add" : "mul"};
  }

  // Whether step i is the formula's step f, with `value` for the accumulator. Collects the steps in between.
  bool same(const loop::Body& formula, int f, int i, int value, std::set<int>& inside) const {
    const loop::Statement &want = formula.steps[static_cast<size_t>(f)], &got = step(i);
    if (want.step == Step::Accumulate) return i == value;
    if (want.step != Step::Scalar || got.step != Step::Scalar || want.op != got.op || want.dtype != got.dtype ||
        (want.op == ScalarOp::Const && !(want.value == got.value)))
      return false;
    for (size_t k = 0; k < 3; ++k) {
      if ((want.args[k] < 0) != (got.args[k] < 0)) return false;
      if (want.args[k] >= 0 && !same(formula, want.args[k], got.args[k], value, inside)) return false;
    }
    inside.insert(i);
    return true;
  }

  // Nobody else uses `value`, nor what lies between it and the result.
  bool closed(const std::set<int>& inside, int value, int result) const {
    auto within = [&](int i) {
      return std::all_of(users_[static_cast<size_t>(i)].begin(), users_[static_cast<size_t>(i)].end(),
                         [&](int user) { return inside.count(user) > 0; });
    };
    return within(value) &&
           std::all_of(inside.begin(), inside.end(), [&](int i) { return i == result || step(i).op == ScalarOp::Const || within(i); });
  }

  const loop::Body& body_;
  std::vector<std::set<int>> users_;
};

}  // namespace

std::optional<std::vector<int64_t>> constants(const std::vector<Expr>& list) {
  std::vector<int64_t> out;
  for (auto& e : list) {
    auto c = e.maybe_constant();
    if (!c) return std::nullopt;
    out.push_back(*c);
  }
  return out;
}

TensorMemory memory_of(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset) {
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] == 0) sizes[d] = 1;
  return {dtype, std::move(sizes), std::move(strides), offset};
}

std::optional<TensorMemory> memory_of(const loop::Domain& domain, const Expr& index, DType dtype) {
  std::vector<int64_t> sizes, strides;
  loop::VarMap<Expr> zeros;
  for (auto& v : domain.vars) {
    auto extent = v.extent().maybe_constant();
    auto stride = sym::linear_coefficient(index, v.symbol);
    if (!extent || !stride || !stride->is_const() || stride->constant() < 0) return std::nullopt;
    sizes.push_back(*extent);
    strides.push_back(*extent == 1 ? 0 : stride->constant());
    zeros[v.symbol] = 0;
  }
  Expr offset = sym::substitute(index, loop::replacing(zeros));
  if (!offset.is_const()) return std::nullopt;
  return memory_of(dtype, std::move(sizes), std::move(strides), offset.constant());
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, std::span<const size_t> order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= sizes[order[i]];
  }
  return strides;
}

bool take_channels_last(TensorMemory& m) {
  std::vector<int64_t> want = dense_strides(m.sizes, kChannelsLast);
  for (size_t d = 0; d < want.size(); ++d)
    if (m.sizes[d] != 1 && m.strides[d] != want[d]) return false;
  m.strides = std::move(want);
  return true;
}

Chain read_chain(const loop::Body& body) { return ChainReader(body).read(); }

std::optional<TensorMemory> direct_result(const program::Node& node, const Chain& chain) {
  if (!chain.store) return std::nullopt;
  const std::vector<int> reads = program::reads(node);
  if (std::find(reads.begin(), reads.end(), chain.store->buffer) != reads.end()) return std::nullopt;
  auto memory = memory_of(node.domain, chain.store->index, chain.store->dtype);
  if (!memory) return std::nullopt;
  for (size_t d = 0; d < memory->sizes.size(); ++d)
    if (!(node.domain.vars[d].extent() == Expr(memory->sizes[d]))) return std::nullopt;  // several points store to one place
  return memory;
}

}  // namespace toroid::backend
