// Random tensors: `prims.rand_uniform` and `prims.rand_normal` are the two primitives, the rest is made of them. Each draws the next
// numbers of the process's stream, one an element; their forms with a state are told where the stream is, and are pure.
#include "toroid/random.h"

#include <cmath>

#include "base/check.h"
#include "ops/rows/creation.h"
#include "ops/rows/forms.h"

namespace toroid::ops {
namespace {

void random_meta(MetaCall& c) {
  auto sizes = c.exprs("size");
  for (auto& s : sizes) c.require({sym::Rel::Ge, s, 0}, "{}: a size is {}; sizes must not be negative", c.op().name, sym::to_string(s));
  c.result(DType::F32, std::move(sizes));
}

void random_state_meta(MetaCall& c) {
  const TensorType& state = *c.tensor("state");
  TOROID_USER_CHECK(state.dtype == DType::I64 && state.sizes.size() == 1 && state.sizes[0] == Expr(2),
                    "{}: the state must be i64[2] (seed and offset), it is {}", c.op().name, to_string(state));
  random_meta(c);
}

using Draw = double (*)(int64_t key, int64_t offset);

void draw(Draw fn, Tensor& out, int64_t key, int64_t offset) {
  auto* p = out.data<float>();
  for (int64_t i = 0, n = out.numel(); i < n; ++i) p[i] = static_cast<float>(fn(key, offset + i));
}

// Seeds and offsets wrap around.
int64_t sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

template <Draw kDraw>
void random_kernel(KernelCall& c) {
  Generator::State at = default_generator().take(c.outputs[0].numel());
  draw(kDraw, c.outputs[0], sum(at.seed, c.integer("stream")), at.offset);
}

template <Draw kDraw>
void random_state_kernel(KernelCall& c) {
  Tensor state = c.tensor("state").contiguous();
  const int64_t* at = state.data<int64_t>();
  draw(kDraw, c.outputs[0], sum(at[0], c.integer("stream")), sum(at[1], c.integer("offset")));
}

Tensor uniform(std::vector<Expr> sizes) { return call1("prims.rand_uniform", {std::move(sizes), Expr(0)}); }
Tensor normal(std::vector<Expr> sizes) { return call1("prims.rand_normal", {std::move(sizes), Expr(0)}); }
Tensor to(const Tensor& x, DType t) { return x.dtype() == t ? x : call1("_to_copy", {x, t}); }
Tensor add(const Tensor& a, Arg<Tensor> b) { return call1("add.Tensor", {a, std::move(b)}); }
Tensor mul(const Tensor& a, Arg<Tensor> b) { return call1("mul.Tensor", {a, std::move(b)}); }
// log(1 - u) for a uniform u in [0, 1): never infinite.
Tensor log_uniform(std::vector<Expr> sizes) { return call1("log1p", {call1("neg", {uniform(std::move(sizes))})}); }

void add_primitive_rows(Table& t) {
  t.primitive("prims.rand_uniform(SymInt[] size, *, int stream) -> Tensor", random_meta, random_kernel<random_uniform>).random = true;
  t.primitive("prims.rand_normal(SymInt[] size, *, int stream) -> Tensor", random_meta, random_kernel<random_normal>).random = true;
  t.primitive("prims.rand_uniform.state(Tensor state, SymInt[] size, *, SymInt offset, int stream) -> Tensor", random_state_meta,
              random_state_kernel<random_uniform>);
  t.primitive("prims.rand_normal.state(Tensor state, SymInt[] size, *, SymInt offset, int stream) -> Tensor", random_state_meta,
              random_state_kernel<random_normal>);
}

void composite(Table& t, std::string_view schema, Decompose decompose) { t.composite(schema, decompose).random = true; }

// Behind the last integer that is drawn where nobody says one.
int64_t end_of_integers(DType t) {
  if (is_bool(t)) return 2;
  const int64_t bits = !is_int(t) ? 24 : static_cast<int64_t>(8 * size_of(t)) - (name_of(t)[0] == 'u' ? 0 : 1);
  return int64_t{1} << std::min<int64_t>(bits, 24);
}

// Integers from lo up to but without hi.
Tensor integers(const CallReader& c, std::vector<Expr> sizes, const Expr& lo, const Expr& hi, DType dtype) {
  TOROID_USER_CHECK(lo.is_const() && hi.is_const(), "{}: the bounds must be known when compiling", c.op().name);
  TOROID_USER_CHECK(lo.constant() < hi.constant(), "{}: the lower bound {} is not below the upper bound {}", c.op().name, lo.constant(),
                    hi.constant());
  if (is_int(dtype) && size_of(dtype) < 8) {
    const bool is_signed = name_of(dtype)[0] != 'u';
    const int64_t count = int64_t{1} << (8 * size_of(dtype)), least = is_signed ? -count / 2 : 0, end = least + count;
    TOROID_USER_CHECK(lo.constant() >= least && hi.constant() <= end, "{}: {} holds no numbers from {} up to {}", c.op().name,
                      name_of(dtype), lo.constant(), hi.constant() - 1);
  }
  double low = static_cast<double>(lo.constant()), width = static_cast<double>(hi.constant()) - low;
  // In double: a product of f32 may round up to the bound itself.
  Tensor steps = call1("floor", {mul(to(uniform(std::move(sizes)), DType::F64), width)});
  return to(add(steps, low), dtype);
}

void add_uniform_rows(Table& t) {
  auto rand = [](const CallReader& c) -> std::vector<Tensor> {
    return {to(uniform(c.exprs("size")), c.dtype("dtype").value_or(DType::F32))};
  };
  auto randn = [](const CallReader& c) -> std::vector<Tensor> {
    return {to(normal(c.exprs("size")), c.dtype("dtype").value_or(DType::F32))};
  };
  composite(t, fmt::format("rand(SymInt[] size, *, {}) -> Tensor", kCreationOptions), rand);
  composite(t, fmt::format("rand.generator(SymInt[] size, *, Generator? generator=None, {}) -> Tensor", kCreationOptions), rand);
  composite(t, fmt::format("randn(SymInt[] size, *, {}) -> Tensor", kCreationOptions), randn);
  composite(t, fmt::format("randn.generator(SymInt[] size, *, Generator? generator=None, {}) -> Tensor", kCreationOptions), randn);
  composite(t, fmt::format("rand_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions),
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {to(uniform(sizes_of(x)), c.dtype("dtype").value_or(x.dtype()))};
            });
  composite(t, fmt::format("randn_like(Tensor self, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions),
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {to(normal(sizes_of(x)), c.dtype("dtype").value_or(x.dtype()))};
            });
}

void add_integer_rows(Table& t) {
  auto below = [](const CallReader& c) -> std::vector<Tensor> {
    return {integers(c, c.exprs("size"), 0, c.expr("high"), c.dtype("dtype").value_or(DType::I64))};
  };
  auto between = [](const CallReader& c) -> std::vector<Tensor> {
    return {integers(c, c.exprs("size"), c.expr("low"), c.expr("high"), c.dtype("dtype").value_or(DType::I64))};
  };
  composite(t, fmt::format("randint(SymInt high, SymInt[] size, *, {}) -> Tensor", kCreationOptions), below);
  composite(t, fmt::format("randint.generator(SymInt high, SymInt[] size, *, Generator? generator, {}) -> Tensor", kCreationOptions),
            below);
  composite(t, fmt::format("randint.low(SymInt low, SymInt high, SymInt[] size, *, {}) -> Tensor", kCreationOptions), between);
  composite(
      t,
      fmt::format("randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, {}) -> Tensor", kCreationOptions),
      between);
  composite(t, fmt::format("randint_like(Tensor self, SymInt high, *, {}, MemoryFormat? memory_format=None) -> Tensor", kCreationOptions),
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {integers(c, sizes_of(x), 0, c.expr("high"), c.dtype("dtype").value_or(x.dtype()))};
            });
  composite(t,
            fmt::format("randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, {}, MemoryFormat? memory_format=None) -> Tensor",
                        kCreationOptions),
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {integers(c, sizes_of(x), c.expr("low"), c.expr("high"), c.dtype("dtype").value_or(x.dtype()))};
            });
  composite(t, "random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {integers(c, sizes_of(x), c.expr("from"), c.opt_expr("to").value_or(Expr(end_of_integers(x.dtype()))), x.dtype())};
            });
  composite(t, "random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    return {integers(c, sizes_of(x), 0, c.expr("to"), x.dtype())};
  });
  auto permutation = [](const CallReader& c) -> std::vector<Tensor> {
    Tensor order = call("sort", {uniform({c.expr("n")}), Expr(0), false})[1];
    return {to(order, c.dtype("dtype").value_or(DType::I64))};
  };
  composite(t, fmt::format("randperm(SymInt n, *, {}) -> Tensor", kCreationOptions), permutation);
  composite(t, fmt::format("randperm.generator(SymInt n, *, Generator? generator, {}) -> Tensor", kCreationOptions), permutation);
}

