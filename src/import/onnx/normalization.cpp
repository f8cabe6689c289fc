// Normalizations by statistics, and dropout.
#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

Sizes sizes_from(const Tensor& x, int64_t axis) {
  Sizes s = sizes_of(x);
  return {s.begin() + axis, s.end()};
}

void batch_normalization(OpCall& c) {
  Tensor x = c.in(0), scale = c.in(1), bias = c.in(2), mean = c.in(3), var = c.in(4);
  double eps = c.real("epsilon", 1e-5), momentum = c.real("momentum", 0.9);
  TOROID_USER_CHECK(c.version() >= 9 || c.integer("spatial", 1) == 1, "statistics of each position (spatial = 0) are not supported");
  bool training = c.version() >= 14 ? c.integer("training_mode", 0) != 0 : c.version() < 7 && c.integer("is_test", 0) == 0 && c.wants(1);
  if (!training) {
    c.set(0, op("batch_norm", x, scale, bias, mean, var, false, 0.0, eps, false));
    return;
  }
  std::vector<int64_t> axes = {0};
  for (int64_t d = 2; d < rank_of(x); ++d) axes.push_back(d);
  auto both = op_all("var_mean.correction", x, axes, 0, false);
  auto mixed = [&](const Tensor& old, const Tensor& now) {
    return op("add.Tensor", op("mul.Tensor", old, momentum), op("mul.Tensor", now, 1 - momentum));
  };
  c.set(0, op("batch_norm", x, scale, bias, both[1], both[0], false, 0.0, eps, false));
  c.set(1, mixed(mean, both[1]));
  c.set(2, mixed(var, both[0]));
}

void instance_normalization(OpCall& c) {
  c.set(0, op("instance_norm", c.in(0), c.in(1), c.in(2), kNone, kNone, true, 0.0, c.real("epsilon", 1e-5), false));
}

void layer_normalization(OpCall& c) {
  Tensor x = c.in(0);
  c.ignore({"stash_type"});  // what is narrower than f32 is computed in f32 anyway
  auto axis = normal_axis(c.integer("axis", -1), rank_of(x));
  double eps = c.real("epsilon", 1e-5);
  Arg<Tensor> bias = c.has(2) ? Arg<Tensor>(c.in(2)) : kNone;
  c.set(0, op("layer_norm", x, sizes_from(x, axis), c.in(1), bias, eps));
  if (!c.wants(1) && !c.wants(2)) return;
  auto both = op_all("var_mean.correction", cast(x, DType::F32), range(axis, rank_of(x)), 0, true);
  c.set(1, both[1]);
  c.set(2, op("rsqrt", op("add.Tensor", both[0], eps)));
}

void rms_normalization(OpCall& c) {
  Tensor x = c.in(0);
  c.ignore({"stash_type"});
  auto axis = normal_axis(c.integer("axis", -1), rank_of(x));
  c.set(0, op("rms_norm", x, sizes_from(x, axis), c.in(1), c.real("epsilon", 1e-5)));
}

void group_normalization(OpCall& c) {
  c.ignore({"stash_type"});
  Tensor x = c.in(0), scale = c.in(1), bias = c.in(2);
  int64_t groups = c.integer("num_groups");
  TOROID_USER_CHECK(groups > 0, "the attribute \"num_groups\" is {}", groups);
  if (c.version() < 21) {  // of each group; then of each channel
    int64_t each = known_size(sizes_of(x)[1], "the number of channels") / groups;
    scale = op("repeat_interleave.self_int", scale, each, 0);
    bias = op("repeat_interleave.self_int", bias, each, 0);
  }
  c.set(0, op("group_norm", x, groups, scale, bias, c.real("epsilon", 1e-5), false));
}

// Each element over a power of the squares of its neighbours among the channels.
void local_response(OpCall& c) {
  Tensor x = c.in(0);
  int64_t size = c.integer("size");
  Sizes s = sizes_of(x);
  TOROID_USER_CHECK(s.size() >= 3 && size > 0, "a tensor of at least 3 dimensions and a positive size are expected");
  Sizes flat = {s[0], 1, s[1], numel_of(x)};
  flat[3] = 1;
  for (size_t d = 2; d < s.size(); ++d) flat[3] *= s[d];
  Sizes widths = {0, 0, (size - 1) / 2, size - 1 - (size - 1) / 2};
  Tensor squares = op("constant_pad_nd", reshape(op("mul.Tensor", x, x), flat), widths, 0);
  Tensor means = reshape(op("avg_pool2d", squares, std::vector<int64_t>{size, 1}, std::vector<int64_t>{1, 1}), s);
  Tensor base = op("add.Tensor", op("mul.Tensor", means, c.real("alpha", 1e-4)), c.real("bias", 1));
  c.set(0, op("div.Tensor", x, op("pow.Tensor_Scalar", base, c.real("beta", 0.75))));
}

void mean_variance(OpCall& c) {
  Tensor x = c.in(0);
  auto axes = c.has_attribute("axes") ? normal_axes(c.integers("axes"), rank_of(x)) : std::vector<int64_t>{0, 2, 3};
  auto both = op_all("var_mean.correction", x, axes, 0, true);
  Tensor deviation = op("add.Tensor", op("sqrt", both[0]), 1e-9);
  c.set(0, op("div.Tensor", op("sub.Tensor", x, both[1]), deviation));
}

void lp_normalization(OpCall& c) {
  Tensor x = c.in(0);
  auto axis = normal_axis(c.integer("axis", -1), rank_of(x));
  auto p = static_cast<double>(c.integer("p", 2));
  Tensor norm = op("linalg_vector_norm", x, p, std::vector<int64_t>{axis}, true);
  // Of nothing but zeros: zero.
  c.set(0, op("div.Tensor", x, op("where.ScalarSelf", op("eq.Scalar", norm, 0.0), 1.0, norm)));
}

// The rule of versions before 12 is an attribute, "training_mode" an input of the later ones.
void dropout(OpCall& c) {
  Tensor x = c.in(0);
  double ratio = c.version() < 12 ? c.real("ratio", 0.5) : 0.5;
  bool training = c.version() < 7 && c.integer("is_test", 0) == 0;
  if (c.version() >= 12) {
    if (c.has(1)) ratio = c.real_number(1);
    training = c.has(2) && c.real_number(2) != 0;
  }
  DType mask_type = c.version() >= 10 ? DType::Bool : x.dtype();
  if (!training || ratio == 0) {
    c.set(0, x);
    if (c.wants(1)) c.set(1, op("full", sizes_of(x), 1, mask_type));
    return;
  }
  auto both = op_all("native_dropout", x, ratio, true);
  c.set(0, both[0]);
  if (c.wants(1)) c.set(1, cast(both[1], mask_type));
}

}  // namespace

void add_normalization_operators(Operators& t) {
  t.add("BatchNormalization", 1, batch_normalization);
  t.add("InstanceNormalization", 1, instance_normalization);
  // ONNX Runtime writes the first two into this domain whatever its version.
  t.add("LayerNormalization", 1, layer_normalization);
  t.add("SimplifiedLayerNormalization", 1, rms_normalization);
  t.add("RMSNormalization", 23, rms_normalization);
  t.add("GroupNormalization", 18, group_normalization);
  t.add("LRN", 1, local_response);
  t.add("MeanVarianceNormalization", 9, mean_variance);
  t.add("LpNormalization", 1, lp_normalization);
  t.add("Dropout", 1, dropout);
}

}  // namespace toroid::import::onnx
