// Fake quantization: what integers of 8 bits and fewer would keep of floats, computed in floats (training that knows of it).
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

template <class Reader>
void check_limits(const Reader& c) {
  TOROID_USER_CHECK(c.integer("quant_min") <= c.integer("quant_max"),
                    "{}: quant_min is {} and quant_max {}; expected quant_min <= quant_max", c.op().name, c.integer("quant_min"),
                    c.integer("quant_max"));
}
template <class Reader>
void check_numbers(const Reader& c) {
  check_limits(c);
  const int64_t zero = c.integer("zero_point");
  TOROID_USER_CHECK(c.integer("quant_min") <= zero && zero <= c.integer("quant_max"),
                    "{}: zero_point is {}; expected one between quant_min and quant_max ({} and {})", c.op().name, zero,
                    c.integer("quant_min"), c.integer("quant_max"));
}

// The integers' limits, and what they stand for.
struct Grid {
  S scale, zero_point, low, high, level;  // level: of f[0], before it is clamped
};

Grid grid(F f) {
  need_floats(f);
  const auto integer = [&](const char* name) { return lit(f[0], static_cast<double>(f.integer(name))); };
  Grid g;
  g.low = integer("quant_min"), g.high = integer("quant_max");
  S inverse;  // PyTorch's ties are those of the product, also with a scale in f32 where self is f64
  if (f.operands.size() == 1) {
    check_numbers(f);
    const auto scale = static_cast<float>(f.real("scale"));
    g.scale = lit(f[0], scale), g.zero_point = integer("zero_point"), inverse = lit(f[0], 1.0F / scale);
  } else {
    check_limits(f);
    g.scale = f[1], g.zero_point = f[2], inverse = 1.0 / f[1];
  }
  g.level = round(f[0] * inverse) + g.zero_point;
  return g;
}

// NaN becomes quant_min, as in PyTorch.
S fake_quantize(F f) {
  const Grid g = grid(f);
  return (fmin(fmax(g.level, g.low), g.high) - g.zero_point) * g.scale;
}

Tensor one_element(const CallReader& c, const char* name) {
  const Tensor t = c.tensor(name);
  require({sym::Rel::Eq, forms::numel_of(t), 1}, "{}: {} has {} elements; expected 1", c.op().name, name,
          sym::to_string(forms::numel_of(t)));
  return forms::view(t, {});
}

// A number for each index along `axis`, so that it broadcasts to self.
Tensor along_axis(const CallReader& c, const char* name) {
  const Tensor self = c.tensor("self"), t = c.tensor(name);
  const int64_t axis = c.integer("axis");
  TOROID_USER_CHECK(axis >= 0 && axis < self.dim(), "{}: axis is {}; expected one of the {} dimensions of self, from 0 on", c.op().name,
                    axis, self.dim());
  TOROID_USER_CHECK(t.dim() == 1, "{}: {} has {} dimensions; expected 1", c.op().name, name, t.dim());
  require({sym::Rel::Eq, forms::size_at(t, 0), forms::size_at(self, axis)}, "{}: {} has {} elements; expected {}, as self along axis {}",
          c.op().name, name, sym::to_string(forms::size_at(t, 0)), sym::to_string(forms::size_at(self, axis)), axis);
  forms::Sizes sizes(static_cast<size_t>(self.dim()), Expr(1));
  sizes[static_cast<size_t>(axis)] = forms::size_at(t, 0);
  return forms::view(t, sizes);
}

struct Parameters {
  Arg<Tensor> scale, zero_point;
};
Tensor quantized(const CallReader& c, const Parameters& p) {
  return call1("_fake_quantize", {c.tensor("self"), p.scale, p.zero_point, c.at("quant_min"), c.at("quant_max")});
}
Tensor mask(const CallReader& c, const Parameters& p) {
  return call1("_fake_quantize_inside", {c.tensor("self"), p.scale, p.zero_point, c.at("quant_min"), c.at("quant_max")});
}
Parameters of_tensor(const CallReader& c) { return {one_element(c, "scale"), one_element(c, "zero_point")}; }
// Zero points that are integers lie on the grid.
Parameters of_channels(const CallReader& c) {
  Tensor zero = along_axis(c, "zero_point");
  const Expr low = c.integer("quant_min");
  if (is_int(zero.dtype()))
    zero = forms::checked_values(zero, forms::sub(forms::cast_to(zero, DType::I64), low),
                                 std::string(plain_name(c.op())) + ": zero_point less quant_min", ValueRule::AtMost,
                                 c.integer("quant_max") - low);
  return {along_axis(c, "scale"), zero};
}

std::vector<Tensor> cachemask(const CallReader& c) {
  check_numbers(c);
  const double scale = static_cast<float>(c.real("scale"));
  return {call1("fake_quantize_per_tensor_affine", {c.args().begin(), c.args().end()}),
          mask(c, {scale, static_cast<double>(c.integer("zero_point"))})};
}

// Where it is switched off (by a tensor, as observers do), self as it is, and all of it inside.
std::vector<Tensor> cachemask_when_enabled(const CallReader& c) {
  const Tensor self = c.tensor("self"), on = forms::compare("ne", one_element(c, "fake_quant_enabled"), 0);
  const Parameters p = of_tensor(c);
  return {forms::where(on, quantized(c, p), self), call1("logical_or", {mask(c, p), call1("logical_not", {on})})};
}

}  // namespace

S fake_quantize_inside(F f) {
  const Grid g = grid(f);
  return (g.level >= g.low) & (g.level <= g.high);
}

void add_quantization_rows(Table& t) {
  t.pointwise("fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor",
              Promote::KeepFirst, fake_quantize);
  t.pointwise("_fake_quantize(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor", Promote::KeepFirst,
              fake_quantize);
  t.pointwise("_fake_quantize_inside(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
              Promote::Predicate, fake_quantize_inside);
  t.composite(
      "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return {quantized(c, of_tensor(c))}; });
  t.composite(
      "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor",
      [](const CallReader& c) -> std::vector<Tensor> { return {quantized(c, of_channels(c))}; });
  t.composite(
      "fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, "
      "Tensor mask)",
      cachemask);
  t.composite(
      "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, "
      "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
      cachemask_when_enabled);
  t.composite(
      "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> "
      "(Tensor output, Tensor mask)",
      [](const CallReader& c) -> std::vector<Tensor> {
        return {quantized(c, of_channels(c)), mask(c, of_channels(c))};
      });
}

}  // namespace toroid::ops
