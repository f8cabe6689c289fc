// Families of random operations that compute and arrange. Each makes nodes and returns the values that later ones may read.
#include <algorithm>

#include "base/check.h"
#include "graph/random_generator.h"

namespace toroid::graph {

using ops::call;
using ops::call1;
using Names = std::vector<const char*>;

std::vector<Drawn> RandomGenerator::unary() {
  static const Names& names =
      *new Names{"sigmoid", "tanh", "sin",  "cos",      "erf",       "gelu",       "silu",        "softplus", "expm1",
                 "elu",     "mish", "atan", "hardtanh", "hardswish", "leaky_relu", "log_sigmoid", "asinh",    "celu"};
  Drawn x = any_tame();
  const char* name = one_of(names);
  if (name == std::string_view("expm1")) x = bounded(x);
  switch (pick(6)) {
    case 0: {
      const Tensor of = bounded(x).t;
      return {rough(call1(chance(2) ? "exp" : "exp2", {of}))};
    }
    case 1: {  // away from zero, where they are steep
      const Tensor of = call1("add.Tensor", {call1("abs", {x.t}), 0.5});
      return {rough(call1(one_of<const char*>({"sqrt", "rsqrt", "log", "reciprocal", "log2", "log1p"}), {of}))};
    }
    case 2:
      return {
          rough(call1("pow.Tensor_Scalar", {call1("add.Tensor", {call1("sigmoid", {x.t}), 0.5}), one_of<double>({2, 0.5, -1, 3, 2.5})}))};
    default:
      return {rough(call1(name, {x.t}))};
  }
}

// Keep exact values exact: later comparisons need some.
std::vector<Drawn> RandomGenerator::unary_exact() {
  static const Names& names = *new Names{"neg", "abs", "relu", "clone", "square"};
  static const Names& jumps = *new Names{"floor", "ceil", "round", "trunc", "sign"};
  if (chance(2)) {
    Drawn x = any_exact();
    if (x.wild) x = tame(x);
    if (!x.exact) return {};
    if (is_bool(x.t.dtype())) return {exact(call1("logical_not", {x.t}), 1, 1)};
    return {exact(call1(one_of(jumps), {x.t}), x.bound + 1, std::max(x.grain, 1.0))};
  }
  Drawn x = any();
  const char* name = one_of(names);
  if (is_bool(x.t.dtype()) || (x.t.dtype() == DType::U8 && name == names[0])) return {};
  if (name == std::string_view("square")) {
    if (!x.exact) return {rough(call1(name, {bounded(x).t}))};
    return {derived(call1(name, {x.t}), {&x}, x.bound * x.bound, x.grain * x.grain)};
  }
  return {derived(call1(name, {x.t}), {&x}, x.bound, x.grain)};
}

// NaN and infinities from exact operands, so that they appear at the same places however it is computed.
std::vector<Drawn> RandomGenerator::special() {
  Drawn x = as_float(any_exact());
  switch (pick(4)) {
    case 0:
      return {rough(call1(one_of<const char*>({"log", "sqrt", "rsqrt", "reciprocal", "acos", "log1p"}), {x.t}), true)};
    case 1: {
      Drawn y = as_float(any_exact());
      return {rough(call1("div.Tensor", {x.t, y.t}), true)};
    }
    case 2:
      return {exact(call1(one_of<const char*>({"isnan", "isinf", "isfinite"}), {x.t}), 1, 1)};
    default: {
      const Tensor y = as_float(partner(x)).t;
      return {rough(call1(one_of<const char*>({"fmax", "fmin", "maximum", "minimum"}), {x.t, y}), true)};
    }
  }
}

std::vector<Drawn> RandomGenerator::binary() {
  Drawn a = any(), b = partner(a);
  bool wild = a.wild || b.wild;
  double grain = std::min(a.grain, b.grain);
  switch (pick(10)) {
    case 0: {
      if (is_bool(a.t.dtype()) || is_bool(b.t.dtype())) a = as_float(a);
      bool unsigned_difference = a.t.dtype() == DType::U8 || b.t.dtype() == DType::U8;
      bool alpha = chance(3);
      Tensor t =
          call1(unsigned_difference || chance(2) ? "add.Tensor" : "sub.Tensor", alpha ? CallArgs{a.t, b.t, Expr(2)} : CallArgs{a.t, b.t});
      return {derived(t, {&a, &b}, a.bound + (alpha ? 2 : 1) * b.bound, grain)};
    }
    case 1:
      return {derived(call1(chance(2) ? "maximum" : "minimum", {a.t, b.t}), {&a, &b}, std::max(a.bound, b.bound), grain)};
    case 2: {
      if (wild || !a.exact || !b.exact || is_bool(a.t.dtype())) {
        Tensor t = call1("mul.Tensor", {bounded(a).t, tame(as_float(b)).t});
        return {rough(t)};
      }
      return {exact(call1("mul.Tensor", {a.t, b.t}), a.bound * b.bound, a.grain * b.grain)};
    }
    case 3:
      return {rough(call1("div.Tensor", {as_float(a).t, call1("add.Tensor", {call1("abs", {tame(as_float(b)).t}), 0.5})}), wild)};
    case 4: {
      double k = one_of<double>({0.5, -1, 2, 1.5});
      if (chance(2) || wild) return {derived(call1("add.Tensor", {as_float(a).t, k}), {&a}, a.bound + 2, std::min(a.grain, 0.5))};
      return {derived(call1("mul.Tensor", {as_float(a).t, k}), {&a}, a.bound * 2, a.grain / 2)};
    }
    case 5:
      return {rough(call1("atan2", {bounded(a).t, call1("add.Tensor", {call1("sigmoid", {tame(as_float(b)).t}), 0.5})}))};
    case 6:
      if (chance(2)) return {rough(call1("gelu_backward", {bounded(as_float(a)).t, bounded(as_float(b)).t}))};
      return {rough(call1("lerp.Scalar", {bounded(a).t, bounded(a).t, 0.25}))};
    case 7: {
      const std::vector<Tensor> of = {bounded(a).t, bounded(b).t, call1("exp", {bounded(b).t})};
      return {rough(call1(chance(2) ? "addcmul" : "addcdiv", {of[0], of[1], of[2]}))};
    }
    case 8:
      if (chance(2)) {  // between the limits, where it is steep
        Tensor inside = call1("add.Tensor", {call1("mul.Tensor", {call1("sigmoid", {tame(as_float(b)).t}), 0.5}), 0.25});
        return {rough(call1("logit_backward", {bounded(as_float(a)).t, inside}))};
      }
      return {rough(call1("hypot", {tame(as_float(a)).t, bounded(b).t}))};
    default: {
      double lo = -1 + 0.5 * static_cast<double>(pick(3));
      Drawn x = as_float(a);
      return {derived(call1("clamp", {x.t, lo, lo + 1.5}), {&x}, std::max(x.bound, 1.5), std::min(x.grain, 0.5))};
    }
  }
}

std::vector<Drawn> RandomGenerator::integer() {
  const DType type = one_of<DType>({DType::I64, DType::I32});
  Drawn a = cast_to(any_exact(), type);
  Drawn b = partner(a);
  if (!b.exact || b.wild) b = a;
  b = cast_to(b, a.t.dtype());
  switch (pick(6)) {
    case 0:
      return {exact(call1(one_of<const char*>({"bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor"}), {a.t, b.t}),
                    2 * (a.bound + b.bound) + 2, 1)};
    case 1: {  // the divisor is positive or negative, never zero
      Tensor divisor = call1("add.Tensor", {call1("mul.Tensor", {b.t, Expr(2)}), Expr(1)});
      return {exact(call1(one_of<const char*>({"remainder.Tensor", "fmod.Tensor", "floor_divide"}), {a.t, divisor}),
                    a.bound + 2 * b.bound + 1, 1)};
    }
    case 2:
      return {exact(call1("remainder.Scalar", {a.t, Expr(pick(2) ? 3 : -5)}), 5, 1)};
    case 3:
      return {exact(call1("bitwise_not", {a.t}), a.bound + 1, 1)};
    case 4: {
      Tensor small = call1("bitwise_and.Scalar", {b.t, Expr(3)});
      return {exact(call1(one_of<const char*>({"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor"}), {a.t, small}), a.bound * 8, 1)};
    }
    default:
      return {rough(call1("div.Tensor", {a.t, call1("add.Tensor", {call1("abs", {b.t}), Expr(1)})}))};
  }
}

std::vector<Drawn> RandomGenerator::compare() {
  Drawn a = any_exact(), b = partner(a);
  if (!b.exact) return {exact(call1(one_of<const char*>({"gt.Scalar", "eq.Scalar", "le.Scalar"}), {a.t, 0.5}), 1, 1)};
  static const Names& names =
      *new Names{"lt.Tensor", "le.Tensor", "eq.Tensor", "ne.Tensor", "gt.Tensor", "ge.Tensor", "logical_and", "logical_or", "logical_xor"};
  return {exact(call1(one_of(names), {a.t, b.t}), 1, 1)};
}

std::vector<Drawn> RandomGenerator::choose() {
  Drawn a = any(), b = partner(a);
  Tensor mask = mask_of(a);
  double bound = std::max(a.bound, b.bound), grain = std::min(a.grain, b.grain);
  switch (pick(3)) {
    case 0:
      return {derived(call1("masked_fill.Scalar", {a.t, mask, Expr(1)}), {&a}, std::max(a.bound, 1.0), std::min(a.grain, 1.0))};
    case 1:
      return {derived(call1("where.self", {mask, a.t, as_float(b).t}), {&a, &b}, bound, grain)};
    default:
      return {derived(call1("where.self", {mask, a.t, b.t}), {&a, &b}, bound, grain)};
  }
}

std::vector<Drawn> RandomGenerator::casts() {
  const DType type = dtype();
  return {cast_to(any(), type)};
}

std::vector<Drawn> RandomGenerator::reduce() {
  Drawn x = any_float();
  if (x.t.dim() < least_rank()) return {};
  bool keep = chance(2);
  Exprs dims = some_dims(x.t.dim());
  const Expr dim = dims.empty() ? Expr(0) : dims[0];
  switch (pick(9)) {
    case 0:
      return {rough(call1("sum.dim_IntList", {bounded(x).t, dims, keep}))};
    case 1:
      return {rough(call1("mean.dim", {x.t, dims, keep}), x.wild)};
    case 2:
      return {rough(call1("sum.dim_IntList", {call1("mul.Tensor", {bounded(x).t, bounded(x).t}), dims, keep}))};
    case 3:
      return {rough(call1("var.correction", {bounded(x).t, dims, Expr(pick(2)), keep}), true)};
    case 4:
      return {rough(call1("logsumexp", {tame(x).t, dims, keep}))};
    case 5:
      return {rough(call1("prod.dim_int", {bounded(x).t, dim, keep}))};
    case 6:
      return {rough(call1("sum", {bounded(x).t}))};
    case 7:
      return {rough(call1("linalg_vector_norm", {call1("add.Tensor", {bounded(x).t, 2.0}), 2.0, dims, keep}))};
    default:
      return {rough(call1("mean", {bounded(x).t}))};
  }
}

std::vector<Drawn> RandomGenerator::reduce_exact() {
  Drawn x = any();
  if (x.t.dim() < least_rank()) return {};
  bool keep = chance(2);
  Exprs dims = some_dims(x.t.dim());
  const Expr dim = dims.empty() ? Expr(0) : dims[0];
  double n = 1;
  for (auto& s : sizes_of(x.t)) n *= static_cast<double>(s.maybe_constant().value_or(64));
  switch (pick(7)) {
    case 0:
    case 1:
      return {derived(call1(chance(2) ? "amax" : "amin", {x.t, dims, keep}), {&x}, x.bound, x.grain)};
    case 2:
      return {derived(call1("sum.dim_IntList", {x.t, dims, keep}), {&x}, x.bound * n, x.grain)};
    case 3: {
      if (!x.exact) return {};
      const bool of_all = chance(4);
      const Tensor of = is_bool(x.t.dtype()) ? cast_to(x, DType::I64).t : x.t;
      const char* name = chance(2) ? "argmax" : "argmin";
      return {exact(of_all ? call1(name, {of}) : call1(name, {of, dim, keep}), n, 1)};
    }
    case 4:
      if (!x.exact) return {};
      return {exact(call1(chance(2) ? "any.dims" : "all.dims", {x.t, dims, keep}), 1, 1)};
    case 5: {
      if (!x.exact || is_bool(x.t.dtype())) return {};
      auto r = call(chance(2) ? "max.dim" : "min.dim", {x.t, dim, keep});
      return {exact(r[0], x.bound, x.grain, x.wild), exact(r[1], n, 1)};
    }
    default:
      if (!x.exact) return {};
      return {exact(call1("count_nonzero.dim_IntList", {x.t, dims}), n, 1)};
  }
}

std::vector<Drawn> RandomGenerator::softmax() {
  Drawn x = any_tame();
  if (x.t.dim() < least_rank()) return {};
  Expr d = some_dim(x.t.dim());
  switch (pick(4)) {
    case 0: {
      Tensor p = call1("softmax.int", {x.t, d});
      return {rough(chance(3) ? call1("amax", {p, Exprs{d}, chance(2)}) : p)};
    }
    case 1:
      return {rough(call1("log_softmax.int", {x.t, d}))};
    case 2: {  // as someone writes it by hand
      Tensor e = call1("exp", {call1("sub.Tensor", {x.t, call1("amax", {x.t, Exprs{d}, true})})});
      return {rough(call1("div.Tensor", {e, call1("sum.dim_IntList", {e, Exprs{d}, true})}))};
    }
    default:  // with rows that are masked as a whole
      return {rough(call1("softmax.int", {call1("masked_fill.Scalar", {x.t, mask_of(x), -30.0}), d}))};
  }
}

std::vector<Drawn> RandomGenerator::norm() {
  Drawn x = any_tame();
  if (x.t.dim() == 0) return {};
  auto sizes = sizes_of(x.t);
  Exprs last = {sizes.back()};
  DType t = x.t.dtype();
  auto weight = [&]() -> Arg<Tensor> {
    if (chance(3) || !last[0].is_const()) return std::monostate{};
    // Not wild: whether what an infinity multiplies is zero or nearly zero is a matter of rounding.
    return tame(fresh_input(t, last, chance(2) ? InputKind::Parameter : InputKind::User)).t;
  };
  switch (pick(4)) {
    case 0:
    case 1:
      return {rough(call1("layer_norm", {bounded(x).t, last, weight(), weight(), 1e-2}))};
    case 2:
      return {rough(call1("rms_norm", {x.t, last, weight(), 1e-2}))};
    default: {
      if (sizes.size() < 3 || !sizes[1].is_const()) return {};
      return {rough(call1("group_norm", {x.t, Expr(sizes[1].constant() % 2 == 0 ? 2 : 1), std::monostate{}, std::monostate{}, 1e-2}))};
    }
  }
}

std::vector<Drawn> RandomGenerator::complex_numbers() {
  const Drawn x = any_float();
  if (!is_float(x.t.dtype()) || x.t.dtype() == DType::BF16) return {};
  const auto drawn = [&] { return call1("complex", {bounded(x).t, bounded(x).t}); };
  Tensor z = drawn();
  switch (pick(6)) {
    case 0:
      z = call1("mul.Tensor", {z, drawn()});
      break;
    case 1:  // the divisor lies away from 0
      z = call1("div.Tensor", {z, call1("complex", {call1("exp", {bounded(x).t}), bounded(x).t})});
      break;
    case 2:
      z = call1("exp", {call1("mul.Tensor", {z, bounded(x).t})});
      break;
    case 3:
      z = call1("conj_physical", {call1("sub.Tensor", {z, drawn()})});
      break;
    default:
      if (x.t.dim() == 0) return {};
      z = chance(2) ? call1("_fft_c2c", {z, Exprs{some_dim(x.t.dim())}, Expr(pick(3)), chance(2)})
                    : call1("_fft_r2c", {bounded(x).t, Exprs{some_dim(x.t.dim())}, Expr(pick(3)), chance(2)});
  }
  return {rough(call1(one_of<const char*>({"real", "imag", "view_as_real"}), {z}))};
}

std::vector<Drawn> RandomGenerator::view() {
  const Drawn x = any();
  Exprs sizes = sizes_of(x.t);
  int64_t rank = x.t.dim();
  if (rank == 0 || chance(8)) return {view_of(call1("unsqueeze", {x.t, Expr(pick(rank + 1))}), x, true)};
  int64_t d = pick(rank);
  switch (pick(10)) {
    case 0: {
      std::vector<int64_t> order(static_cast<size_t>(rank));
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      std::shuffle(order.begin(), order.end(), random_);
      return {view_of(call1("permute", {x.t, Exprs(order.begin(), order.end())}), x, true)};
    }
    case 1:
      return {view_of(call1("transpose.int", {x.t, Expr(d), Expr(pick(rank))}), x, true)};
    case 2:
      return {view_of(call1("reshape", {x.t, Exprs{numel(sizes)}}), x, x.writable)};
    case 3: {  // other sizes with as many elements: runs of dimensions merged, one split
      Exprs merged;
      for (auto& s : sizes)
        if (!merged.empty() && chance(2))
          merged.back() = merged.back() * s;
        else
          merged.push_back(s);
      size_t k = static_cast<size_t>(pick(static_cast<int64_t>(merged.size())));
      if (auto n = merged[k].maybe_constant())
        for (int64_t f : {3, 2, 7})
          if (*n % f == 0 && *n > f) {
            merged[k] = *n / f;
            merged.insert(merged.begin() + static_cast<std::ptrdiff_t>(k), f);
            break;
          }
      return {view_of(call1("reshape", {x.t, merged}), x, x.writable)};
    }
    case 4:
      return {view_of(call1("select.int", {x.t, Expr(d), Expr(chance(2) ? 0 : -1)}), x, true)};
    case 5:
      return {view_of(call1("slice.Tensor", {x.t, Expr(d), Expr(pick(2)), std::monostate{}, Expr(1 + pick(2))}), x, true)};
    case 6: {
      Exprs wide = sizes;
      for (auto& s : wide)
        if (s == Expr(1)) s = one_of(sizes_);
      wide.insert(wide.begin(), one_of(sizes_));
      return {view_of(call1("expand", {x.t, wide}), x, false)};
    }
    case 7: {
      std::vector<Drawn> out;
      for (auto& part : call("chunk", {x.t, Expr(1 + pick(3)), Expr(d)})) out.push_back(view_of(part, x, true));
      return out;
    }
    case 8: {
      std::vector<Drawn> out;
      for (auto& part : call("split.Tensor", {x.t, Expr(1 + pick(3)), Expr(d)})) out.push_back(view_of(part, x, true));
      if (out.size() > 4) out.resize(4);
      return out;
    }
    default:
      return {view_of(call1("squeeze.dim", {x.t, Expr(d)}), x, true)};
  }
}

std::vector<Drawn> RandomGenerator::strided_view() {
  const Drawn x = any_rank(1, 4);
  Exprs sizes = sizes_of(x.t);
  int64_t rank = x.t.dim(), d = pick(rank);
  switch (pick(5)) {
    case 0:
      if (rank < 2) return {};
      return {view_of(call1("diagonal", {x.t, Expr(pick(3) - 1), Expr(rank - 2), Expr(rank - 1)}), x, true)};
    case 1:
      return {view_of(call1("unfold", {x.t, Expr(d), Expr(1 + pick(3)), Expr(1 + pick(2))}), x, false)};
    case 2: {  // of memory that is row-major for certain
      Tensor dense = call1("clone", {x.t});
      Drawn own = rough(dense);
      own.exact = x.exact, own.bound = x.bound, own.grain = x.grain, own.wild = x.wild;
      auto n = numel(sizes).maybe_constant();
      if (!n || *n < 6) return {};
      int64_t rows = 2, stride = 1 + pick(2), columns = 1 + pick((*n - 2) / 2);
      int64_t row_stride = chance(2) ? columns * stride : 1;
      if ((rows - 1) * row_stride + (columns - 1) * stride + 1 >= *n) return {};
      return {view_of(call1("as_strided", {dense, Exprs{rows, columns}, Exprs{row_stride, stride}, Expr(1)}), own, false)};
    }
    case 3: {
      auto parts = call("unbind.int", {x.t, Expr(d)});
      if (parts.empty()) return {};
      return {view_of(parts.at(static_cast<size_t>(pick(static_cast<int64_t>(parts.size())))), x, true)};
    }
    default: {
      auto n = sizes[static_cast<size_t>(d)].maybe_constant();
      if (!n || *n < 2) return {};
      int64_t start = pick(*n);
      return {view_of(call1("narrow", {x.t, Expr(d), Expr(start), Expr(1 + pick(*n - start))}), x, true)};
    }
  }
}

// The same elements in another order or several times: results of their own.
std::vector<Drawn> RandomGenerator::rearrange() {
  const Drawn x = any_rank(least_rank(), 4);
  int64_t rank = x.t.dim(), d = some_dim(rank);
  auto own = [&](Tensor t) { return derived(std::move(t), {&x}, x.bound, x.grain); };
  switch (pick(6)) {
    case 0:
      return {own(call1("flip", {x.t, some_dims(rank)}))};
    case 1:
      return {own(call1("roll", {x.t, Exprs{pick(5) - 2}, Exprs{d}}))};
    case 2: {
      Exprs times(static_cast<size_t>(rank), 1);
      if (rank > 0) times[static_cast<size_t>(d)] = options_.degenerate ? pick(3) : 2;
      if (chance(2)) times.insert(times.begin(), 2);
      return {own(call1("repeat", {x.t, times}))};
    }
    case 3:
      return {own(call1("repeat_interleave.self_int", {x.t, Expr(options_.degenerate ? pick(3) : 2), Expr(d)}))};
    case 4: {
      if (rank < 2) return {};
      const Expr diagonal = pick(3) - 1;
      return {derived(call1(chance(2) ? "tril" : "triu", {x.t, diagonal}), {&x}, x.bound, x.grain)};
    }
    default:
      return {own(call1("contiguous", {call1("transpose.int", {x.t, Expr(d), Expr(some_dim(rank))})}))};
  }
}

std::vector<Drawn> RandomGenerator::join() {
  Drawn a = any_rank(1, 4), b = partner(a);
  auto sizes = sizes_of(a.t), other = sizes_of(b.t);
  double bound = std::max(a.bound, b.bound), grain = std::min(a.grain, b.grain);
  int64_t d = pick(a.t.dim());
  if (chance(3)) {
    if (other != sizes) b = a;
    return {derived(call1("stack", {std::vector<Tensor>{a.t, b.t}, Expr(pick(a.t.dim() + 1))}), {&a, &b}, bound, grain)};
  }
  if (sizes.size() == other.size()) {
    other[static_cast<size_t>(d)] = sizes[static_cast<size_t>(d)];
    if (other != sizes) b = a;
  } else {
    b = a;
  }
  std::vector<Tensor> parts = {a.t, b.t};
  if (chance(2)) parts.push_back(call1("neg", {as_float(a).t}));
  if (options_.degenerate && chance(2)) {  // an empty vector joins with tensors of any rank
    const Tensor empty = fresh_input(a.t.dtype(), {0}).t;
    parts.insert(parts.begin() + pick(static_cast<int64_t>(parts.size()) + 1), empty);
  }
  for (auto& p : parts)
    if (is_float(parts.back().dtype()) && !is_float(p.dtype())) p = call1("_to_copy", {p, parts.back().dtype()});
  return {derived(call1("cat", {parts, Expr(d)}), {&a, &b}, bound, grain)};
}

std::vector<Drawn> RandomGenerator::pad() {
  Drawn x = any_rank(least_rank(), 4);
  Exprs widths;
  for (int64_t d = 0, n = 1 + pick(std::min<int64_t>(std::max<int64_t>(x.t.dim(), 1), 2)); d < n; ++d)
    widths.insert(widths.end(), {pick(3), pick(3)});
  switch (pick(4)) {
    case 0: {
      if (x.t.dim() < 2 || is_bool(x.t.dtype())) return {};
      const Exprs pads = {pick(2), 1};
      return {derived(call1(chance(2) ? "reflection_pad1d" : "replication_pad1d", {x.t, pads}), {&x}, x.bound, x.grain)};
    }
    case 1:  // cuts off on one side
      return {derived(call1("constant_pad_nd", {x.t, Exprs{-1, 2}}), {&x}, x.bound, x.grain)};
    default: {
      bool value = !is_bool(x.t.dtype()) && chance(2);
      return {derived(call1("constant_pad_nd", value ? CallArgs{x.t, widths, Expr(1)} : CallArgs{x.t, widths}), {&x},
                      std::max(x.bound, 1.0), std::min(x.grain, 1.0))};
    }
  }
}

}  // namespace toroid::graph
