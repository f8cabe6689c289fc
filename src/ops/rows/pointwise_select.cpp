// Selection and limits: where, masked_fill, clamp and the like.
#include <cmath>
#include <limits>

#include "base/check.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

// where.ScalarSelf, .ScalarOther and .Scalar: numbers are tensor operands of weaker type.
std::vector<Tensor> where_numbers(const CallReader& c) { return call("where.self", {c.args().begin(), c.args().end()}); }

void add_where_rows(Table& t) {
  Op& where = t.pointwise("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", Promote::Default,
                          [](F f) { return select(f[0], f[1], f[2]); });
  where.bool_operands = 1;
  where.complex_formula = [](Z z) { return z[0] != C128(0) ? z[1] : z[2]; };
  t.composite("where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", where_numbers);
  t.composite("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", where_numbers);
  t.composite("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", where_numbers);
  for (const char* kind : {"Scalar", "Tensor"}) {
    Op& op = t.pointwise(fmt::format("masked_fill.{}(Tensor self, Tensor mask, {} value) -> Tensor", kind, kind), Promote::KeepFirst,
                         [](F f) { return select(f[1], f.operands.size() > 2 ? f[2] : f.constant("value"), f[0]); });
    op.bool_operands = 2;
  }
}

S clamp_formula(F f) {
  TOROID_USER_CHECK(f.has("min") || f.has("max"), "{}: at least one of min and max must be given", f.op().name);
  S x = f[0];
  size_t next = 1;  // absent operands are left out of the list
  bool tensors = f.op().schema.params[1].type == ParamType::Tensor;
  if (f.has("min")) x = maximum(tensors ? f[next++] : limit(f, "min", true), x);
  if (f.has("max")) x = minimum(tensors ? f[next] : limit(f, "max", false), x);
  return x;  // of equal operands the second one: -0 stays what it is
}

void add_clamp_rows(Table& t) {
  for (const char* name : {"clamp", "clip"}) {
    t.pointwise(fmt::format("{}(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", name), Promote::Default, clamp_formula);
    t.pointwise(fmt::format("{}.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", name), Promote::Default, clamp_formula);
  }
  t.pointwise("clamp_min(Tensor self, Scalar min) -> Tensor", Promote::Default, [](F f) { return maximum(limit(f, "min", true), f[0]); });
  t.pointwise("clamp_max(Tensor self, Scalar max) -> Tensor", Promote::Default, [](F f) { return minimum(limit(f, "max", false), f[0]); });
  Formula lower = [](F f) { return maximum(f[0], f[1]); };
  Formula upper = [](F f) { return minimum(f[0], f[1]); };
  t.pointwise("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", Promote::Default, lower);
  t.pointwise("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", Promote::Default, upper);
}

// The largest finite number of a floating dtype.
double largest(DType t) {
  switch (t) {
    case DType::F16:
      return 65504;
    case DType::BF16:
      return static_cast<double>(bf16_to_f32(0x7f7f));
    case DType::F32:
      return static_cast<double>(std::numeric_limits<float>::max());
    default:
      return std::numeric_limits<double>::max();
  }
}

S nan_to_num_formula(F f) {
  S x = f[0];
  if (!is_float(f.compute)) return x;
  double top = largest(f.tensor("self")->dtype);
  S high = f.has("posinf") ? f.constant(f.real("posinf")) : f.constant(top);
  S low = f.has("neginf") ? f.constant(f.real("neginf")) : f.constant(-top);
  S nan = f.has("nan") ? f.constant(f.real("nan")) : f.constant(0.0);
  return select(is_nan(x), nan, select(is_inf(x), select(x > 0.0, high, low), x));
}

S lerp_formula(F f) {
  S start = f[0], end = f[1], w = f.operands.size() > 2 ? f[2] : f.constant("weight");
  S gap = end - start;
  return select(abs(w) < 0.5, start + w * gap, end - gap * (1.0 - w));
}

}  // namespace

void add_selection_rows(Table& t) {
  add_where_rows(t);
  add_clamp_rows(t);
  t.pointwise("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", Promote::KeepFirst,
              nan_to_num_formula);
  t.pointwise("lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", Promote::Default, lerp_formula);
  t.pointwise("lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", Promote::Default, lerp_formula);
}

}  // namespace toroid::ops
