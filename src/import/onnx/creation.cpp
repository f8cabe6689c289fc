// Operators that make tensors of attributes, sizes or random numbers.
#include "base/check.h"
#include "base/scalar.h"
#include "import/onnx/operators.h"
#include "import/onnx/tensors.h"

namespace toroid::import::onnx {
namespace {

template <class T>
Tensor list_tensor(const std::vector<T>& values, DType dtype, bool scalar) {
  std::vector<int64_t> sizes;
  if (!scalar) sizes.push_back(static_cast<int64_t>(values.size()));
  Tensor t = Tensor::empty(sizes, dtype);
  for (size_t i = 0; i < values.size(); ++i) t.data<T>()[i] = values[i];
  return t;
}

void constant(OpCall& c) {
  if (c.has_attribute("value")) return c.set(0, c.tensor("value"));
  if (auto* a = c.attribute("value_float"); a && a->f) return c.set(0, list_tensor<float>({*a->f}, DType::F32, true));
  if (auto* a = c.attribute("value_floats")) return c.set(0, list_tensor(a->floats, DType::F32, false));
  if (auto* a = c.attribute("value_int"); a && a->i) return c.set(0, list_tensor<int64_t>({*a->i}, DType::I64, true));
  if (auto* a = c.attribute("value_ints")) return c.set(0, list_tensor(a->ints, DType::I64, false));
  fail<UserError>("the constant holds texts or a sparse tensor; Toroid has dense tensors of numbers");
}

void constant_of_shape(OpCall& c) {
  Sizes sizes = c.sizes(0);
  if (!c.has_attribute("value")) return c.set(0, op("full", sizes, 0.0, DType::F32));
  Tensor value = c.tensor("value");
  TOROID_USER_CHECK(value.numel() == 1, "the value has {} elements; one is expected", value.numel());
  Arg<Tensor> number;
  if (is_float(value.dtype()))
    number = value.item();
  else if (is_bool(value.dtype()))
    number = value.item() != 0;
  else
    number = Expr(load_number(value.raw_data(), value.dtype()).as_int());
  c.set(0, op("full", sizes, number, value.dtype()));
}

void range_of(OpCall& c) {
  DType dtype = c.in(0).dtype();
  if (is_float(dtype)) {
    double start = c.real_number(0), end = c.real_number(1), step = c.real_number(2);
    TOROID_USER_CHECK(step != 0, "the step is 0");
    return c.set(0, op("arange.start_step", start, end, step, dtype));
  }
  Expr start = c.size(0), end = c.size(1);
  int64_t step = c.number(2);
  TOROID_USER_CHECK(step != 0, "the step is 0");
  c.set(0, op("arange.start_step", start, end, step, dtype));
}

void eye_like(OpCall& c) {
  Tensor x = c.in(0);
  Sizes sizes = sizes_of(x);
  TOROID_USER_CHECK(sizes.size() == 2, "a matrix is expected, the tensor has {} dimensions", sizes.size());
  DType dtype = c.has_attribute("dtype") ? need_dtype(static_cast<int32_t>(c.integer("dtype")), "the result") : x.dtype();
  Tensor rows = reshape(op("arange", sizes[0], DType::I64), {sizes[0], 1});
  Tensor columns = reshape(op("arange", sizes[1], DType::I64), {1, sizes[1]});
  c.set(0, cast(op("eq.Tensor", op("add.Tensor", rows, Expr(c.integer("k", 0))), columns), dtype));
}

void one_hot(OpCall& c) {
  Tensor indices = c.in(0), values = c.in(2);
  // The number of classes may be of any type.
  Expr depth = is_float(c.in(1).dtype()) ? Expr(whole_number(c.real_number(1))) : c.size(1);
  int64_t rank = rank_of(indices) + 1;
  auto axis = normal_axis(c.integer("axis", -1), rank);
  Sizes sizes = sizes_of(indices);
  sizes.insert(sizes.begin() + axis, 1);
  Tensor places = reshape(cast(indices, DType::I64), sizes);
  // Counted from the end where they are negative.
  places = op("where.self", op("lt.Scalar", places, 0), op("add.Tensor", places, depth), places);
  Tensor classes = along_axis(op("arange", depth, DType::I64), axis, rank);
  Tensor off = op("select.int", values, 0, 0), on = op("select.int", values, 0, 1);
  c.set(0, op("where.self", op("eq.Tensor", places, classes), on, off));
}

DType random_dtype(OpCall& c, DType otherwise) {
  return c.has_attribute("dtype") ? need_dtype(static_cast<int32_t>(c.integer("dtype")), "the result") : otherwise;
}

Sizes random_sizes(OpCall& c) {
  Sizes out;
  for (int64_t s : c.integers("shape")) out.push_back(s);
  return out;
}

Tensor normal(OpCall& c, const Sizes& sizes, DType dtype) {
  Tensor x = op("mul.Tensor", op("randn", sizes, dtype), c.real("scale", 1));
  return op("add.Tensor", x, c.real("mean", 0));
}

Tensor uniform(OpCall& c, const Sizes& sizes, DType dtype) {
  double low = c.real("low", 0), high = c.real("high", 1);
  return op("add.Tensor", op("mul.Tensor", op("rand", sizes, dtype), high - low), low);
}

void bernoulli(OpCall& c) {
  Tensor p = c.in(0);
  c.set(0, cast(op("bernoulli", p), random_dtype(c, p.dtype())));
}

// Rows of logarithms of probabilities, which need not add up to 1.
void multinomial(OpCall& c) {
  const Tensor p = op("softmax.int", c.in(0), -1);
  c.set(0, cast(op("multinomial", p, c.integer("sample_size", 1), true), random_dtype(c, DType::I32)));
}

}  // namespace

void add_creation_operators(Operators& t) {
  t.add("Constant", 1, constant);
  t.add("ConstantOfShape", 9, constant_of_shape);
  t.add("Range", 11, range_of);
  t.add("EyeLike", 9, eye_like);
  t.add("OneHot", 9, one_hot);
  t.add("RandomNormal", 1, [](OpCall& c) { c.set(0, normal(c, random_sizes(c), random_dtype(c, DType::F32))); });
  t.add("RandomNormalLike", 1, [](OpCall& c) { c.set(0, normal(c, sizes_of(c.in(0)), random_dtype(c, c.in(0).dtype()))); });
  t.add("RandomUniform", 1, [](OpCall& c) { c.set(0, uniform(c, random_sizes(c), random_dtype(c, DType::F32))); });
  t.add("RandomUniformLike", 1, [](OpCall& c) { c.set(0, uniform(c, sizes_of(c.in(0)), random_dtype(c, c.in(0).dtype()))); });
  t.add("Bernoulli", 15, bernoulli);
  t.add("Multinomial", 7, multinomial);
}

}  // namespace toroid::import::onnx