// "normal: std": what an operand is, in errors.
std::string subject(const CallReader& c, std::string_view what) { return fmt::format("{}: {}", plain_name(c.op()), what); }

// One draw for each element, true with the probability `p` (a number or a tensor).
Tensor coin(std::vector<Expr> sizes, Arg<Tensor> p) {
  bool tensor = std::holds_alternative<Tensor>(p);
  return call1(tensor ? "lt.Tensor" : "lt.Scalar", {uniform(std::move(sizes)), std::move(p)});
}

void check_probability(const CallReader& c, const char* name) {
  double p = c.real(name);
  TOROID_USER_CHECK(p >= 0 && p <= 1, "{}: the probability \"{}\" must be in 0..1, it is {}", c.op().name, name, p);
}

Tensor probabilities(const CallReader& c, const Tensor& p) {
  TOROID_USER_CHECK(is_float(p.dtype()), "{}: expected probabilities of a float dtype, got {}", c.op().name, name_of(p.dtype()));
  return forms::checked_values(p, subject(c, "a probability"), ValueRule::Probability);
}

// A parameter that must be above 0, or at least that.
double positive(const CallReader& c, const char* name, bool or_zero = false) {
  const double v = c.real(name);
  TOROID_USER_CHECK(v > 0 || (or_zero && v == 0), "{}: {} must {}, it is {}", plain_name(c.op()), name,
                    or_zero ? "not be negative" : "be positive", v);
  return v;
}
Arg<Tensor> deviation(const CallReader& c) {
  if (auto* x = std::get_if<Tensor>(&c.at("std"))) return forms::checked_values(*x, subject(c, "std"), ValueRule::NotNegative);
  return positive(c, "std", true);
}

