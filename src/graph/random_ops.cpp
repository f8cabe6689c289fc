// The families of random operations. Each makes nodes and returns the values that later ones may read.
#include <algorithm>

#include "base/check.h"
#include "graph/random_generator.h"

namespace toroid::graph {

using ops::call;
using ops::call1;
using Names = std::vector<const char*>;

std::vector<Drawn> RandomGenerator::unary() {
  static const Names names = {"sigmoid", "tanh", "sin",  "cos",      "erf",       "gelu",       "silu",        "softplus", "expm1",
                              "elu",     "mish", "atan", "hardtanh", "hardswish", "leaky_relu", "log_sigmoid", "asinh",    "celu"};
  Drawn x = any_tame();
  const char* name = one_of(names);
  if (name == std::string_view("expm1")) x = bounded(x);
  switch (pick(6)) {
    case 0:
      return {rough(call1(chance(2) ? "exp" : "exp2", {bounded(x).t}))};
    case 1:  // away from zero, where they are steep
      return {rough(call1(one_of<const char*>({"sqrt", "rsqrt", "log", "reciprocal", "log2", "log1p"}),
                          {call1("add.Tensor", {call1("abs", {x.t}), 0.5})}))};
    case 2:
      return {
          rough(call1("pow.Tensor_Scalar", {call1("add.Tensor", {call1("sigmoid", {x.t}), 0.5}), one_of<double>({2, 0.5, -1, 3, 2.5})}))};
    default:
      return {rough(call1(name, {x.t}))};
  }
}

// Keep exact values exact: later comparisons need some.
std::vector<Drawn> RandomGenerator::unary_exact() {
  static const Names names = {"neg", "abs", "relu", "clone", "square"}, jumps = {"floor", "ceil", "round", "trunc", "sign"};
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
      Drawn y = partner(x);
      return {rough(call1(one_of<const char*>({"fmax", "fmin", "maximum", "minimum"}), {x.t, as_float(y).t}), true)};
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
      return {rough(call1("lerp.Scalar", {bounded(a).t, bounded(a).t, 0.25}))};
    case 7:
      return {rough(call1(chance(2) ? "addcmul" : "addcdiv", {bounded(a).t, bounded(b).t, call1("exp", {bounded(b).t})}))};
    case 8:
      return {rough(call1("hypot", {tame(as_float(a)).t, bounded(b).t}))};
    default: {
      double lo = -1 + 0.5 * static_cast<double>(pick(3));
      Drawn x = as_float(a);
      return {derived(call1("clamp", {x.t, lo, lo + 1.5}), {&x}, std::max(x.bound, 1.5), std::min(x.grain, 0.5))};
    }
  }
}

