// Rows of normalisations. Statistics are taken in f32 for half inputs.
#include <limits>

#include "base/check.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

struct Statistics {
  Tensor x;                // input in the compute dtype
  Tensor mean, var, rstd;  // dimensions kept; var is the biased variance
  Tensor normal;           // (x - mean) * rstd
};

Statistics normalise(const Tensor& input, const Sizes& dims, double eps) {
  Statistics s;
  s.x = cast(input, compute_type(input.dtype()));
  const auto moments = call("var_mean.correction", {s.x, dims, Expr(0), true});
  s.var = moments[0], s.mean = moments[1];
  s.rstd = rsqrt(add(s.var, eps));
  s.normal = mul(sub(s.x, s.mean), s.rstd);
  return s;
}

// y * weight + bias, each if present, already laid out to broadcast.
Tensor affine(Tensor y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) y = mul(y, weight);
  if (bias.defined()) y = add(y, bias);
  return y;
}

// One number a channel, laid along dimension 1.
Tensor per_channel(const Tensor& t, const Tensor& like) {
  if (!t.defined()) return t;
  return cast(along(t, 1, like.dim()), compute_type(like.dtype()));
}

// y times the weight of each channel, plus its bias; y is laid out like x.
Tensor channels_affine(const CallReader& c, const Tensor& y, const Tensor& x) {
  const Tensor bias = per_channel(c.opt_tensor("bias"), x), weight = per_channel(c.opt_tensor("weight"), x);
  return affine(y, weight, bias);
}

void check_float(const CallReader& c, const Tensor& x) {
  TOROID_USER_CHECK(is_float(x.dtype()), "{}: the input must have a float dtype, it has {}", c.op().name, name_of(x.dtype()));
}

// ---- layer norm, RMS norm ----

Sizes normalised_dims(const CallReader& c, const Tensor& x) {
  int64_t n = static_cast<int64_t>(c.exprs("normalized_shape").size());
  TOROID_USER_CHECK(n >= 1 && n <= x.dim(), "{}: normalized_shape has {} dimensions, the input {}", c.op().name, n, x.dim());
  const auto shape = c.exprs("normalized_shape");
  for (int64_t d = 0; d < n; ++d) {
    const Expr &given = shape[static_cast<size_t>(d)], size = x.size(x.dim() - n + d).expr();
    require({sym::Rel::Eq, given, size}, "{}: normalized_shape has {} where the input has {}", c.op().name, sym::to_string(given),
            sym::to_string(size));
  }
  return dims_from(x.dim() - n, x.dim());
}

std::vector<Tensor> layer_norm(const CallReader& c) {
  Tensor x = c.tensor("input");
  check_float(c, x);
  Statistics s = normalise(x, normalised_dims(c, x), c.real("eps"));
  Tensor y = cast(affine(s.normal, c.opt_tensor("weight"), c.opt_tensor("bias")), x.dtype());
  return {y, cast(s.mean, x.dtype()), cast(s.rstd, x.dtype())};
}

std::vector<Tensor> rms_norm(const CallReader& c) {
  Tensor input = c.tensor("input");
  check_float(c, input);
  DType compute = compute_type(input.dtype());
  double eps = c.has("eps")            ? c.real("eps")
               : compute == DType::F64 ? std::numeric_limits<double>::epsilon()
                                       : std::numeric_limits<float>::epsilon();
  Tensor x = cast(input, compute);
  Tensor rstd = rsqrt(add(mean(mul(x, x), normalised_dims(c, input), true), eps));
  Tensor y = mul(x, rstd);
  if (Tensor w = c.opt_tensor("weight"); w.defined()) y = mul(y, w);
  return {cast(y, input.dtype()), rstd};
}

// ---- group norm ----

std::vector<Tensor> group_norm_of(const CallReader& c, const Tensor& x, int64_t groups, const Expr& n, const Expr& channels) {
  check_float(c, x);
  TOROID_USER_CHECK(x.dim() >= 2 && groups >= 1,
                    "{}: expected an input of at least 2 dimensions and a positive number of groups, got {} and {}", c.op().name, x.dim(),
                    groups);
  Sizes sizes = sizes_of(x), grouped{n, Expr(groups), sym::floor_div(channels, groups)};
  require({sym::Rel::Eq, sym::mod(channels, groups), 0}, "{}: {} channels are not a multiple of {} groups", c.op().name,
          sym::to_string(channels), groups);
  grouped.insert(grouped.end(), sizes.begin() + 2, sizes.end());
  Statistics s = normalise(reshape(x, grouped), dims_from(2, static_cast<int64_t>(grouped.size())), c.real("eps"));
  Tensor y = channels_affine(c, reshape(s.normal, sizes), x);
  auto statistic = [&](const Tensor& t) { return cast(reshape(t, {n, Expr(groups)}), x.dtype()); };
  return {cast(y, x.dtype()), statistic(s.mean), statistic(s.rstd)};
}

// ---- batch norm ----

struct BatchNorm {
  Tensor y, mean, rstd;              // the statistics have one number a channel
  Tensor running_mean, running_var;  // new ones, undefined when there are none
};

