#include "tune/check/integers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/check.h"

namespace toroid::tune {
namespace {

using loop::Statement;
using loop::Step;

constexpr int64_t kUnknown = sym::kInf;
constexpr int64_t kMostScanned = 1 << 20;  // elements of a constant

// What a value lies in, and the inputs that it follows from.
struct Interval {
  int64_t low = -kUnknown, high = kUnknown;
  std::set<size_t> from = {};
  bool is_known() const { return low > -kUnknown && high < kUnknown; }
};

int64_t clamped(__int128 v) {
  return static_cast<int64_t>(std::clamp<__int128>(v, -static_cast<__int128>(kUnknown), static_cast<__int128>(kUnknown)));
}

Interval joined(Interval a, const Interval& b) {
  a.low = std::min(a.low, b.low), a.high = std::max(a.high, b.high);
  a.from.insert(b.from.begin(), b.from.end());
  return a;
}

Interval with_extremes(std::initializer_list<__int128> values, std::set<size_t> from) {
  return {clamped(std::min(values)), clamped(std::max(values)), std::move(from)};
}

// The bounds of an integer's or a Bool's dtype; unknown for others.
Interval range_of(DType t) {
  if (is_bool(t)) return {0, 1};
  if (!is_int(t)) return {};
  const bool is_unsigned = t == DType::U8 || t == DType::U16 || t == DType::U32 || t == DType::U64;
  const size_t bits = 8 * size_of(t);
  if (bits == 64) return {is_unsigned ? 0 : -kUnknown, kUnknown};
  return is_unsigned ? Interval{0, (int64_t{1} << bits) - 1} : Interval{-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

bool lies_in(const Interval& a, const Interval& b) { return a.low >= b.low && a.high <= b.high; }

// What the inputs must not be: they are to be drawn from less.
struct Violation {
  std::set<size_t> from;
  int64_t most = kUnknown;  // what the value must not exceed
};

using Memory = std::map<int, Interval>;  // by buffer

// Follows intervals through a program.
class Walk {
 public:
  explicit Walk(const exec::Symbols& sizes) : sizes_(sizes) {}

  void program(const program::Program& p, Memory& memory) {
    for (auto& in : p.inputs)
      if (in.data.defined()) memory[in.buffer] = constant(in.data);
    for (auto& n : p.nodes) node(p, n, memory);
  }

  std::vector<Violation> violations;
  std::set<size_t> indices, distinct;              // inputs: from which places follow; and places that are written
  std::map<size_t, std::vector<int64_t>> strides;  // by which an input is read, the largest first

 private:
  static Interval constant(const Tensor& t) {
    Interval all = range_of(t.dtype());
    if (!is_int(t.dtype()) || t.device() != Device::cpu() || t.numel() == 0 || t.numel() > kMostScanned) return all;
    const std::vector<double> v = t.to_vector();
    const auto [least, most] = std::minmax_element(v.begin(), v.end());
    if (std::max(std::fabs(*least), std::fabs(*most)) < 0x1p52)
      all.low = static_cast<int64_t>(*least), all.high = static_cast<int64_t>(*most);
    return all;
  }

  void node(const program::Program& p, const program::Node& n, Memory& memory) {
    if (auto* open = std::get_if<program::Open>(&n.problem)) return alternatives(*open, memory);
    const Interval computed = sum_of_products(n, memory);
    if (n.is_whole())
      for (int b : program::writes(n)) memory[b] = computed;
    if (n.producer) nest(p, n.producer->domain, n.producer->body, computed, memory);
    nest(p, n.domain, n.body, computed, memory);
    for (auto& beside : n.beside) nest(p, beside.domain, beside.body, computed, memory);
  }

  void alternatives(const program::Open& open, Memory& memory) {
    std::vector<Interval> made(open.outputs.size());
    for (size_t a = 0; a < open.alternatives.size(); ++a) {
      const program::Program& p = *open.alternatives[a].program;
      Memory own;
      size_t next = 0;
      for (auto& in : p.inputs)
        if (!in.data.defined() && next < open.inputs.size()) own[in.buffer] = at(memory, open.inputs[next++].memory.buffer);
      program(p, own);
      for (size_t o = 0; o < made.size() && o < p.outputs.size(); ++o) {
        const Interval one = p.outputs[o].buffer >= 0 ? at(own, p.outputs[o].buffer) : Interval{};
        made[o] = a == 0 ? one : joined(made[o], one);
      }
    }
    for (size_t o = 0; o < made.size(); ++o) memory[open.outputs[o].memory.buffer] = made[o];
  }

  static Interval at(const Memory& memory, int buffer) {
    const auto it = memory.find(buffer);
    return it == memory.end() ? Interval{} : it->second;
  }

  void nest(const program::Program& p, const loop::Domain& d, const loop::Body& b, const Interval& computed, Memory& memory) {
    std::vector<Interval> of;
    for (auto& s : b.steps) {
      of.push_back(value(b, s, of, d, computed, memory));
      if (s.step == Step::Load || s.step == Step::Store) check_index(p, b, s, of);
      if (s.step != Step::Store) continue;
      Interval stored = of[static_cast<size_t>(s.args[0])];
      if (s.mode != loop::StoreMode::Set) stored = joined(range_of(s.dtype), stored);
      const auto known = memory.find(s.buffer);
      memory[s.buffer] = known == memory.end() ? stored : joined(known->second, stored);
    }
  }

  Interval value(const loop::Body& b, const Statement& s, const std::vector<Interval>& of, const loop::Domain& d, const Interval& computed,
                 const Memory& memory) {
    const auto arg = [&](int i) { return of[static_cast<size_t>(s.args[i])]; };
    switch (s.step) {
      case Step::Scalar:
        return within_dtype(s, scalar(b, s, of), of);
      case Step::Load: {
        const Interval loaded = at(memory, s.buffer);
        note_strides(s.index, loaded.from);
        return s.mask < 0 ? loaded : joined(loaded, {0, 0});
      }
      case Step::Index:
        return bounds_of(s.index, of);
      case Step::Reduce:
      case Step::Scan:
        return within_dtype(s, folded(s, arg(0), exec::evaluate(loop::reduction_size(d), sizes_)), of);
      case Step::Accumulate:
        return computed;
      case Step::Check: {
        const Interval extent = bounds_of(s.index, of), x = arg(0);
        indices.insert(x.from.begin(), x.from.end());
        if (x.low < 0 || x.high >= extent.high) violations.push_back({x.from, extent.high - 1});
        return {0, std::max<int64_t>(extent.high - 1, 0), x.from};
      }
      default:  // hands on what it is given, or has no value
        return s.args[0] >= 0 ? arg(0) : Interval{};
    }
  }

  // Loads of the inputs, or of what follows from them alone: that with the most dimensions tells most of how they lie.
  void note_strides(const Expr& index, const std::set<size_t>& from) {
    if (from.empty() || loop::uses_values(index)) return;
    std::set<int64_t, std::greater<>> found;
    sym::for_each_symbol(index, [&](const Expr& e) {
      if (!e.node()->has_extent) return;
      if (const int64_t stride = std::abs(at_loop(index, e.node()->name, 1) - at_loop(index, e.node()->name, 0)); stride > 0)
        found.insert(stride);
    });
    for (size_t i : from)
      if (auto& known = strides[i]; known.size() < found.size()) known.assign(found.begin(), found.end());
  }

  // An index where one loop variable has this value, and the others are 0.
  int64_t at_loop(const Expr& index, std::string_view name, int64_t value) const {
    const Expr closed = sym::substitute(index, [&](const sym::Node& n) -> std::optional<Expr> {
      return n.has_extent ? std::optional(Expr(n.name == name ? value : 0)) : std::nullopt;
    });
    return exec::evaluate(closed, sizes_);
  }

  static Interval folded(const Statement& s, const Interval& x, int64_t terms) {
    switch (s.reduction) {
      case loop::Reduction::Sum:
        return with_extremes({x.low, x.high, static_cast<__int128>(terms) * x.low, static_cast<__int128>(terms) * x.high}, x.from);
      case loop::Reduction::Max:
      case loop::Reduction::Min:
        return x;
      case loop::Reduction::ArgMax:
      case loop::Reduction::ArgMin:
        return {0, std::max<int64_t>(terms - 1, 0)};
      case loop::Reduction::Any:
      case loop::Reduction::All:
        return {0, 1, x.from};
      default:
        return {-kUnknown, kUnknown, x.from};
    }
  }

  static bool is_arithmetic(const Statement& s) {
    if (s.step == Step::Reduce || s.step == Step::Scan) return s.reduction == loop::Reduction::Sum;
    return s.step == Step::Scalar && (s.op == ScalarOp::Add || s.op == ScalarOp::Sub || s.op == ScalarOp::Mul || s.op == ScalarOp::Neg);
  }

  // Integers of 32 bits or more must not overflow, as far as is known; shorter ones wrap everywhere alike.
  Interval within_dtype(const Statement& s, Interval v, const std::vector<Interval>& of) {
    if (!is_int(s.dtype) && !is_bool(s.dtype)) return v;
    const Interval range = range_of(s.dtype);
    const bool are_known =
        std::all_of(std::begin(s.args), std::end(s.args), [&](int a) { return a < 0 || of[static_cast<size_t>(a)].is_known(); });
    if (v.is_known() ? lies_in(v, range) : !(is_arithmetic(s) && are_known)) return v;
    if (size_of(s.dtype) >= 4 && s.op != ScalarOp::Cast && are_known) violations.push_back({v.from});
    return {range.low, range.high, v.from};
  }

  // Of a product or a convolution.
  Interval sum_of_products(const program::Node& n, const Memory& memory) const {
    Interval out;
    for (int b : program::reads(n)) out.from.merge(std::set<size_t>(at(memory, b).from));
    __int128 terms = 0;
    Interval a, b;
    if (auto* g = std::get_if<program::Gemm>(&n.problem)) {
      terms = exec::evaluate(g->k, sizes_), a = at(memory, g->a.buffer), b = at(memory, g->b.buffer);
      if (g->b2) b = joined(b, at(memory, g->b2->buffer));
    } else if (auto* c = std::get_if<program::Convolution>(&n.problem)) {
      terms = c->in_channels / c->groups * c->kernel_h * c->kernel_w;
      a = joined(at(memory, c->input.buffer), {0, 0}), b = at(memory, c->weight.buffer);
      a.low -= std::abs(c->zero), a.high += std::abs(c->zero);
    }
    if (terms == 0 || !a.is_known() || !b.is_known()) return out;
    const __int128 most = terms * std::max(std::abs(a.low), std::abs(a.high)) * std::max(std::abs(b.low), std::abs(b.high));
    return {clamped(-most), clamped(most), out.from};
  }

  // Whether it is a comparison of x with zero that holds where x is negative.
  static bool is_negative(const loop::Body& b, int condition, int x) {
    const Statement& c = b.steps[static_cast<size_t>(condition)];
    if (c.step != Step::Scalar || c.op != ScalarOp::Lt || c.args[0] != x) return false;
    const Statement& zero = b.steps[static_cast<size_t>(c.args[1])];
    return zero.step == Step::Scalar && zero.op == ScalarOp::Const && zero.value.as_double() == 0;
  }

  static Interval select(const Interval& condition, const Interval& a, const Interval& b) {
    return condition.low > 0 ? a : condition.high == 0 && condition.low == 0 ? b : joined(a, b);
  }

  static Interval bool_of(bool always, bool never) { return always ? Interval{1, 1} : never ? Interval{0, 0} : Interval{0, 1}; }

  Interval scalar(const loop::Body& b, const Statement& s, const std::vector<Interval>& of) {
    Interval out;
    std::vector<Interval> x;
    for (int a : s.args)
      if (a >= 0) x.push_back(of[static_cast<size_t>(a)]), out.from.insert(x.back().from.begin(), x.back().from.end());
    using Wide = __int128;
    switch (s.op) {
      case ScalarOp::Const:
        if (s.value.kind == Number::Kind::Float) {
          const double v = s.value.f;
          return std::fabs(v) < 0x1p52 ? Interval{static_cast<int64_t>(std::floor(v)), static_cast<int64_t>(std::ceil(v))} : out;
        }
        return {s.value.i, s.value.i};
      case ScalarOp::Cast:
        return is_bool(s.dtype) ? bool_of(x[0].low > 0 || x[0].high < 0, x[0].low == 0 && x[0].high == 0) : x[0];
      case ScalarOp::Select: {
        const Interval taken = select(x[0], x[1], x[2]);
        return x[2].low >= 0 && is_negative(b, s.args[0], s.args[2]) ? x[2] : taken;
      }
      case ScalarOp::Add:
        return with_extremes({Wide{x[0].low} + x[1].low, Wide{x[0].high} + x[1].high}, out.from);
      case ScalarOp::Sub:
        return with_extremes({Wide{x[0].low} - x[1].high, Wide{x[0].high} - x[1].low}, out.from);
      case ScalarOp::Mul:
        return with_extremes(
            {Wide{x[0].low} * x[1].low, Wide{x[0].low} * x[1].high, Wide{x[0].high} * x[1].low, Wide{x[0].high} * x[1].high}, out.from);
      case ScalarOp::Neg:
        return with_extremes({-Wide{x[0].low}, -Wide{x[0].high}}, out.from);
      case ScalarOp::Abs:
        return with_extremes({x[0].low > 0    ? Wide{x[0].low}
                              : x[0].high < 0 ? -Wide{x[0].high}
                                              : Wide{0},
                              std::max(-Wide{x[0].low}, Wide{x[0].high})},
                             out.from);
      case ScalarOp::Min:
        return {std::min(x[0].low, x[1].low), std::min(x[0].high, x[1].high), out.from};
      case ScalarOp::Max:
        return {std::max(x[0].low, x[1].low), std::max(x[0].high, x[1].high), out.from};
      case ScalarOp::Remainder:
        return x[1].low > 0 ? Interval{0, is_int(s.dtype) ? x[1].high - 1 : x[1].high, out.from} : out;
      case ScalarOp::Div:
      case ScalarOp::FloorDiv:
        if (x[1].low <= 0) return out;
        return with_extremes({std::min<Wide>(x[0].low, 0), std::max<Wide>(x[0].high, 0)}, out.from);
      case ScalarOp::And:
        return is_bool(s.dtype) || x[1].low < 0 ? out : Interval{0, x[1].high, out.from};
      case ScalarOp::Shl:
      case ScalarOp::Shr: {
        const auto bits = static_cast<int64_t>(8 * size_of(s.dtype));
        if (x[1].low < 0 || x[1].high >= bits) violations.push_back({x[1].from, bits - 1});
        return out;
      }
      case ScalarOp::Lt:
        return bool_of(x[0].high < x[1].low, x[0].low >= x[1].high);
      case ScalarOp::Le:
        return bool_of(x[0].high <= x[1].low, x[0].low > x[1].high);
      case ScalarOp::Gt:
        return bool_of(x[0].low > x[1].high, x[0].high <= x[1].low);
      case ScalarOp::Ge:
        return bool_of(x[0].low >= x[1].high, x[0].high < x[1].low);
      case ScalarOp::Floor:
      case ScalarOp::Ceil:
      case ScalarOp::Trunc:
      case ScalarOp::Round:
        return x[0];
      default:
        return out;
    }
  }

  // Of an index, with sizes put in.
  Interval bounds_of(const Expr& index, const std::vector<Interval>& of) const {
    Interval out;
    const Expr closed = sym::substitute(index, [&](const sym::Node& n) -> std::optional<Expr> {
      if (const int k = loop::step_of_symbol(n); k >= 0) {
        const Interval& v = of[static_cast<size_t>(k)];
        out.from.insert(v.from.begin(), v.from.end());
        return v.low == v.high ? Expr(v.low) : sym::symbol(n.name, v.low, v.high);
      }
      if (n.has_extent)
        return n.extent.is_const() ? std::nullopt : std::optional(sym::loop_symbol(n.name, exec::evaluate(n.extent, sizes_)));
      return Expr(exec::value_of(sizes_, n.name));
    });
    const sym::Bounds b = sym::bounds(closed);
    out.low = b.lo, out.high = b.hi;
    return out;
  }

  // What a wrapped index (x < 0 ? x + extent : x) is below; unknown for others.
  int64_t extent_of(const loop::Body& b, int step, const std::vector<Interval>& of) const {
    const Statement& s = b.steps[static_cast<size_t>(step)];
    if (s.step != Step::Scalar || s.op != ScalarOp::Select || !is_negative(b, s.args[0], s.args[2])) return kUnknown;
    const Statement& sum = b.steps[static_cast<size_t>(s.args[1])];
    if (sum.step != Step::Scalar || sum.op != ScalarOp::Add) return kUnknown;
    for (int a : {sum.args[0], sum.args[1]})
      if (a != s.args[2]) return of[static_cast<size_t>(a)].high;
    return kUnknown;
  }

  void check_index(const program::Program& p, const loop::Body& b, const Statement& s, const std::vector<Interval>& of) {
    if (!loop::uses_values(s.index)) return;
    bool is_legal = true;
    sym::for_each_symbol(s.index, [&](const Expr& e) {
      const int k = loop::step_of_symbol(*e.node());
      if (k < 0) return;
      const Interval& v = of[static_cast<size_t>(k)];
      indices.insert(v.from.begin(), v.from.end());
      if (s.step == Step::Store && s.mode == loop::StoreMode::Set) distinct.insert(v.from.begin(), v.from.end());
      const int64_t most = std::min(e.node()->hi, clamped(static_cast<__int128>(extent_of(b, k, of)) - 1));
      if (v.low >= std::max<int64_t>(e.node()->lo, 0) && v.high <= most) return;
      is_legal = false;
      violations.push_back({v.from, most});
    });
    if (!is_legal) return;
    // Of all dimensions together, where a size is open. Intervals may say too little of that; then zeros are no better.
    const int64_t numel = exec::evaluate(p.buffers.at(static_cast<size_t>(s.buffer)).numel, sizes_);
    const auto exceeds = [&](const Interval& i) { return i.low < 0 || i.high >= numel; };
    const Interval flat = bounds_of(s.index, of);
    if (exceeds(flat) && !exceeds(bounds_of(s.index, std::vector<Interval>(of.size(), Interval{0, 0})))) {
      const double part = static_cast<double>(numel - 1) / std::max(static_cast<double>(flat.high), 1.0);  // of the values' range
      int64_t high = 0;
      sym::for_each_symbol(s.index, [&](const Expr& e) {
        if (const int k = loop::step_of_symbol(*e.node()); k >= 0) high = std::max(high, of[static_cast<size_t>(k)].high);
      });
      violations.push_back({flat.from, std::llround(part * static_cast<double>(high))});
    }
  }

  const exec::Symbols& sizes_;
};

bool any_step(const program::Program& p, const std::function<bool(const Statement&)>& is) {
  const auto in_body = [&](const loop::Body& b) { return std::any_of(b.steps.begin(), b.steps.end(), is); };
  return std::any_of(p.nodes.begin(), p.nodes.end(), [&](const program::Node& n) {
    bool found = in_body(n.body) || (n.producer && in_body(n.producer->body));
    for (auto& b : n.beside) found = found || in_body(b.body);
    if (auto* open = std::get_if<program::Open>(&n.problem))
      for (auto& a : open->alternatives) found = found || any_step(*a.program, is);
    return found;
  });
}

bool has_calls(const program::Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const program::Node& n) {
    auto* open = std::get_if<program::Open>(&n.problem);
    return n.is_extern() ||
           (open && std::any_of(open->alternatives.begin(), open->alternatives.end(), [](auto& a) { return has_calls(*a.program); }));
  });
}

// What intervals tell nothing of: products of many, and calls of other code.
bool is_unbounded(const Statement& s) {
  if (!is_int(s.dtype)) return false;
  const bool folds = (s.step == Step::Reduce || s.step == Step::Scan) && s.reduction == loop::Reduction::Prod;
  return folds || (s.step == Step::Store && s.mode == loop::StoreMode::Mul) ||
         (s.step == Step::Scalar && (s.op == ScalarOp::Pow || s.op == ScalarOp::Lcm));
}

// All bits of a number count then.
bool takes_bits(const Statement& s) {
  return s.step == Step::Scalar && is_int(s.dtype) &&
         (s.op == ScalarOp::And || s.op == ScalarOp::Or || s.op == ScalarOp::Xor || s.op == ScalarOp::Shl || s.op == ScalarOp::Shr);
}

// Integers of this dtype that index nothing, before anything is known of what is made of them.
Integers widest(DType t, int64_t sum, bool bits) {
  const Interval range = range_of(t);
  if (size_of(t) == 1) return {range.low, range.high};
  const auto most = static_cast<int64_t>(std::sqrt(static_cast<double>(1 << 30) / static_cast<double>(std::max<int64_t>(sum, 1))));
  const int64_t m = bits ? std::min(range.high, (int64_t{1} << 31) - 1) : std::clamp<int64_t>(most, 1, 1024);
  return {range.low < 0 ? -m : 0, m};
}

// False where it cannot be less.
bool shrink(Integers& i, int64_t most) {
  const Integers was = i;
  if (i.low < 0)
    i.low = 0, i.high = std::min(i.high, std::max<int64_t>(most, 0));
  else
    i.high = most >= 0 && i.high > most ? most : i.high / 2;
  return !(i == was);
}

// Less for the inputs that a violation is due to. False where no less is possible.
bool shrink(std::vector<Integers>& inputs, const std::vector<Violation>& violations) {
  std::map<size_t, int64_t> most;
  for (auto& v : violations)
    for (size_t i : v.from) {
      const auto at = most.try_emplace(i, v.most).first;
      at->second = std::min(at->second, v.most);
    }
  bool changed = false;
  for (auto& [i, m] : most) changed = shrink(inputs[i], m) || changed;
  return changed;
}

std::vector<Integers> integers_of(const program::Program& p, const exec::Symbols& sizes, int64_t sum, bool narrow) {
  std::vector<const program::ProgramInput*> users;
  for (auto& in : p.inputs)
    if (!in.data.defined()) users.push_back(&in);
  std::vector<Integers> out(users.size());
  const bool one_bit = narrow || any_step(p, is_unbounded) || has_calls(p), bits = any_step(p, takes_bits);
  for (size_t i = 0; i < users.size(); ++i)
    if (is_int(users[i]->type.dtype) && !one_bit) out[i] = widest(users[i]->type.dtype, sum, bits);
  for (std::set<size_t> widened;;) {
    Walk walk(sizes);
    Memory memory;
    for (size_t i = 0; i < users.size(); ++i) {
      Interval& v = memory[users[i]->buffer] = range_of(users[i]->type.dtype);
      if (is_int(users[i]->type.dtype)) v = {out[i].low, out[i].high, {i}};
    }
    walk.program(p, memory);
    const size_t before = widened.size();
    for (size_t i : walk.indices)
      if (widened.insert(i).second) out[i] = {0, range_of(users[i]->type.dtype).high};
    for (size_t i : walk.distinct) out[i].distinct = true, out[i].strides = walk.strides[i];
    if (widened.size() == before && !shrink(out, walk.violations)) return out;
  }
}

}  // namespace

std::vector<Integers> integers_of_inputs(const program::Program& p, const exec::Symbols& sizes, int64_t sum) {
  return integers_of(p, sizes, sum, false);
}

std::vector<Integers> narrow_integers(const program::Program& p, const exec::Symbols& sizes, int64_t sum) {
  std::vector<Integers> out = integers_of(p, sizes, sum, true);
  return out == integers_of(p, sizes, sum, false) ? std::vector<Integers>() : out;
}

}  // namespace toroid::tune
