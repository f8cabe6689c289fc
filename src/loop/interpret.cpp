// The meaning of loop nodes: plain loops over Numbers.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index_fault.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

// A fold in progress. Floats stay in double until the end.
struct Fold {
  bool any = false;  // has it seen an element?
  Number best;
  double f = 0;
  uint64_t i = 0;
  int64_t position = 0;
};

// log(exp(a) + exp(b)).
double log_add_exp(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  double top = std::max(a, b);
  return std::isinf(top) ? top : top + std::log1p(std::exp(-std::fabs(a - b)));
}

class Interpreter {
 public:
  Interpreter(const Domain& d, const Body& b, const std::vector<Buffer>& buffers, const std::vector<std::byte*>& memory,
              const sym::Lookup& symbols, const Accumulated& accumulated)
      : domain_(d), body_(b), memory_(memory), sizes_(symbols), accumulated_(accumulated), extent_(memory.size(), sym::kInf) {
    for (auto& v : d.vars) {
      extents_.push_back(sym::evaluate(v.extent(), symbols));
      (v.reduction ? reduction_ : space_).push_back(extents_.size() - 1);
    }
    at_.resize(d.vars.size());
    values_.resize(b.steps.size());
    folds_.resize(b.steps.size());
    varies_ = varies_over_reduction(d, b);
    pass_ = pass_of(d, b);
    for (int p : pass_) last_pass_ = std::max(last_pass_, p);
    for (auto& s : b.steps)
      if (s.step == Step::Load || s.step == Step::Store)
        for (auto& buffer : buffers)
          if (buffer.id == s.buffer && static_cast<size_t>(s.buffer) < extent_.size())
            extent_[static_cast<size_t>(s.buffer)] = sym::evaluate(buffer.numel, symbols);
    lookup_ = [this](const sym::Node& n) { return symbol(n); };
  }

  void run() {
    for (auto& s : body_.steps)
      if (stores_sum(s)) clear(s);
    for_each_point(space_, [&](int64_t) { point(); });
  }

 private:
  template <class F>
  void for_each_point(const std::vector<size_t>& vars, F&& f) {
    for (size_t v : vars) {
      if (extents_[v] <= 0) return;
      at_[v] = 0;
    }
    for (int64_t position = 0;; ++position) {
      f(position);
      size_t i = vars.size();
      while (i > 0 && ++at_[vars[i - 1]] == extents_[vars[i - 1]]) at_[vars[--i]] = 0;
      if (i == 0) return;
    }
  }

  int64_t symbol(const sym::Node& n) const {
    if (int k = step_of_symbol(n); k >= 0) return values_[static_cast<size_t>(k)].i;
    for (size_t v = 0; v < domain_.vars.size(); ++v)
      if (sym::same_symbol(*domain_.vars[v].symbol.node(), n)) return at_[v];
    return sizes_(n);
  }

  // All values of one space point. What varies over the reduction is computed anew in every pass; its stores happen in the last one.
  void point() {
    for (int p = 1; p <= last_pass_; ++p) {
      for (size_t k = 0; k < body_.steps.size(); ++k) {
        const Statement& s = body_.steps[k];
        if (s.step == Step::Scan) {
          folds_[k] = Fold{};  // begins anew in every pass
        } else if (s.step == Step::Reduce) {
          if (pass_[k] == p) folds_[k] = Fold{};
        } else if (!varies_[k] && pass_[k] == p && s.step != Step::Store) {
          compute(k);
        }
      }
      for_each_point(reduction_, [&](int64_t position) {
        for (size_t k = 0; k < body_.steps.size(); ++k) {
          const Statement& s = body_.steps[k];
          if (s.step == Step::Reduce) {
            if (pass_[k] == p) fold(k, position);
          } else if (varies_[k] && pass_[k] <= p) {
            if (s.step == Step::Scan)
              fold(k, position), values_[k] = folded(k);
            else if (s.step != Step::Store)
              compute(k);
            else if (p == last_pass_)
              store(s);
          }
        }
      });
      for (size_t k = 0; k < body_.steps.size(); ++k)
        if (body_.steps[k].step == Step::Reduce && pass_[k] == p) values_[k] = folded(k);
    }
    // Values that follow a reduction of the last pass are in a pass of their own, so all are known here.
    for (size_t k = 0; k < body_.steps.size(); ++k)
      if (body_.steps[k].step == Step::Store && !varies_[k]) store(body_.steps[k]);
  }

  std::byte* element(const Statement& s) {
    int64_t i = sym::evaluate(s.index, lookup_);
    auto b = static_cast<size_t>(s.buffer);
    TOROID_CHECK(b < memory_.size() && memory_[b], "buffer %{} has no memory", s.buffer);
    TOROID_CHECK(i >= 0 && i < extent_[b], "element {} of buffer %{}, which has {}", i, s.buffer, extent_[b]);
    return memory_[b] + static_cast<size_t>(i) * size_of(s.dtype);
  }

  // Sums begin with 0.
  void clear(const Statement& s) {
    const auto b = static_cast<size_t>(s.buffer);
    TOROID_CHECK(b < memory_.size() && memory_[b], "buffer %{} has no memory", s.buffer);
    for (int64_t i = 0; i < extent_[b]; ++i) store_number(memory_[b] + static_cast<size_t>(i) * size_of(s.dtype), s.dtype, Number::of(0.0));
  }

  bool masked_off(const Statement& s) const { return s.mask >= 0 && !values_[static_cast<size_t>(s.mask)].i; }