Tensor blend_running(const Tensor& running, const Tensor& batch, double momentum) {
  if (!running.defined()) return running;
  const Tensor statistic = call1("detach", {batch});  // no gradient goes through what is kept between batches
  const Tensor kept = mul(running, 1 - momentum);
  return cast(add(mul(cast(statistic, running.dtype()), momentum), kept), running.dtype());
}

// The variance of a sample of n numbers, from that of the numbers themselves.
Tensor unbiased(const Tensor& variance, const Expr& n) {
  if (!n.is_const()) return div(mul(variance, n), n - 1);
  auto count = static_cast<double>(n.constant());
  return mul(variance, count / (count - 1));
}

BatchNorm train_batch(const CallReader& c, const Tensor& x, const Tensor& running_mean, const Tensor& running_var) {
  check_float(c, x);
  TOROID_USER_CHECK(x.dim() >= 2, "{}: the input must have at least 2 dimensions, it has {}", c.op().name, x.dim());
  Sizes dims{Expr(0)}, sizes = sizes_of(x);
  for (int64_t d = 2; d < x.dim(); ++d) dims.emplace_back(d);
  Statistics s = normalise(x, dims, c.real("eps"));
  BatchNorm r;
  r.y = cast(channels_affine(c, s.normal, x), x.dtype());
  auto flat = [&](const Tensor& t) { return reshape(t, {sizes[1]}); };
  r.mean = flat(s.mean);
  r.rstd = flat(s.rstd);
  if (running_mean.defined()) r.running_mean = blend_running(running_mean, r.mean, c.real("momentum"));
  if (running_var.defined()) {
    Sizes others = sizes;
    others.erase(others.begin() + 1);
    r.running_var = blend_running(running_var, unbiased(flat(s.var), product_of(others)), c.real("momentum"));
  }
  return r;
}

Tensor eval_batch(const CallReader& c, const Tensor& x, const Tensor& running_mean, const Tensor& running_var) {
  check_float(c, x);
  TOROID_USER_CHECK(running_mean.defined() && running_var.defined(), "{}: running_mean and running_var are needed when not training",
                    c.op().name);
  DType compute = compute_type(x.dtype());
  Tensor rstd = rsqrt(add(cast(running_var, compute), c.real("eps")));
  const Tensor factor = along(rstd, 1, x.dim()), mean = per_channel(running_mean, x);
  Tensor y = mul(sub(cast(x, compute), mean), factor);
  return cast(channels_affine(c, y, x), x.dtype());
}

BatchNorm batch_norm_of(const CallReader& c, bool training) {
  Tensor x = c.tensor("input"), mean = c.opt_tensor("running_mean"), var = c.opt_tensor("running_var");
  if (training) {
    BatchNorm r = train_batch(c, x, mean, var);
    r.mean = cast(r.mean, x.dtype());
    r.rstd = cast(r.rstd, x.dtype());
    return r;
  }
  Tensor none = full({Expr(0)}, 0, x.dtype());
  return {eval_batch(c, x, mean, var), none, none, mean, var};
}

// The forms that write new running statistics into their arguments.
std::vector<Tensor> updating(const CallReader& c, bool training) {
  BatchNorm r = batch_norm_of(c, training);
  if (training && r.running_mean.defined()) call1("copy_", {c.tensor("running_mean"), r.running_mean});
  if (training && r.running_var.defined()) call1("copy_", {c.tensor("running_var"), r.running_var});
  return {r.y, r.mean, r.rstd};
}

Tensor reserve() { return full({Expr(0)}, 0, DType::U8); }

std::vector<Tensor> instance_norm(const CallReader& c) {
  Tensor x = c.tensor("input");
  if (!c.flag("use_input_stats")) return {eval_batch(c, x, c.opt_tensor("running_mean"), c.opt_tensor("running_var"))};
  check_float(c, x);
  TOROID_USER_CHECK(x.dim() >= 3, "instance_norm: the input must have at least 3 dimensions, it has {}", x.dim());
  Statistics s = normalise(x, dims_from(2, x.dim()), c.real("eps"));
  auto update = [&](const char* name, const Tensor& statistic) {
    if (!c.has(name)) return;
    Tensor batch_mean = mean(reshape(statistic, {extent(x, 0), extent(x, 1)}), {Expr(0)});
    call1("copy_", {c.tensor(name), blend_running(c.tensor(name), batch_mean, c.real("momentum"))});
  };
  update("running_mean", s.mean);
  if (c.has("running_var")) {
    Sizes sizes = sizes_of(x);
    update("running_var", unbiased(s.var, product_of(Sizes(sizes.begin() + 2, sizes.end()))));
  }
  return {cast(channels_affine(c, s.normal, x), x.dtype())};
}

