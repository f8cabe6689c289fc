// Activations, and normalizations of one axis by exponentials.
#include "base/check.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {
namespace {

void leaky_relu(OpCall& c) { c.set(0, op("leaky_relu", c.in(0), c.real("alpha", 0.01))); }
void elu(OpCall& c) { c.set(0, op("elu", c.in(0), c.real("alpha", 1))); }
void celu(OpCall& c) { c.set(0, op("celu", c.in(0), c.real("alpha", 1))); }

void selu(OpCall& c) {
  bool early = c.version() < 6;
  double alpha = c.real("alpha", early ? 1.6732 : 1.67326319217681884765625),
         gamma = c.real("gamma", early ? 1.0507 : 1.05070102214813232421875);
  c.set(0, op("elu", c.in(0), alpha, gamma, 1.0));
}

void thresholded_relu(OpCall& c) {
  double alpha = c.real("alpha", 1);
  c.set(0, op("threshold", c.in(0), alpha, 0.0));
}

void hard_sigmoid(OpCall& c) {
  Tensor x = op("add.Tensor", op("mul.Tensor", c.in(0), c.real("alpha", 0.2)), c.real("beta", 0.5));
  c.set(0, op("clamp", x, 0.0, 1.0));
}

void softplus(OpCall& c) {
  Tensor x = c.in(0);
  // log(1 + exp(x)) without overflow, and without the threshold of PyTorch's function.
  Tensor tail = op("log1p", op("exp", op("neg", op("abs", x))));
  c.set(0, op("add.Tensor", op("relu", x), tail));
}

void softsign(OpCall& c) {
  Tensor x = c.in(0);
  c.set(0, op("div.Tensor", x, op("add.Tensor", op("abs", x), 1.0)));
}

void prelu(OpCall& c) {
  Tensor x = c.in(0), slope = c.in(1);
  // Before version 7 the slopes were those of the channels.
  if (c.version() < 7 && rank_of(slope) == 1 && rank_of(x) > 2) slope = along_axis(slope, 1, rank_of(x));
  c.set(0, op("where.self", op("lt.Scalar", x, 0.0), op("mul.Tensor", x, slope), x));
}

void shrink(OpCall& c) {
  Tensor x = c.in(0);
  double bias = c.real("bias", 0), lambda = c.real("lambd", 0.5);
  Tensor zero = op("full_like", x, 0.0);
  Tensor above = op("where.self", op("gt.Scalar", x, lambda), op("sub.Tensor", x, bias), zero);
  c.set(0, op("where.self", op("lt.Scalar", x, -lambda), op("add.Tensor", x, bias), above));
}

Tensor swish_of(const Tensor& x, double alpha) {
  return alpha == 1 ? op("silu", x) : op("mul.Tensor", x, op("sigmoid", op("mul.Tensor", x, alpha)));
}
void swish(OpCall& c) { c.set(0, swish_of(c.in(0), c.real("alpha", 1))); }
void swiglu(OpCall& c) { c.set(0, op("mul.Tensor", swish_of(c.in(0), c.real("alpha", 1)), c.in(1))); }

void gelu(OpCall& c) { c.set(0, op("gelu", c.in(0), c.text("approximate", "none"))); }

// Until version 12: over all dimensions from "axis" on, as if they were one.
template <OpName name>
void flat_softmax(OpCall& c) {
  Tensor x = c.in(0);
  Sizes sizes = sizes_of(x);
  auto axis = normal_axis(c.integer("axis", 1), rank_of(x));
  Expr rows = 1, columns = 1;
  for (int64_t d = 0; d < rank_of(x); ++d) (d < axis ? rows : columns) *= sizes[static_cast<size_t>(d)];
  bool is_last = axis == rank_of(x) - 1;
  c.set(0, is_last ? op(name.text, x, axis) : reshape(op(name.text, reshape(x, {rows, columns}), 1), sizes));
}

template <OpName name>
void softmax(OpCall& c) {
  c.set(0, op(name.text, c.in(0), normal_axis(c.integer("axis", -1), rank_of(c.in(0)))));
}

// One where the first maximum of the axis is.
Tensor hardmax_along(const Tensor& x, int64_t axis) {
  Tensor places = along_axis(op("arange", sizes_of(x)[static_cast<size_t>(axis)], DType::I64), axis, rank_of(x));
  return cast(op("eq.Tensor", places, op("argmax", x, axis, true)), x.dtype());
}

void flat_hardmax(OpCall& c) {
  Tensor x = c.in(0);
  Sizes sizes = sizes_of(x);
  auto axis = normal_axis(c.integer("axis", 1), rank_of(x));
  Expr rows = 1, columns = 1;
  for (int64_t d = 0; d < rank_of(x); ++d) (d < axis ? rows : columns) *= sizes[static_cast<size_t>(d)];
  c.set(0, reshape(hardmax_along(reshape(x, {rows, columns}), 1), sizes));
}

void hardmax(OpCall& c) { c.set(0, hardmax_along(c.in(0), normal_axis(c.integer("axis", -1), rank_of(c.in(0))))); }

}  // namespace

Tensor fused_activation(const OpCall& c, const Tensor& x) {
  std::string name = c.text("activation", "");
  auto params = c.reals("activation_params");
  size_t needed = name == "LeakyRelu" ? 1 : name == "Clip" || name == "HardSigmoid" ? 2 : 0;
  TOROID_USER_CHECK(params.size() == needed, "the activation \"{}\" has {} parameters; {} are expected", name, params.size(), needed);
  if (name.empty()) return x;
  if (name == "Relu") return op("relu", x);
  if (name == "Sigmoid") return op("sigmoid", x);
  if (name == "Tanh") return op("tanh", x);
  if (name == "LeakyRelu") return op("leaky_relu", x, params[0]);
  if (name == "Clip") return op("clamp", x, params[0], params[1]);
  TOROID_USER_CHECK(name == "HardSigmoid", "the activation \"{}\" is unknown", name);
  return op("clamp", op("add.Tensor", op("mul.Tensor", x, params[0]), params[1]), 0.0, 1.0);
}

void add_activation_operators(Operators& t) {
  t.add("Relu", 1, unary<"relu">);
  t.add("Sigmoid", 1, unary<"sigmoid">);
  t.add("Tanh", 1, unary<"tanh">);
  t.add("LeakyRelu", 1, leaky_relu);
  t.add("Elu", 1, elu);
  t.add("Celu", 12, celu);
  t.add("Selu", 1, selu);
  t.add("ThresholdedRelu", 10, thresholded_relu);
  t.add("HardSigmoid", 1, hard_sigmoid);
  t.add("HardSwish", 14, unary<"hardswish">);
  t.add("Mish", 18, unary<"mish">);
  t.add("Gelu", 20, gelu);
  t.add("Swish", 24, swish);
  t.add("SwiGLU", 28, swiglu);
  t.add("Softplus", 1, softplus);
  t.add("Softsign", 1, softsign);
  t.add("PRelu", 1, prelu);
  t.add("Shrink", 9, shrink);
  t.add("Softmax", 1, flat_softmax<"softmax.int">);
  t.add("Softmax", 13, softmax<"softmax.int">);
  t.add("LogSoftmax", 1, flat_softmax<"log_softmax.int">);
  t.add("LogSoftmax", 13, softmax<"log_softmax.int">);
  t.add("Hardmax", 1, flat_hardmax);
  t.add("Hardmax", 13, hardmax);
}

}  // namespace toroid::import::onnx