// mean + std * normal of the sizes that both broadcast to; either may be a number.
std::vector<Tensor> normal_around(const CallReader& c) {
  Tensor base;
  for (const char* name : {"mean", "std"})
    if (auto* x = std::get_if<Tensor>(&c.at(name))) base = base.defined() ? add(base, *x) : *x;
  const auto factor = deviation(c);
  Tensor scaled = mul(to(normal(sizes_of(base)), base.dtype()), factor);
  return {add(scaled, c.at("mean"))};
}

std::vector<Tensor> normal_like(const CallReader& c) {
  Tensor x = c.tensor("self");
  return {to(add(mul(normal(sizes_of(x)), positive(c, "std", true)), c.real("mean")), x.dtype())};
}

void add_distribution_rows(Table& t) {
  composite(t, "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    return {to(coin(sizes_of(x), probabilities(c, x)), x.dtype())};
  });
  for (const char* overload : {"p", "float"})
    composite(t, fmt::format("bernoulli.{}(Tensor self, float p=0.5, *, Generator? generator=None) -> Tensor", overload),
              [](const CallReader& c) -> std::vector<Tensor> {
                Tensor x = c.tensor("self");
                check_probability(c, "p");
                return {to(coin(sizes_of(x), c.real("p")), x.dtype())};
              });
  composite(t, "bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {to(coin(sizes_of(x), probabilities(c, c.tensor("p"))), x.dtype())};
            });
  composite(t, "normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor", normal_around);
  composite(t, "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor", normal_around);
  composite(t, "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", normal_around);
  composite(
      t,
      fmt::format("normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, {}) -> Tensor", kCreationOptions),
      [](const CallReader& c) -> std::vector<Tensor> {
        return {to(add(mul(normal(c.exprs("size")), positive(c, "std", true)), c.real("mean")), c.dtype("dtype").value_or(DType::F32))};
      });
  composite(t, "normal(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor", normal_like);
  composite(t, "normal_functional(Tensor self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor", normal_like);
  composite(t, "log_normal(Tensor self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {to(call1("exp", {add(mul(normal(sizes_of(x)), positive(c, "std")), c.real("mean"))}), x.dtype())};
            });
  composite(t, "uniform(Tensor self, float from=0, float to=1, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              double lo = c.real("from"), hi = c.real("to");
              TOROID_USER_CHECK(lo <= hi && std::isfinite(hi - lo), "uniform: expected finite bounds, the lower one first, got {} and {}",
                                lo, hi);
              return {to(add(mul(uniform(sizes_of(x)), hi - lo), lo), x.dtype())};
            });
  composite(t, "exponential(Tensor self, float lambd=1, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              Tensor x = c.tensor("self");
              return {to(mul(log_uniform(sizes_of(x)), -1 / positive(c, "lambd")), x.dtype())};
            });
  composite(t, "cauchy(Tensor self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor",
            [](const CallReader& c) -> std::vector<Tensor> {
              constexpr double kPi = 3.14159265358979323846;
              Tensor x = c.tensor("self");
              Tensor tangent = call1("tan", {mul(add(uniform(sizes_of(x)), -0.5), kPi)});
              return {to(add(mul(tangent, positive(c, "sigma")), c.real("median")), x.dtype())};
            });
  composite(t, "geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("self");
    double p = c.real("p");
    TOROID_USER_CHECK(p > 0 && p < 1, "geometric: p must lie between 0 and 1, it is {}", p);
    Tensor trials = call1("ceil", {mul(log_uniform(sizes_of(x)), 1 / std::log1p(-p))});
    return {to(call1("clamp_min", {trials, 1.0}), x.dtype())};
  });
}