void add_batch_norm_rows(Table& t) {
  t.composite(
      "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, "
      "float eps, bool cudnn_enabled) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return {updating(c, c.flag("training"))[0]}; });
  t.composite(
      "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float "
      "momentum, float eps) -> (Tensor, Tensor, Tensor)",
      [](const CallReader& c) { return updating(c, c.flag("training")); });
  t.composite(
      "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, bool "
      "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
      [](const CallReader& c) { return updating(c, c.flag("training")); });
  t.composite(
      "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, "
      "Tensor, Tensor)",
      [](const CallReader& c) -> std::vector<Tensor> {
        Tensor x = c.tensor("input");
        BatchNorm r = train_batch(c, x, {}, {});
        return {r.y, cast(r.mean, x.dtype()), cast(r.rstd, x.dtype())};
      });
  t.composite(
      "_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float "
      "momentum, float eps) -> (Tensor, Tensor, Tensor)",
      [](const CallReader& c) -> std::vector<Tensor> {
        BatchNorm r = batch_norm_of(c, false);
        return {r.y, r.mean, r.rstd};
      });
  t.composite(
      "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool "
      "training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
      [](const CallReader& c) -> std::vector<Tensor> {
        BatchNorm r = batch_norm_of(c, c.flag("training"));
        return {r.y, r.mean, r.rstd, r.running_mean, r.running_var};
      });
  t.composite(
      "_batch_norm_with_update_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float "
      "momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
      [](const CallReader& c) -> std::vector<Tensor> {
        BatchNorm r = batch_norm_of(c, true);
        return {r.y, r.mean, r.rstd, reserve(), r.running_mean, r.running_var};
      });
  t.composite(
      "_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float "
      "eps) -> (Tensor, Tensor, Tensor, Tensor)",
      [](const CallReader& c) -> std::vector<Tensor> {
        BatchNorm r = batch_norm_of(c, false);
        return {r.y, r.mean, r.rstd, reserve()};
      });
  t.composite(
      "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, Tensor(b!) running_var, float "
      "momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
      [](const CallReader& c) -> std::vector<Tensor> {
        auto r = updating(c, true);
        r.push_back(reserve());
        return r;
      });
  t.composite(
      "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float "
      "momentum, float eps, bool cudnn_enabled) -> Tensor",
      instance_norm);
}

// ---- norms of weights ----

Tensor norm_except(const Tensor& v, const Operand& power, int64_t dim) {
  Sizes dims;
  for (int64_t d = 0; d < v.dim(); ++d)
    if (d != dim) dims.emplace_back(d);
  if (dims.empty()) return call1("abs", {v});
  return call1("linalg_vector_norm", {v, power, dims, true});
}

std::vector<Tensor> weight_norm(const CallReader& c) {
  Tensor v = c.tensor("v"), g = c.tensor("g");
  int64_t dim = c.integer("dim");
  Tensor norm = dim == -1 ? call1("linalg_vector_norm", {v, 2.0}) : norm_except(v, 2.0, normal_dim(c.op(), dim, v.dim()));
  return {mul(v, div(g, norm)), norm};
}

// Slices along `dim` whose norm exceeds maxnorm are scaled down to it.
std::vector<Tensor> renorm(const CallReader& c) {
  Tensor x = c.tensor("self");
  TOROID_USER_CHECK(x.dim() >= 2, "renorm: the input must have at least 2 dimensions, it has {}", x.dim());
  double limit = c.real("maxnorm");
  Tensor norm = norm_except(cast(x, compute_type(x.dtype())), c.real("p"), normal_dim(c.op(), c.integer("dim"), x.dim()));
  const Tensor one = full({}, 1, norm.dtype()), shrink = mul(call1("reciprocal", {add(norm, 1e-7)}), limit);
  const Tensor factor = where(call1("gt.Scalar", {norm, limit}), shrink, one);
  return {cast(mul(x, factor), x.dtype())};
}

}  // namespace

void add_norm_rows(Table& t) {
  t.composite(
      "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
      "cudnn_enable=True) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return {layer_norm(c)[0]}; });
  t.composite(
      "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
      layer_norm);
  t.composite("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {rms_norm(c)[0]}; });
  t.composite("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)", rms_norm);
  t.composite(
      "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> "
      "Tensor",
      [](const CallReader& c) -> std::vector<Tensor> {
        Tensor x = c.tensor("input");
        TOROID_USER_CHECK(x.dim() >= 2, "group_norm: the input must have at least 2 dimensions, it has {}", x.dim());
        return {group_norm_of(c, x, c.integer("num_groups"), extent(x, 0), extent(x, 1))[0]};
      });
  t.composite(
      "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, "
      "Tensor, Tensor)",
      [](const CallReader& c) { return group_norm_of(c, c.tensor("input"), c.integer("group"), c.expr("N"), c.expr("C")); });
  add_batch_norm_rows(t);
  t.composite("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {weight_norm(c)[0]}; });
  t.composite("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weight_norm);
  t.composite("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor v = c.tensor("v");
    int64_t dim = c.integer("dim");
    double power = static_cast<double>(c.integer("pow"));
    return {dim == -1 ? call1("linalg_vector_norm", {v, power}) : norm_except(v, power, normal_dim(c.op(), dim, v.dim()))};
  });
  t.composite("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm);
}

}  // namespace toroid::ops