  // The value that is looked at, or 0 where it is out of range.
  Number checked(const Statement& s) {
    if (masked_off(s)) return Number::of(int64_t{0});
    const Number v = values_[static_cast<size_t>(s.args[0])];
    const int64_t size = sym::evaluate(s.index, lookup_);
    if (v.i >= 0 && v.i < size) return v;
    const auto b = static_cast<size_t>(s.buffer);
    if (auto* fault = b < memory_.size() ? reinterpret_cast<IndexFault*>(memory_[b]) : nullptr; fault && fault->state == IndexFault::kNone)
      fault->state = IndexFault::kFound, fault->site = s.value.i, fault->index = v.i, fault->size = size;
    return Number::of(int64_t{0});
  }

  void compute(size_t k) {
    const Statement& s = body_.steps[k];
    Number& v = values_[k];
    switch (s.step) {
      case Step::Load:
        v = masked_off(s) ? convert(Number::of(int64_t{0}), s.dtype) : load_number(element(s), s.dtype);
        break;
      case Step::Check:
        v = checked(s);
        break;
      case Step::Index:
        v = Number::of(sym::evaluate(s.index, lookup_));
        break;
      case Step::Scalar: {
        if (s.op == ScalarOp::Const) {
          v = convert(s.value, s.dtype);
          break;
        }
        Number args[3];
        for (int i = 0; i < arity_of(s.op); ++i) args[i] = values_[static_cast<size_t>(s.args[i])];
        v = evaluate(s.op, s.dtype, body_.steps[static_cast<size_t>(s.args[0])].dtype, args);
        break;
      }
      default:
        TOROID_CHECK(s.step == Step::Accumulate && accumulated_, "a loop body with Accumulate cannot run without its template");
        v = accumulated_(at_, s.value.i);
    }
  }

  void store(const Statement& s) {
    if (masked_off(s)) return;
    std::byte* p = element(s);
    Number v = values_[static_cast<size_t>(s.args[0])];
    if (s.mode != StoreMode::Set) {
      constexpr ScalarOp kOps[] = {ScalarOp::Add, ScalarOp::Add, ScalarOp::Mul, ScalarOp::Max, ScalarOp::Min, ScalarOp::Add};
      Number args[2] = {load_number(p, s.dtype), v};
      v = evaluate(kOps[static_cast<int>(s.mode)], s.dtype, s.dtype, args);
    }
    store_number(p, s.dtype, v);
  }

  void fold(size_t k, int64_t position) {
    const Statement& s = body_.steps[k];
    auto arg = static_cast<size_t>(s.args[0]);
    const Number& v = values_[arg];
    DType dtype = body_.steps[arg].dtype;
    Fold& fold = folds_[k];
    bool first = !fold.any;
    fold.any = true;
    bool floating = is_float(dtype);
    switch (s.reduction) {
      case Reduction::Sum:
        fold.f += v.as_double();
        fold.i += static_cast<uint64_t>(v.i);
        break;
      case Reduction::Prod:
        fold.f = first ? v.f : fold.f * v.f;
        fold.i = first ? static_cast<uint64_t>(v.i) : fold.i * static_cast<uint64_t>(v.i);
        break;
      case Reduction::Any:
        fold.i |= v.i != 0;
        break;
      case Reduction::All:
        fold.i = (first || fold.i) && v.i != 0;
        break;
      case Reduction::LogSumExp:
        fold.f = first ? v.f : log_add_exp(fold.f, v.f);
        break;
      default: {
        bool wants_greater = s.reduction == Reduction::Max || s.reduction == Reduction::ArgMax;
        auto beats = [&](const Number& a, const Number& b) {
          Number args[2] = {wants_greater ? a : b, wants_greater ? b : a};
          return !(floating && std::isnan(b.f)) && ((floating && std::isnan(a.f)) || evaluate(ScalarOp::Gt, DType::Bool, dtype, args).i);
        };
        if (first || (s.step == Step::Scan ? !beats(fold.best, v) : beats(v, fold.best))) {
          fold.best = v;
          fold.position = position;
        }
      }
    }
  }

  Number folded(size_t k) const {
    const Statement& s = body_.steps[k];
    const Fold& fold = folds_[k];
    DType dtype = body_.steps[static_cast<size_t>(s.args[0])].dtype;
    if (!fold.any && s.reduction != Reduction::ArgMax && s.reduction != Reduction::ArgMin) return identity_of(s.reduction, dtype);
    switch (s.reduction) {
      case Reduction::ArgMax:
      case Reduction::ArgMin:
        return Number::of(fold.position);
      case Reduction::Any:
      case Reduction::All:
        return Number::of(fold.i != 0);
      case Reduction::Max:
      case Reduction::Min:
        return fold.best;
      default:
        return convert(is_float(dtype) ? Number::of(fold.f) : Number::of(static_cast<int64_t>(fold.i)), dtype);
    }
  }

  const Domain& domain_;
  const Body& body_;
  const std::vector<std::byte*>& memory_;
  const sym::Lookup& sizes_;
  const Accumulated& accumulated_;
  std::vector<int64_t> extent_;  // elements of each buffer; kInf where nothing is known of it
  sym::Lookup lookup_;
  std::vector<int64_t> extents_, at_;
  std::vector<size_t> space_, reduction_;
  std::vector<Number> values_;
  std::vector<Fold> folds_;
  std::vector<bool> varies_;
  std::vector<int> pass_;
  int last_pass_ = 1;
};

}  // namespace

void interpret(const Domain& d, const Body& b, const std::vector<Buffer>& buffers, const std::vector<std::byte*>& memory,
               const sym::Lookup& symbols, const Accumulated& accumulated) {
  Interpreter(d, b, buffers, memory, symbols, accumulated).run();
}

}  // namespace toroid::loop