std::vector<Tensor> multinomial(const CallReader& c) {
  Tensor p = c.tensor("self");
  Expr samples = c.expr("num_samples");
  TOROID_USER_CHECK(is_float(p.dtype()) && (p.dim() == 1 || p.dim() == 2),
                    "multinomial: expected one or two dimensions of a float dtype, got {} of {}", p.dim(), name_of(p.dtype()));
  TOROID_USER_CHECK(SymInt(samples) > SymInt(0), "multinomial: {} samples; expected one at least", sym::to_string(samples));
  Expr last(p.dim() - 1), choices = p.size(-1).expr();
  if (is_half(p.dtype())) p = to(p, DType::F32);
  p = forms::checked_values(p, "multinomial: a probability", ValueRule::Weight);
  if (!c.flag("replacement")) {
    TOROID_USER_CHECK(SymInt(samples) <= SymInt(choices), "multinomial: {} samples without replacement from {} choices",
                      sym::to_string(samples), sym::to_string(choices));
    // The order of p / exponential is that of draws without replacement. 2^-30 keeps an exponential of 0 from dividing.
    Tensor waiting = add(call1("neg", {log_uniform(sizes_of(p))}), 0x1p-30);
    Tensor found = call("topk", {call1("div.Tensor", {p, waiting}), samples, last})[1];
    Tensor possible = forms::sum(call1("gt.Scalar", {p, Expr(0)}), {p.dim() - 1}, true);
    return {forms::checked_values(found, possible, "multinomial: probabilities above 0, of which each is drawn once", ValueRule::AtLeast,
                                  samples)};
  }
  Tensor sums = call1("cumsum", {p, last});
  Tensor total = call1("slice.Tensor", {sums, last, choices - 1, choices, Expr(1)});
  auto sizes = sizes_of(p);
  sizes.back() = samples;
  Tensor at = mul(to(uniform(sizes), p.dtype()), total);
  Tensor found = call1("searchsorted.Tensor", {sums, at, false, true});
  found = forms::checked_values(found, total, "multinomial: the sum of probabilities", ValueRule::Total);
  return {call1("clamp_max", {found, choices - 1})};
}

