// Convolutions of one and three dimensions, and transposed ones, as plain ones of two dimensions, which targets have templates for. What is
// added are views of activations, and other orders of the weights, which constants are brought into here.
#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/recipe.h"
#include "tensor/tensor_impl.h"

namespace toroid::graph {
namespace {

using Ints = std::vector<int64_t>;
using Sizes = std::vector<Expr>;
using ops::call1;

Sizes exprs(const Ints& v) { return {v.begin(), v.end()}; }
Sizes sizes_of(const Tensor& t) {
  Sizes s;
  for (int64_t d = 0; d < t.dim(); ++d) s.push_back(t.size(d).expr());
  return s;
}
Tensor reshape(const Tensor& t, const Sizes& sizes) { return call1("reshape", {t, sizes}); }
Tensor permute(const Tensor& t, const Ints& order) { return call1("permute", {t, exprs(order)}); }
Tensor every(const Tensor& t, int64_t dim, int64_t step) {
  return step == 1 ? t : call1("slice.Tensor", {t, Expr(dim), std::monostate(), std::monostate(), Expr(step)});
}
// Zeros before and after a dimension; less than none cuts it.
Tensor pad(const Tensor& t, int64_t dim, int64_t before, int64_t after) {
  if (before == 0 && after == 0) return t;
  Sizes widths(static_cast<size_t>(2 * (t.dim() - 1 - dim)), 0);
  widths.insert(widths.end(), {Expr(before), Expr(after)});
  return call1("constant_pad_nd", {t, widths, Expr(0)});
}

struct Convolution {
  Tensor x, weight, bias;
  Ints stride, padding, dilation;
  Sizes extra;
  int64_t groups = 1;
  bool transposed = false;
  double least_saved = 0;  // see plain_convolutions_saving()
  size_t spatial() const { return stride.size(); }
  int64_t kernel(size_t d) const { return static_cast<int64_t>(weight.size(static_cast<int64_t>(d) + 2)); }
};

// Another order of a weight: made now of what is known, else with the rest of the program.
template <class Fn>
Tensor arranged(const Tensor& t, Fn&& fn) {
  if (!t.defined()) return t;
  if (is_proxy(t)) return fn(t);
  ConstantDispatcher now;
  DispatchScope scope(now);
  return fn(t);
}

Tensor convolve(const Convolution& c);

// One row.
Tensor convolve_line(Convolution c) {
  auto row = [](const Tensor& t) { return call1("unsqueeze", {t, Expr(2)}); };
  c.x = row(c.x);
  c.weight = arranged(c.weight, row);
  for (Ints* v : {&c.stride, &c.dilation}) v->insert(v->begin(), 1);
  c.padding.insert(c.padding.begin(), 0);
  c.extra.insert(c.extra.begin(), Expr(0));
  const Tensor y = convolve(c);
  return reshape(y, {y.size(0).expr(), y.size(1).expr(), y.size(3).expr()});
}

// The frames of all videos are images, whose channels are those of all frames that a window sees.
Tensor convolve_frames(const Convolution& c) {
  Sizes x = sizes_of(c.x), w = sizes_of(c.weight);
  const int64_t taps = c.kernel(0), span = (taps - 1) * c.dilation[0] + 1;
  Tensor frames = call1("unfold", {pad(c.x, 2, c.padding[0], c.padding[0]), Expr(2), Expr(span), Expr(c.stride[0])});
  frames = every(frames, 5, c.dilation[0]);
  const Expr count = frames.size(2).expr(), group = w[1];
  frames = permute(reshape(frames, {x[0], Expr(c.groups), group, count, x[3], x[4], Expr(taps)}), {0, 3, 1, 6, 2, 4, 5});
  Convolution plane = c;
  plane.x = reshape(frames, {x[0] * count, x[1] * Expr(taps), x[3], x[4]});
  plane.weight = arranged(c.weight, [&](const Tensor& t) {
    return reshape(permute(t, {0, 2, 1, 3, 4}), {w[0], group * Expr(taps), w[3], w[4]});
  });
  for (Ints* v : {&plane.stride, &plane.padding, &plane.dilation}) v->erase(v->begin());
  plane.extra.erase(plane.extra.begin());
  const Tensor y = convolve(plane);
  return permute(reshape(y, {x[0], count, w[0], y.size(2).expr(), y.size(3).expr()}), {0, 2, 1, 3, 4});
}

// One dimension of a transposed convolution. With o the place in the result before padding is cut off, tap k of input i reaches
// o = i * stride + k * dilation, that is phase r = o % stride of place q = o / stride, where i = q - shift. So each phase is a plain
// convolution of step 1 over the taps that reach it, and all phases together are one with as many times the channels.
struct Phases {
  int64_t stride, shifts, step, taps;  // shifts: one more than the largest; step: between those that occur; taps: of a phase
  int64_t padding, first;              // of the plain convolution; the first place of its result that is wanted
};

int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

Phases phases_of(const Convolution& c, size_t d) {
  const int64_t stride = c.stride[d], dilation = c.dilation[d], last = (c.kernel(d) - 1) * dilation;
  Phases p{stride, last / stride + 1, 0, 0, 0, 0};
  for (int64_t k = 0; k < c.kernel(d); ++k) p.step = std::gcd(p.step, k * dilation / stride);
  p.step = std::max<int64_t>(p.step, 1);
  p.taps = (p.shifts - 1) / p.step + 1;
  // As much as the first and the last wanted place need. What is open is less than a step.
  const int64_t extra = c.extra[d].maybe_constant().value_or(std::max(stride, dilation) - 1);
  p.padding = std::max({int64_t{0}, p.shifts - 1 - c.padding[d] / stride, floor_of(last + extra - c.padding[d], stride)});
  p.first = c.padding[d] - stride * (p.shifts - 1 - p.padding);
  return p;
}

// [in][out / groups][taps...] as [group, phase..., out of the group][in of the group][taps of a phase..., the latest first].
Tensor weight_of_phases(Tensor w, const Convolution& c, const std::vector<Phases>& phases) {
  const int64_t in = static_cast<int64_t>(w.size(0)) / c.groups, out = static_cast<int64_t>(w.size(1));
  Ints split = {c.groups, in, out}, front = {0}, back = {2, 1}, joined = {c.groups * out, in};
  for (size_t d = 0; d < phases.size(); ++d) {
    const Phases& p = phases[d];
    const auto at = static_cast<int64_t>(d) + 2;
    int64_t length = c.kernel(d);
    if (c.dilation[d] > 1) {  // zeros between the taps
      w = pad(call1("unsqueeze", {w, Expr(at + 1)}), at + 1, 0, c.dilation[d] - 1);
      Sizes sizes = sizes_of(w);
      length *= c.dilation[d];
      sizes[static_cast<size_t>(at)] = length;
      sizes.erase(sizes.begin() + at + 1);
      w = reshape(w, sizes);
    }
    w = pad(w, at, 0, p.shifts * p.stride - length);
    split.insert(split.end(), {p.shifts, p.stride});
    front.push_back(static_cast<int64_t>(2 * d) + 4);
    back.push_back(static_cast<int64_t>(2 * d) + 3);
    joined[0] *= p.stride;
    joined.push_back(p.taps);
  }
  w = reshape(w, exprs(split));
  for (size_t d = 0; d < phases.size(); ++d) {
    const Expr at(static_cast<int64_t>(2 * d) + 3);
    w = every(w, at.constant(), phases[d].step);
    if (phases[d].taps > 1) w = call1("flip", {w, Sizes{at}});
  }
  front.insert(front.end(), back.begin(), back.end());
  return reshape(permute(w, front), exprs(joined));
}

// One phase of a dimension of a transposed convolution: places q * stride + r of its result. Its taps are every `every`-th from `first` on,
// and read inputs q + low, q + low + step, ..., those of the last tap first.
struct Phase {
  int64_t first = 0, taps = 0, every = 1;
  int64_t low = 0, step = 1;
};

Phase phase_of(const Convolution& c, size_t d, int64_t r) {
  const int64_t stride = c.stride[d], dilation = c.dilation[d], common = std::gcd(stride, dilation);
  Phase p{.every = stride / common, .step = dilation / common};
  for (int64_t k = c.kernel(d); k-- > 0;) {
    const int64_t reached = r + c.padding[d] - k * dilation;
    if (reached % stride != 0) continue;
    if (p.taps++ == 0) p.low = reached / stride;
    p.first = k;
  }
  return p;
}

// The sizes of an image of two dimensions and of the result, where all are known; none else.
struct Extents {
  Ints in, out;
};
std::optional<Extents> known_extents(const Convolution& c) {
  Extents e;
  for (size_t d = 0; d < c.spatial(); ++d) {
    const auto in = c.x.size(static_cast<int64_t>(d) + 2).expr().maybe_constant(), extra = c.extra[d].maybe_constant();
    if (!in || !extra) return std::nullopt;
    e.in.push_back(*in);
    e.out.push_back((*in - 1) * c.stride[d] - 2 * c.padding[d] + (c.kernel(d) - 1) * c.dilation[d] + *extra + 1);
  }
  return c.x.size(0).expr().is_const() ? std::optional(e) : std::nullopt;
}

// Whether a convolution for each phase does so much less than one of all of them, whose weights are zeros in part, that several launches
// and reading the images as often are worth it.
bool is_better_apart(const Convolution& c, const Extents& e) {
  constexpr int64_t kLeastResults = 32;  // of few channels, those of all phases fill a tile together
  if (c.spatial() != 2 || c.groups != 1) return false;
  if (c.least_saved > 0 && c.weight.size(1) < SymInt(kLeastResults)) return false;
  int64_t slots = 1, taps = 1;
  for (size_t d = 0; d < 2; ++d) {
    for (int64_t r = 0; r < c.stride[d]; ++r)
      if (phase_of(c, d, r).taps == 0) return false;
    slots *= phases_of(c, d).taps * c.stride[d];
    taps *= c.kernel(d);
  }
  const auto images = static_cast<double>(static_cast<int64_t>(c.x.size(0))),
             in = static_cast<double>(static_cast<int64_t>(c.weight.size(0))),
             out = static_cast<double>(static_cast<int64_t>(c.weight.size(1)));
  return 2 * images * in * out * static_cast<double>(e.in[0] * e.in[1] * (slots - taps)) >= c.least_saved && slots > taps;
}

Tensor convolve_each_phase(const Convolution& c, const Extents& e) {
  Ints places;
  for (size_t d = 0; d < 2; ++d) places.push_back((e.out[d] + c.stride[d] - 1) / c.stride[d]);
  std::vector<Tensor> results;
  for (int64_t r = 0; r < c.stride[0] * c.stride[1]; ++r) {
    const Phase phases[] = {phase_of(c, 0, r / c.stride[1]), phase_of(c, 1, r % c.stride[1])};
    Convolution plain = c;
    plain.transposed = false;
    plain.weight = arranged(c.weight, [&](Tensor w) {
      for (size_t d = 0; d < 2; ++d) {
        const Expr at(static_cast<int64_t>(d) + 2);
        w = call1("slice.Tensor", {w, at, Expr(phases[d].first), Expr(c.kernel(d)), Expr(phases[d].every)});
        if (phases[d].taps > 1) w = call1("flip", {w, Sizes{at}});
      }
      return permute(w, {1, 0, 2, 3});
    });
    Ints first(2);
    for (size_t d = 0; d < 2; ++d) {
      const int64_t before = -phases[d].low, last = phases[d].low + (phases[d].taps - 1) * phases[d].step + places[d] - 1;
      plain.stride[d] = 1;
      plain.padding[d] = std::max({int64_t{0}, before, last - (e.in[d] - 1)});
      plain.dilation[d] = phases[d].step;
      plain.extra[d] = 0;
      first[d] = plain.padding[d] - before;
    }
    Tensor y = convolve(plain);
    for (size_t d = 0; d < 2; ++d) {
      const auto at = static_cast<int64_t>(d) + 2;
      if (first[d] != 0 || !(y.size(at).expr() == Expr(places[d])))
        y = call1("slice.Tensor", {y, Expr(at), Expr(first[d]), Expr(first[d] + places[d])});
    }
    results.push_back(y);
  }
  Tensor y = call1("prims.interleave", {std::move(results), Expr(c.stride[0]), Expr(c.stride[1])});
  for (size_t d = 0; d < 2; ++d)
    if (places[d] * c.stride[d] != e.out[d]) y = call1("slice.Tensor", {y, Expr(static_cast<int64_t>(d) + 2), Expr(0), Expr(e.out[d])});
  return y;
}

Tensor convolve_transposed(const Convolution& c) {
  if (const auto known = known_extents(c); known && is_better_apart(c, *known)) return convolve_each_phase(c, *known);
  const auto type = sizes_of(c.x);
  const int64_t out = static_cast<int64_t>(c.weight.size(1));
  std::vector<Phases> phases;
  int64_t count = 1;
  for (size_t d = 0; d < c.spatial(); ++d) {
    phases.push_back(phases_of(c, d));
    count *= phases[d].stride;
  }
  Convolution plain = c;
  plain.transposed = false;
  plain.weight = arranged(c.weight, [&](const Tensor& t) { return weight_of_phases(t, c, phases); });
  plain.bias = arranged(c.bias, [&](const Tensor& t) {
    const Sizes each = {Expr(c.groups), Expr(count), Expr(out)};
    return reshape(call1("expand", {reshape(t, {each[0], 1, each[2]}), each}), {each[0] * each[1] * each[2]});
  });
  for (size_t d = 0; d < c.spatial(); ++d) {
    plain.stride[d] = 1;
    plain.padding[d] = phases[d].padding;
    plain.dilation[d] = phases[d].step;
    plain.extra[d] = 0;
  }
  Tensor y = convolve(plain);
  if (count > 1) {  // phases stand between the places
    Sizes split = {type[0], Expr(c.groups)}, joined = {type[0], Expr(c.groups * out)};
    for (auto& p : phases) split.push_back(p.stride);
    split.push_back(out);
    const auto n = static_cast<int64_t>(c.spatial());
    Ints order = {0, 1, n + 2};
    for (int64_t d = 0; d < n; ++d) {
      const Expr places = y.size(d + 2).expr();
      split.push_back(places);
      joined.push_back(places * Expr(phases[static_cast<size_t>(d)].stride));
      order.insert(order.end(), {n + 3 + d, d + 2});
    }
    y = reshape(permute(reshape(y, split), order), joined);
  }
  for (size_t d = 0; d < c.spatial(); ++d) {
    const Expr size =
        (type[d + 2] - 1) * Expr(c.stride[d]) - Expr(2 * c.padding[d]) + Expr((c.kernel(d) - 1) * c.dilation[d]) + c.extra[d] + 1;
    const auto at = static_cast<int64_t>(d) + 2;
    if (phases[d].first == 0 && y.size(at).expr() == size) continue;
    y = call1("slice.Tensor", {y, Expr(at), Expr(phases[d].first), Expr(phases[d].first) + size});
  }
  return y;
}

Tensor convolve(const Convolution& c) {
  if (c.spatial() == 1) return convolve_line(c);
  if (c.transposed) return convolve_transposed(c);
  if (c.spatial() == 3) return convolve_frames(c);
  return call1("convolution", {c.x, c.weight, c.bias.defined() ? Arg<Tensor>(c.bias) : Arg<Tensor>(), exprs(c.stride), exprs(c.padding),
                               exprs(c.dilation), false, c.extra, Expr(c.groups)});
}

// Whether the phases' weights are mostly zeros, which take time and memory even when compiling.
bool is_mostly_zeros(const ops::TypeReader& r, const TensorType& w) {
  constexpr int64_t kMost = 4;  // times the weights
  const Ints stride = r.integers("stride"), dilation = r.integers("dilation");
  int64_t taps = 1, places = 1;
  for (size_t d = 0; d < stride.size(); ++d) {
    const int64_t kernel = w.sizes[d + 2].constant(), reach = (kernel - 1) * dilation[d] + 1;
    taps *= kernel, places *= (reach + stride[d] - 1) / stride[d] * stride[d];
  }
  return places > kMost * taps;
}

// Loops remain for dtypes that no template takes, for weights whose sizes only the run tells, for nothing at all, for transposed ones that
// leave most of their result alone, and for videos with a filter a channel, where the taps of all frames are few.
bool is_rewritten(const Node& n) {
  if (n.op->name != "convolution") return false;
  const auto types = type_args(n);
  const ops::TypeReader r(*n.op, types);
  const TensorType &x = *r.tensor("input"), &w = *r.tensor("weight"), &y = n.results[0]->type;
  const bool transposed = r.flag("transposed");
  if (x.dim() == 4 && !transposed) return false;
  if (x.dtype != DType::F32 && !is_half(x.dtype)) return false;
  for (auto* t : {&x, &w, &y})
    for (auto& s : t->sizes)
      if (s.maybe_constant() == 0) return false;
  for (auto& s : w.sizes)
    if (!s.is_const()) return false;
  if (transposed && is_mostly_zeros(r, w)) return false;
  return x.dim() != 5 || transposed || r.integer("groups") == 1 || !(w.sizes[1] == Expr(1));
}

}  // namespace

std::unique_ptr<Graph> plain_convolutions(const Graph& g) { return plain_convolutions_saving(g, std::numeric_limits<double>::infinity()); }

// For GPUs: on CPUs, which take as long for a window of few taps as for one of zeros besides, nothing is gained.
std::unique_ptr<Graph> plain_convolutions_apart(const Graph& g) {
  constexpr double kLeastSaved = 4e9;
  return plain_convolutions_saving(g, kLeastSaved);
}

std::unique_ptr<Graph> plain_convolutions_saving(const Graph& g, double least) {
  if (std::none_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return is_rewritten(*n); })) return nullptr;
  Rebuild out(g);
  auto operand = [&](const Node& n, const char* name, bool known) -> Tensor {
    auto* v = std::get_if<Value*>(&n.args[static_cast<size_t>(n.op->schema.find(name))]);
    if (!v || !*v) return {};
    for (size_t i = 0; known && i < g.inputs.size(); ++i) {  // the contents of a constant that nothing writes
      const Input& in = g.inputs[i];
      if (in.value != *v || in.kind != InputKind::Constant || !in.data.defined()) continue;
      if (std::none_of(g.outputs.begin(), g.outputs.end(), [&](auto& o) { return o.mutates == static_cast<int>(i); })) return in.data;
    }
    return out.at(*v);
  };
  for (auto& n : g.nodes) {
    if (!is_rewritten(*n)) {
      out.copy(*n);
      continue;
    }
    const auto types = type_args(*n);
    const ops::TypeReader r(*n->op, types);
    const bool transposed = r.flag("transposed"), known = transposed || r.tensor("input")->dim() == 5;
    Convolution c{operand(*n, "input", false),
                  operand(*n, "weight", known),
                  operand(*n, "bias", transposed),
                  r.integers("stride"),
                  r.integers("padding"),
                  r.integers("dilation"),
                  r.exprs("output_padding"),
                  r.integer("groups"),
                  transposed,
                  least};
    out.replace(*n, [&] { return std::vector<Tensor>{convolve(c)}; });
  }
  return out.finish();
}

}  // namespace toroid::graph
