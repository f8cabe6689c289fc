// Random operations that read or write where data says, have templates, or change memory in place.
#include <algorithm>

#include "base/check.h"
#include "graph/random_generator.h"

namespace toroid::graph {

using ops::call;
using ops::call1;
using Names = std::vector<const char*>;

std::vector<Drawn> RandomGenerator::index() {
  Drawn x = any_rank(least_rank(), 3);
  Exprs sizes = sizes_of(x.t);
  const Expr dim = some_dim(x.t.dim()), extent = extent_of(sizes, dim.constant());
  size_t d = static_cast<size_t>(dim.constant());
  auto own = [&](Tensor t) { return derived(std::move(t), {&x}, x.bound, x.grain); };
  Exprs few = chance(2) ? Exprs{one_of(sizes_)} : Exprs{2, 3};
  switch (pick(7)) {
    case 0:
      return {own(call1("gather", {x.t, dim, index_along(sizes, dim.constant())}))};
    case 1:
      return {own(call1("index_select", {x.t, dim, call1("remainder.Scalar", {index_into({one_of(sizes_)}, extent), extent})}))};
    case 2: {
      if (sizes.empty()) return {};
      std::vector<Tensor> at(d + 1);
      at[d] = index_into(few, extent);
      return {own(call1("index.Tensor", {x.t, at}))};
    }
    case 3: {  // several index tensors, side by side or apart
      if (sizes.empty()) return {};
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
      return {own(call1("take_along_dim", {x.t, call1("remainder.Scalar", {index_into(sizes, extent), extent}), dim}))};
  }
}

std::vector<Drawn> RandomGenerator::scatter() {
  Drawn x = any_rank(least_rank(), 3);
  Exprs sizes = sizes_of(x.t);
  const Expr dim = some_dim(x.t.dim()), extent = extent_of(sizes, dim.constant());
  size_t d = static_cast<size_t>(dim.constant());
  if (is_bool(x.t.dtype())) return {};
  Drawn y = partner(x);
  if (sizes_of(y.t) != sizes) y = x;
  if (y.t.dtype() != x.t.dtype()) y = cast_to(y, x.t.dtype());
  double many = 1;
  for (auto& s : sizes) many *= static_cast<double>(s.maybe_constant().value_or(64));
  auto set = [&](Tensor t) { return derived(std::move(t), {&x, &y}, std::max(x.bound, y.bound), std::min(x.grain, y.grain)); };
  auto added = [&](Tensor t) { return derived(std::move(t), {&x, &y}, x.bound + many * y.bound, std::min(x.grain, y.grain)); };
  Tensor at = index_along(sizes, dim.constant());
  // Where an element is written twice, the gradient is not that of the write that stays.
  auto once = [&] { return call1("flip", {call1("arange", {extent}), Exprs{0}}); };
  if (options_.doubles && x.t.dim() > 0) {
    Exprs line(sizes.size(), 1);
    line[d] = extent;
    at = call1("expand", {call1("view", {once(), line}), sizes});
  }
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
      where[d] = options_.doubles ? once() : index_into({options_.degenerate ? one_of(sizes_) : Expr(2)}, extent);
      return {set(call1("index_put", {x.t, where, call1("index.Tensor", {y.t, where})}))};
    }
    case 4: {
      std::vector<Tensor> where(d + 1);
      where[d] = index_into({options_.degenerate ? one_of(sizes_) : Expr(3)}, extent);
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
  Drawn x = any_rank(least_rank(), 3);
  if (is_bool(x.t.dtype())) x = as_float(x);
  Expr d = some_dim(x.t.dim());
  double n = static_cast<double>(extent_of(sizes_of(x.t), d.constant()).maybe_constant().value_or(64));
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
  Drawn x = any_rank(least_rank(), 3);
  if (is_bool(x.t.dtype())) x = as_float(x);
  Expr d = some_dim(x.t.dim());
  Expr extent = extent_of(sizes_of(x.t), d.constant());
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
  Expr k = sizes.back(), n = options_.degenerate && chance(4) ? Expr(0) : one_of<Expr>({1, 2, 3, 5, 8, 17, 33});
  auto weight = [&](const Exprs& s) { return fresh_input(t, s, chance(2) && k.is_const() ? InputKind::Parameter : InputKind::User).t; };
  switch (pick(9)) {
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
    case 6: {  // two of one input
      if (!k.is_const()) return {};
      const auto made = [&] { return call1("linear", {x.t, fresh_input(t, {n, k}, InputKind::Parameter).t}); };
      return {rough(call1("add.Tensor", {call1("relu", {made()}), made()}))};
    }
    case 7:  // with a weight that is made of numbers
      if (!k.is_const()) return {};
      return {rough(call1("linear", {x.t, call1("full", {Exprs{n, k}, 0.25, t})}))};
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
  bool padded = x.defined();  // it may be
  if (!x.defined())
    x = fresh_input(t, {options_.degenerate ? pick(2) : 1 + pick(2), channels, 3 + pick(6), 3 + pick(chance(3) ? 30 : 6)}).t;
  if (chance(4)) padded = true, x = call1("constant_pad_nd", {x, chance(3) ? Exprs{1, 0, 1, 1} : Exprs{1, 1, 2, 2}});
  if (channels % groups || channels > 32) groups = 1, out = std::min<int64_t>(out, 8);
  InputKind kind = chance(3) ? InputKind::User : InputKind::Parameter;
  const Drawn weight = fresh_input(t, {out, channels / groups, 1 + pick(3), 1 + pick(3)}, kind);
  Exprs stride = {1 + pick(2), 1 + pick(2)}, padding = {pick(2), pick(2)}, dilation = {1 + pick(2), 1};
  for (size_t d = 0; d < 2; ++d) {  // the kernel fits
    const Expr reach = dilation[d] * (sizes_of(weight.t)[d + 2] - 1) + 1, size = sizes_of(x)[d + 2];
    const int64_t missing = reach.constant() - (size.is_const() ? size.constant() : 0);
    padding[d] = std::max(padding[d].constant(), (missing + 1) / 2);
    padded = padded || padding[d].constant() > 0;
  }
  // Whether padding is left out or multiplied, which an infinite weight shows, is up to the way of computing (docs/limits.md).
  const Tensor w = padded ? tame(weight).t : weight.t;
  Arg<Tensor> bias = chance(2) ? Arg<Tensor>(fresh_input(t, {out}, kind).t) : Arg<Tensor>();
  Tensor y = chance(3) ? call1("conv2d", {x, w, bias, stride, padding, dilation, Expr(groups)})
                       : call1("convolution", {x, w, bias, stride, padding, dilation, false, Exprs{0, 0}, Expr(groups)});
  if (chance(2)) {  // variances are at least -2: what is added to them is 3
    const auto per_channel = [&] { return fresh_input(t, {out}, kind).t; };
    y = call1("batch_norm", {y, per_channel(), per_channel(), per_channel(), per_channel(), false, 0.1, 3.0, true});
  }
  return {rough(y)};
}

std::vector<Drawn> RandomGenerator::pool() {
  Drawn x;
  for (int i = 0; i < 6 && !x.t.defined(); ++i)
    if (const Drawn& d = any(); d.t.dim() >= 3 && d.t.dim() <= 4 && is_float(d.t.dtype()) && !d.wild) x = d;
  if (!x.t.defined()) {
    const Exprs sizes = {options_.degenerate ? pick(2) : 1 + pick(2), 1 + pick(3), 3 + pick(5), 3 + pick(5)};
    x = fresh_input(float_dtype(), sizes);
  }
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
  if (options_.degenerate)
    for (auto* size : {&length, &keys, &depth, &batch, &heads})
      if (chance(5)) *size = 0;
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
  if (chance(3)) {  // as someone writes it by hand
    const Tensor scores = call1("mul.Tensor", {call1("matmul", {q, call1("transpose.int", {k, Expr(-2), Expr(-1)})}), 0.5});
    const auto* added = std::get_if<Tensor>(&mask);
    return {rough(call1("matmul", {call1("softmax.int", {added ? call1("add.Tensor", {scores, *added}) : scores, Expr(-1)}), v}))};
  }
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
  if (x.t.dim() < least_rank()) return {};
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