// Elements kept with the probability 1 - p and scaled so that the mean stays; `noise` are the sizes of the draws.
std::vector<Tensor> dropped(const CallReader& c, const Tensor& x, double p, std::vector<Expr> noise) {
  TOROID_USER_CHECK(p >= 0 && p <= 1, "{}: the probability of a drop must be in 0..1, it is {}", c.op().name, p);
  Tensor kept = coin(std::move(noise), 1 - p);
  Tensor y = mul(mul(x, to(kept, x.dtype())), p == 1 ? 0.0 : 1 / (1 - p));
  return {y, kept};
}

bool idle(const CallReader& c, double p) { return !c.flag("train") || p == 0; }

// One draw for each sample and channel.
std::vector<Expr> channel_sizes(const CallReader& c, const Tensor& x) {
  TOROID_USER_CHECK(x.dim() >= 2, "{}: expected at least two dimensions, got {}", c.op().name, x.dim());
  std::vector<Expr> sizes(static_cast<size_t>(x.dim()), Expr(1));
  sizes[0] = x.size(0).expr();
  sizes[1] = x.size(1).expr();
  return sizes;
}

// Dropped elements take the value that the activation selu tends to; scale and shift keep mean and variance.
Tensor alpha_dropped(const CallReader& c, const Tensor& x, std::vector<Expr> noise) {
  constexpr double kAlpha = 1.7580993408473766;
  double p = c.real("p");
  check_probability(c, "p");
  if (p == 1) return mul(x, 0.0);
  double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  Tensor kept = to(coin(std::move(noise), 1 - p), x.dtype());
  Tensor shift = mul(add(kept, -1.0), kAlpha * a);  // -alpha a where dropped
  return add(add(mul(mul(x, kept), a), shift), kAlpha * a * p);
}

void add_dropout_rows(Table& t) {
  composite(t, "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("input");
    if (c.has("train") && !c.flag("train")) return {call1("clone", {x}), filled(sizes_of(x), true, DType::Bool)};
    return dropped(c, x, c.real("p"), sizes_of(x));
  });
  t.composite("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> {
                Tensor g = c.tensor("grad_output");
                return {mul(mul(g, to(c.tensor("mask"), g.dtype())), c.real("scale"))};
              });
  composite(t, "dropout(Tensor input, float p, bool train) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("input");
    if (idle(c, c.real("p"))) return {x};
    return {dropped(c, x, c.real("p"), sizes_of(x))[0]};
  });
  composite(t, "feature_dropout(Tensor input, float p, bool train) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("input");
    if (idle(c, c.real("p"))) return {x};
    return {dropped(c, x, c.real("p"), channel_sizes(c, x))[0]};
  });
  composite(t, "alpha_dropout(Tensor input, float p, bool train) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("input");
    return {idle(c, c.real("p")) ? x : alpha_dropped(c, x, sizes_of(x))};
  });
  composite(t, "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor x = c.tensor("input");
    return {idle(c, c.real("p")) ? x : alpha_dropped(c, x, channel_sizes(c, x))};
  });
}

// The result and the slope of each element.
std::vector<Tensor> rrelu(const CallReader& c) {
  Tensor x = c.tensor("self");
  double lower = c.real("lower"), upper = c.real("upper");
  TOROID_USER_CHECK(lower <= upper, "{}: the lower slope {} is above the upper slope {}", c.op().name, lower, upper);
  if (!c.flag("training")) return {call1("leaky_relu", {x, (lower + upper) / 2}), Tensor()};
  Tensor slope = to(add(mul(uniform(sizes_of(x)), upper - lower), lower), x.dtype());
  Tensor noise = call1("where.ScalarOther", {call1("le.Scalar", {x, 0.0}), slope, 1.0});
  return {mul(x, noise), noise};
}

void add_rrelu_rows(Table& t) {
  composite(
      t,
      "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return {rrelu(c)[0]}; });
  composite(
      t,
      "rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
      "Generator? generator=None) -> (Tensor, Tensor noise_out)",
      [](const CallReader& c) -> std::vector<Tensor> {
        auto results = rrelu(c);
        if (!results[1].defined()) results[1] = c.tensor("noise");
        return results;
      });
}

}  // namespace

void add_random_rows(Table& t) {
  add_primitive_rows(t);
  add_uniform_rows(t);
  add_integer_rows(t);
  add_distribution_rows(t);
  composite(t, "multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", multinomial);
  add_dropout_rows(t);
  add_rrelu_rows(t);
}

}  // namespace toroid::ops