std::vector<Drawn> RandomGenerator::integer() {
  Drawn a = cast_to(any_exact(), one_of<DType>({DType::I64, DType::I32}));
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
  static const Names names = {"lt.Tensor", "le.Tensor",   "eq.Tensor",  "ne.Tensor",  "gt.Tensor",
                              "ge.Tensor", "logical_and", "logical_or", "logical_xor"};
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

std::vector<Drawn> RandomGenerator::casts() { return {cast_to(any(), dtype())}; }

std::vector<Drawn> RandomGenerator::reduce() {
  Drawn x = any_float();
  if (x.t.dim() == 0) return {};
  bool keep = chance(2);
  Exprs dims = some_dims(x.t.dim());
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
      return {rough(call1("prod.dim_int", {bounded(x).t, dims[0], keep}))};
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
  if (x.t.dim() == 0) return {};
  bool keep = chance(2);
  Exprs dims = some_dims(x.t.dim());
  double n = 1;
  for (auto& s : sizes_of(x.t)) n *= static_cast<double>(s.maybe_constant().value_or(64));
  switch (pick(7)) {
    case 0:
    case 1:
      return {derived(call1(chance(2) ? "amax" : "amin", {x.t, dims, keep}), {&x}, x.bound, x.grain)};
    case 2:
      return {derived(call1("sum.dim_IntList", {x.t, dims, keep}), {&x}, x.bound * n, x.grain)};
    case 3:
      if (!x.exact) return {};
      if (chance(4)) return {exact(call1(chance(2) ? "argmax" : "argmin", {is_bool(x.t.dtype()) ? cast_to(x, DType::I64).t : x.t}), n, 1)};
      return {exact(call1(chance(2) ? "argmax" : "argmin", {is_bool(x.t.dtype()) ? cast_to(x, DType::I64).t : x.t, dims[0], keep}), n, 1)};
    case 4:
      if (!x.exact) return {};
      return {exact(call1(chance(2) ? "any.dims" : "all.dims", {x.t, dims, keep}), 1, 1)};
    case 5: {
      if (!x.exact || is_bool(x.t.dtype())) return {};
      auto r = call(chance(2) ? "max.dim" : "min.dim", {x.t, dims[0], keep});
      return {exact(r[0], x.bound, x.grain, x.wild), exact(r[1], n, 1)};
    }
    default:
      if (!x.exact) return {};
      return {exact(call1("count_nonzero.dim_IntList", {x.t, dims}), n, 1)};
  }
}

std::vector<Drawn> RandomGenerator::softmax() {
  Drawn x = any_tame();
  if (x.t.dim() == 0) return {};
  Expr d = pick(x.t.dim());
  switch (pick(4)) {
    case 0:
      return {rough(call1("softmax.int", {x.t, d}))};
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
  const Drawn x = any_rank(1, 4);
  int64_t rank = x.t.dim(), d = pick(rank);
  auto own = [&](Tensor t) { return derived(std::move(t), {&x}, x.bound, x.grain); };
  switch (pick(6)) {
    case 0:
      return {own(call1("flip", {x.t, some_dims(rank)}))};
    case 1:
      return {own(call1("roll", {x.t, Exprs{pick(5) - 2}, Exprs{d}}))};
    case 2: {
      Exprs times(static_cast<size_t>(rank), 1);
      times[static_cast<size_t>(d)] = 2;
      if (chance(2)) times.insert(times.begin(), 2);
      return {own(call1("repeat", {x.t, times}))};
    }
    case 3:
      return {own(call1("repeat_interleave.self_int", {x.t, Expr(2), Expr(d)}))};
    case 4:
      if (rank < 2) return {};
      return {derived(call1(chance(2) ? "tril" : "triu", {x.t, Expr(pick(3) - 1)}), {&x}, x.bound, x.grain)};
    default:
      return {own(call1("contiguous", {call1("transpose.int", {x.t, Expr(d), Expr(pick(rank))})}))};
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
  for (auto& p : parts)
    if (is_float(parts.back().dtype()) && !is_float(p.dtype())) p = call1("_to_copy", {p, parts.back().dtype()});
  return {derived(call1("cat", {parts, Expr(d)}), {&a, &b}, bound, grain)};
}

std::vector<Drawn> RandomGenerator::pad() {
  Drawn x = any_rank(1, 4);
  Exprs widths;
  for (int64_t d = 0, n = 1 + pick(std::min<int64_t>(x.t.dim(), 2)); d < n; ++d) widths.insert(widths.end(), {pick(3), pick(3)});
  switch (pick(4)) {
    case 0:
      if (x.t.dim() < 2 || is_bool(x.t.dtype())) return {};
      return {derived(call1(chance(2) ? "reflection_pad1d" : "replication_pad1d", {x.t, Exprs{pick(2), 1}}), {&x}, x.bound, x.grain)};
    case 1:  // cuts off on one side
      return {derived(call1("constant_pad_nd", {x.t, Exprs{-1, 2}}), {&x}, x.bound, x.grain)};
    default: {
      bool value = !is_bool(x.t.dtype()) && chance(2);
      return {derived(call1("constant_pad_nd", value ? CallArgs{x.t, widths, Expr(1)} : CallArgs{x.t, widths}), {&x},
                      std::max(x.bound, 1.0), std::min(x.grain, 1.0))};
    }
  }
}

std::vector<Drawn> RandomGenerator::index() {
  Drawn x = any_rank(1, 3);
  Exprs sizes = sizes_of(x.t);
  size_t d = static_cast<size_t>(pick(x.t.dim()));
  auto own = [&](Tensor t) { return derived(std::move(t), {&x}, x.bound, x.grain); };
  Exprs few = chance(2) ? Exprs{one_of(sizes_)} : Exprs{2, 3};
  switch (pick(7)) {
    case 0:
      return {
          own(call1("gather", {x.t, Expr(static_cast<int64_t>(d)), call1("remainder.Scalar", {index_into(sizes, sizes[d]), sizes[d]})}))};
    case 1:
      return {own(call1("index_select", {x.t, Expr(static_cast<int64_t>(d)),
                                         call1("remainder.Scalar", {index_into({one_of(sizes_)}, sizes[d]), sizes[d]})}))};
    case 2: {
      std::vector<Tensor> at(d + 1);
      at[d] = index_into(few, sizes[d]);
      return {own(call1("index.Tensor", {x.t, at}))};
    }
    case 3: {  // several index tensors, side by side or apart
      std::vector<Tensor> at(sizes.size());
      at[0] = index_into(few, sizes[0]);
      at[sizes.size() - 1] = index_into(few, sizes.back());
      return {own(call1("index.Tensor", {x.t, at}))};
    }
    case 4:
      if (x.t.dim() != 2) return {};
      return {own(call1("embedding", {x.t, call1("remainder.Scalar", {index_into(few, sizes[0]), sizes[0]})}))};
    case 5:
      return {own(call1("take", {x.t, index_into(few, numel(sizes))}))};
    default:
      return {own(call1("take_along_dim",
                        {x.t, call1("remainder.Scalar", {index_into(sizes, sizes[d]), sizes[d]}), Expr(static_cast<int64_t>(d))}))};
  }
}

std::vector<Drawn> RandomGenerator::scatter() {
  Drawn x = any_rank(1, 3);
  Exprs sizes = sizes_of(x.t);
  size_t d = static_cast<size_t>(pick(x.t.dim()));
  Expr dim = static_cast<int64_t>(d);
  if (is_bool(x.t.dtype())) return {};
  Drawn y = partner(x);
  if (sizes_of(y.t) != sizes) y = x;
  if (y.t.dtype() != x.t.dtype()) y = cast_to(y, x.t.dtype());
  double many = 1;
  for (auto& s : sizes) many *= static_cast<double>(s.maybe_constant().value_or(64));
  auto set = [&](Tensor t) { return derived(std::move(t), {&x, &y}, std::max(x.bound, y.bound), std::min(x.grain, y.grain)); };
  auto added = [&](Tensor t) { return derived(std::move(t), {&x, &y}, x.bound + many * y.bound, std::min(x.grain, y.grain)); };
  Tensor at = call1("remainder.Scalar", {index_into(sizes, sizes[d]), sizes[d]});
  auto first = [&] { return call1("slice.Tensor", {y.t, dim, Expr(0), Expr(1)}); };
  switch (pick(10)) {
    case 0:
      return {set(call1("scatter.src", {x.t, dim, at, y.t}))};
    case 1:
      return {set(call1("scatter.value", {x.t, dim, at, Expr(1)}))};
    case 2:
      return {added(call1("scatter_add", {x.t, dim, at, y.t}))};
    case 3: {
      std::vector<Tensor> where(d + 1);
      where[d] = index_into({2}, sizes[d]);
      return {set(call1("index_put", {x.t, where, call1("index.Tensor", {y.t, where})}))};
    }
    case 4: {
      std::vector<Tensor> where(d + 1);
      where[d] = index_into({3}, sizes[d]);
      return {added(call1("index_put", {x.t, where, call1("index.Tensor", {y.t, where}), true}))};
    }
    case 5:
      return {added(call1("index_add", {x.t, dim, call1("arange", {Expr(1)}), first()}))};
    case 6:
      return {set(call1("select_scatter", {x.t, call1("select.int", {y.t, dim, Expr(0)}), dim, Expr(-1)}))};
    case 7:
      return {set(call1("slice_scatter", {x.t, first(), dim, Expr(0), Expr(1)}))};
    case 8: {
      Tensor r = call1("scatter_reduce.two", {x.t, dim, at, y.t, std::string(one_of<const char*>({"amax", "amin", "sum"}))});
      return {added(r)};
    }
    default:
      if (x.t.dim() < 2) return {};
      return {set(call1("diagonal_scatter", {x.t, call1("diagonal", {y.t}), Expr(0), Expr(0), Expr(1)}))};
  }
}

std::vector<Drawn> RandomGenerator::scan() {
  Drawn x = any_rank(1, 3);
  if (is_bool(x.t.dtype())) x = as_float(x);
  Expr d = pick(x.t.dim());
  double n = static_cast<double>(sizes_of(x.t)[static_cast<size_t>(d.constant())].maybe_constant().value_or(64));
  switch (pick(5)) {
    case 0:
    case 1:
      return {derived(call1("cumsum", {x.t, d}), {&x}, x.bound * n, x.grain)};
    case 2:
      return {rough(call1("cumprod", {bounded(x).t, d}))};
    case 3:
      return {rough(call1("logcumsumexp", {as_float(bounded(x)).t, d}))};
    default: {
      if (!x.exact || x.wild) return {};
      auto r = call(chance(2) ? "cummax" : "cummin", {x.t, d});
      return {exact(r[0], x.bound, x.grain), exact(r[1], n, 1)};
    }
  }
}

std::vector<Drawn> RandomGenerator::order() {
  Drawn x = any_rank(1, 3);
  if (is_bool(x.t.dtype())) x = as_float(x);
  Expr d = pick(x.t.dim());
  Expr extent = sizes_of(x.t)[static_cast<size_t>(d.constant())];
  double n = static_cast<double>(extent.maybe_constant().value_or(64));
  std::vector<Tensor> r;
  bool stable = false;
  switch (pick(4)) {
    case 0:
      r = call("sort", {x.t, d, chance(2)});
      break;
    case 1:
      r = call("sort.stable", {x.t, true, d, chance(2)});
      stable = true;
      break;
    case 2:
      r = call("topk", {x.t, Expr(extent.is_const() ? pick(extent.constant() + 1) : 2), d, chance(2)});
      break;
    default:
      if (!x.exact) return {};
      return {exact(call1("argsort.stable", {x.t, true, d, chance(2)}), n, 1)};
  }
  std::vector<Drawn> out = {derived(r[0], {&x}, x.bound, x.grain)};
  if (x.exact && stable) out.push_back(exact(r[1], n, 1));
  return out;
}

std::vector<Drawn> RandomGenerator::product() {
  Drawn x = any_tame();
  auto sizes = sizes_of(x.t);
  if (x.t.dim() == 0) return {};
  DType t = x.t.dtype();
  Expr k = sizes.back(), n = one_of<Expr>({1, 2, 3, 5, 8, 17, 33});
  auto weight = [&](const Exprs& s) { return fresh_input(t, s, chance(2) && k.is_const() ? InputKind::Parameter : InputKind::User).t; };
  switch (pick(7)) {
    case 0:
      if (x.t.dim() != 2) return {};
      return {rough(call1("mm", {x.t, call1("transpose.int", {bounded(x).t, Expr(0), Expr(1)})}))};
    case 1:
      if (x.t.dim() != 2) return {};
      return {rough(call1("mm", {x.t, weight({k, n})}))};
    case 2:
      return {rough(call1("linear", chance(2) ? CallArgs{x.t, weight({n, k})} : CallArgs{x.t, weight({n, k}), weight({n})}))};
    case 3:
      if (x.t.dim() != 3) return {};
      return {rough(call1("bmm", {x.t, call1("transpose.int", {bounded(x).t, Expr(1), Expr(2)})}))};
    case 4: {
      Drawn y = any_tame();
      if (y.t.dtype() != t) y = cast_to(y, t);
      return {rough(call1("matmul", {bounded(x).t, y.t}))};
    }
    case 5:
      if (x.t.dim() != 2) return {};
      return {rough(call1("addmm", {weight({n}), bounded(x).t, weight({k, n}), Expr(2), 0.5}))};
    default: {  // with what is usually fused behind it
      Tensor y = call1("linear", {x.t, weight({n, k}), weight({n})});
      return {rough(call1(one_of<const char*>({"relu", "gelu", "tanh"}), {y}))};
    }
  }
}

std::vector<Drawn> RandomGenerator::convolution() {
  int64_t groups = chance(3) ? 2 : 1, channels = groups * (1 + pick(3)), out = groups * one_of<int64_t>({1, 2, 8, 16});
  DType t = chance(4) ? float_dtype() : DType::F32;
  if (t == DType::F64 && chance(2)) t = DType::F32;
  Tensor x;
  for (int i = 0; i < 6 && !x.defined(); ++i)
    if (const Drawn& d = any(); d.t.dim() == 4 && !d.wild && is_float(d.t.dtype()) && sizes_of(d.t)[1].is_const())
      x = d.t, channels = sizes_of(d.t)[1].constant(), t = d.t.dtype();
  if (!x.defined()) x = fresh_input(t, {1 + pick(2), channels, 3 + pick(6), 3 + pick(chance(3) ? 30 : 6)}).t;
  if (channels % groups || channels > 32) groups = 1, out = std::min<int64_t>(out, 8);
  InputKind kind = chance(3) ? InputKind::User : InputKind::Parameter;
  Tensor w = fresh_input(t, {out, channels / groups, 1 + pick(3), 1 + pick(3)}, kind).t;
  Exprs stride = {1 + pick(2), 1 + pick(2)}, padding = {pick(2), pick(2)}, dilation = {1 + pick(2), 1};
  Arg<Tensor> bias = chance(2) ? Arg<Tensor>(fresh_input(t, {out}, kind).t) : Arg<Tensor>();
  if (chance(3)) return {rough(call1("conv2d", {x, w, bias, stride, padding, dilation, Expr(groups)}))};
  return {rough(call1("convolution", {x, w, bias, stride, padding, dilation, false, Exprs{0, 0}, Expr(groups)}))};
}

std::vector<Drawn> RandomGenerator::pool() {
  Drawn x;
  for (int i = 0; i < 6 && !x.t.defined(); ++i)
    if (const Drawn& d = any(); d.t.dim() >= 3 && d.t.dim() <= 4 && is_float(d.t.dtype()) && !d.wild) x = d;
  if (!x.t.defined()) x = fresh_input(float_dtype(), {1 + pick(2), 1 + pick(3), 3 + pick(5), 3 + pick(5)});
  Exprs kernel = {1 + pick(3), 1 + pick(3)}, stride = {1 + pick(2), 1 + pick(2)};
  switch (pick(4)) {
    case 0:
      return {derived(call1("max_pool2d", {x.t, kernel, stride, Exprs{0, 0}}), {&x}, x.bound, x.grain)};
    case 1: {
      if (!x.exact) return {};
      auto r = call("max_pool2d_with_indices", {x.t, kernel, stride, Exprs{pick(2) && kernel[0].constant() > 1 ? 1 : 0, 0}});
      return {exact(r[0], x.bound, x.grain, x.wild), exact(r[1], 400, 1)};
    }
    case 2:
      return {rough(call1("avg_pool2d", {x.t, kernel, stride, Exprs{kernel[0].constant() > 1 ? pick(2) : 0, 0}, false, chance(2)}))};
    default:
      return {rough(call1("adaptive_avg_pool2d", {x.t, Exprs{1 + pick(2), 1 + pick(3)}}))};
  }
}

std::vector<Drawn> RandomGenerator::attention() {
  DType t = float_dtype();
  if (t == DType::F64) t = DType::F32;
  Expr length = one_of<Expr>({1, 3, 5, 9}), keys = chance(2) ? length : one_of<Expr>({2, 7, 17}), depth = one_of<Expr>({2, 4, 8, 16});
  Expr batch = 1 + pick(2), heads = 1 + pick(2);
  Tensor q = fresh_input(t, {batch, heads, length, depth}).t, k, v;
  if (chance(2)) {  // heads split out of rows, as models do
    auto rows = [&](const Expr& n) {
      Tensor x = fresh_input(t, {batch, n, heads * depth}).t;
      return call1("transpose.int", {call1("reshape", {x, Exprs{batch, n, heads, depth}}), Expr(1), Expr(2)});
    };
    k = rows(keys), v = rows(keys);
  } else {
    k = fresh_input(t, {batch, heads, keys, depth}).t, v = fresh_input(t, {batch, heads, keys, depth}).t;
  }
  for (auto* x : {&q, &k, &v})
    if (recorder_.value_of(*x)->producer == nullptr) *x = call1("nan_to_num", {*x, 0.0, 1.0, -1.0});
  bool causal = chance(3) && keys == length;
  Arg<Tensor> mask;
  if (!causal && chance(2))
    mask = chance(2) ? call1("nan_to_num", {fresh_input(t, {length, keys}).t, 0.0, 1.0, -1.0})
                     : Tensor(fresh_input(t, {heads, length, keys}).t);
  if (wild_) mask = {};
  return {rough(call1("scaled_dot_product_attention", {q, k, v, mask, 0.0, causal}))};
}

std::vector<Drawn> RandomGenerator::create() {
  Expr n = one_of(sizes_), m = one_of(sizes_);
  switch (pick(4)) {
    case 0:
      return {exact(call1("arange", {n}), 64, 1)};
    case 1: {
      DType t = dtype();
      return {exact(call1("full", {Exprs{n, m}, Expr(1), t}), 1, 1)};
    }
    case 2: {
      const Drawn& x = any();
      return {exact(call1(chance(2) ? "zeros_like" : "ones_like", {x.t}), 1, 1)};
    }
    default:
      return {rough(call1("mul.Tensor", {call1("_to_copy", {call1("arange", {n}), DType::F32}), 0.25}))};
  }
}

// Results whose sizes only the run tells: read by outputs alone, after a few operations.
std::vector<Drawn> RandomGenerator::data_dependent() {
  if (!last_.empty()) return {};
  Drawn x = any_exact();
  if (x.t.dim() == 0) return {};
  if (chance(2)) {
    last_.push_back(call1("nonzero", {x.t}));
  } else {
    Tensor picked = call1("masked_select", {x.t, mask_of(x)});
    if (!is_bool(picked.dtype())) picked = call1("mul.Tensor", {picked, Expr(2)});
    last_.push_back(picked);
    if (!is_bool(picked.dtype())) last_.push_back(call1("sum", {picked}));
  }
  return {};
}

std::vector<Drawn> RandomGenerator::in_place() {
  Drawn x = any();
  if (!x.writable || is_bool(x.t.dtype())) return {};
  bool floats = is_float(x.t.dtype());
  auto wrote = [&](Tensor t, Drawn result) {
    this->wrote(x, result);
    mix(x, result);
    return std::vector<Drawn>{view_of(std::move(t), x, true)};
  };
  switch (pick(9)) {
    case 0: {
      Tensor t = call1("add_.Tensor", {x.t, floats ? Arg<Tensor>(0.5) : Arg<Tensor>(Expr(1))});
      return wrote(t, derived(t, {&x}, x.bound + 1, std::min(x.grain, 0.5)));
    }
    case 1: {
      if (!floats || x.wild) return {};
      Tensor t = call1("mul_.Tensor", {x.t, -0.5});
      return wrote(t, derived(t, {&x}, x.bound, x.grain / 2));
    }
    case 2: {
      if (!floats || x.wild) return {};
      Tensor t = call1(one_of<const char*>({"tanh_", "sigmoid_", "sin_"}), {x.t});
      return wrote(t, rough(t));
    }
    case 3: {
      Tensor t = call1(chance(2) ? "zero_" : "relu_", {x.t});
      return wrote(t, derived(t, {&x}, x.bound, x.grain));
    }
    case 4: {
      Tensor t = call1("fill_.Scalar", {x.t, Expr(1)});
      return wrote(t, derived(t, {&x}, std::max(x.bound, 1.0), std::min(x.grain, 1.0)));
    }
    case 5: {
      Tensor t = call1("masked_fill_.Scalar", {x.t, mask_of(x), Expr(1)});
      return wrote(t, derived(t, {&x}, std::max(x.bound, 1.0), std::min(x.grain, 1.0)));
    }
    default: {
      Drawn y = partner(x);
      auto want = sizes_of(x.t), have = sizes_of(y.t);
      if (have.size() > want.size()) return {};
      for (size_t k = 0; k < have.size(); ++k)
        if (!(have[have.size() - 1 - k] == want[want.size() - 1 - k]) && !(have[have.size() - 1 - k] == Expr(1))) return {};
      if (!floats && (is_float(y.t.dtype()) || !y.exact)) return {};
      if (x.t.dtype() == DType::U8 && y.t.dtype() != DType::U8 && !is_bool(y.t.dtype())) return {};
      Drawn joint = y;  // what was there before stays in the other parts of the memory
      joint.bound = std::max(x.bound, y.bound), joint.grain = std::min(x.grain, y.grain);
      if (chance(2)) {
        Tensor t = call1("copy_", {x.t, y.t});
        return wrote(t, derived(t, {&x, &joint}, joint.bound, joint.grain));
      }
      if (!floats && is_bool(y.t.dtype())) return {};
      Tensor t = call1("add_.Tensor", {x.t, y.t});
      return wrote(t, derived(t, {&x, &y}, x.bound + y.bound, joint.grain));
    }
  }
}

// Writes to a part of a tensor, through a view or an index.
std::vector<Drawn> RandomGenerator::in_place_part() {
  Drawn x = any();
  if (!x.writable || is_bool(x.t.dtype()) || x.t.dim() == 0) return {};
  Exprs sizes = sizes_of(x.t);
  size_t d = static_cast<size_t>(pick(x.t.dim()));
  Expr dim = static_cast<int64_t>(d);
  Drawn one = derived(x.t, {&x}, x.bound + 64, std::min(x.grain, 1.0));
  auto wrote = [&](Tensor t) {
    this->wrote(x, one);
    mix(x, one);
    return std::vector<Drawn>{view_of(std::move(t), x, true)};
  };
  Tensor at = call1("remainder.Scalar", {index_into(sizes, sizes[d]), sizes[d]});
  switch (pick(6)) {
    case 0: {
      call1("fill_.Scalar", {call1("select.int", {x.t, dim, Expr(-1)}), Expr(1)});
      return wrote(call1("clone", {x.t}));
    }
    case 1:
      call1("add_.Tensor", {call1("slice.Tensor", {x.t, dim, Expr(0), std::monostate{}, Expr(2)}), Expr(1)});
      return wrote(call1("clone", {x.t}));
    case 2: {
      std::vector<Tensor> where(d + 1);
      where[d] = index_into({2}, sizes[d]);
      Tensor value = call1("ones_like", {call1("index.Tensor", {x.t, where})});
      return wrote(call1("index_put_", {x.t, where, value, chance(2)}));
    }
    case 3:
      return wrote(call1("scatter_.value", {x.t, dim, at, Expr(1)}));
    case 4:
      if (chance(2)) {  // reads what it overwrites
        one = rough(x.t, x.wild);
        if (!is_float(x.t.dtype())) return {};
        return wrote(call1("scatter_add_", {x.t, dim, at, x.t}));
      }
      return wrote(call1("scatter_add_", {x.t, dim, at, call1("ones_like", {x.t})}));
    default:
      if (x.t.dim() < 2) return {};
      call1("zero_", {call1("diagonal", {x.t})});
      return wrote(call1("clone", {x.t}));
  }
}

}  // namespace toroid::graph
