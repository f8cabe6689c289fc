// Quantization as exported programs of PyTorch's PT2E have it (quantized_decomposed, torch.ao): integers of 8 to 32 bits, and what they
// stand for, each made of a tensor and its numbers.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

// The only element of a tensor, or a number of the call, as an operand of arithmetic in `dtype`.
Arg<Tensor> number(const CallReader& c, const char* name, DType dtype) {
  if (c.is_number(name)) return c.at(name);
  const Tensor t = c.tensor(name);
  require({sym::Rel::Eq, forms::numel_of(t), 1}, "{}: {} has {} elements; expected 1", c.op().name, name,
          sym::to_string(forms::numel_of(t)));
  return forms::cast_to(forms::view(t, {}), dtype);
}

// A number for each index along `axis`, so that it broadcasts to the input.
Tensor of_channels(const CallReader& c, const char* name) {
  const Tensor input = c.tensor("input"), t = c.tensor(name);
  const int64_t axis = forms::dim_of(c, "axis", input);
  TOROID_USER_CHECK(t.dim() == 1, "{}: {} has {} dimensions; expected 1", c.op().name, name, t.dim());
  require({sym::Rel::Eq, forms::size_at(t, 0), forms::size_at(input, axis)},
          "{}: {} has {} elements; expected {}, as the input along axis {}", c.op().name, name, sym::to_string(forms::size_at(t, 0)),
          sym::to_string(forms::size_at(input, axis)), axis);
  forms::Sizes sizes(static_cast<size_t>(input.dim()), Expr(1));
  sizes[static_cast<size_t>(axis)] = forms::size_at(t, 0);
  return forms::view(t, sizes);
}

Tensor wide_input(const CallReader& c) {
  const Tensor input = c.tensor("input");
  TOROID_USER_CHECK(is_half(input.dtype()) || input.dtype() == DType::F32, "{}: the input has dtype {}; expected f32, f16 or bf16",
                    c.op().name, name_of(input.dtype()));
  return forms::cast_to(input, DType::F32);
}

// The limits of levels, which are numbers of the call or tensors.
std::vector<Tensor> to_grid(const CallReader& c, const Tensor& levels) {
  const bool numbers = c.is_number("quant_min") && c.is_number("quant_max");
  const DType dtype = *c.dtype("dtype");
  const Tensor clamped =
      call1(numbers ? "clamp" : "clamp.Tensor", {levels, number(c, "quant_min", levels.dtype()), number(c, "quant_max", levels.dtype())});
  return {forms::cast_to(clamped, dtype)};
}

// PyTorch's ties are those of the product in f32 with the inverse, which it computes in f64.
std::vector<Tensor> quantize(const CallReader& c) {
  const Tensor input = wide_input(c);
  const Arg<Tensor> scale = number(c, "scale", DType::F64);
  const auto* tensor = std::get_if<Tensor>(&scale);
  const Arg<Tensor> inverse = tensor ? Arg<Tensor>(forms::cast_to(forms::unary("reciprocal", *tensor), DType::F32))
                                     : static_cast<double>(static_cast<float>(1 / c.real("scale")));
  const Arg<Tensor> zero_point = number(c, "zero_point", DType::F32);
  return to_grid(c, forms::add(forms::unary("round", forms::mul(input, inverse)), zero_point));
}

std::vector<Tensor> quantize_channels(const CallReader& c) {
  const Tensor inverse = forms::unary("reciprocal", of_channels(c, "scales"));
  const Tensor levels = forms::unary("round", forms::mul(wide_input(c), inverse));
  return to_grid(c, forms::add(levels, of_channels(c, "zero_points")));
}

// What the integers are read as; `dtype` says what they are.
DType result_dtype(const CallReader& c) {
  const DType stated = *c.dtype("dtype"), found = c.tensor("input").dtype();
  TOROID_USER_CHECK(stated == found, "{}: the input has dtype {}; expected {}", c.op().name, name_of(found), name_of(stated));
  return c.dtype("out_dtype").value_or(DType::F32);
}

std::vector<Tensor> dequantize(const CallReader& c) {
  const DType dtype = result_dtype(c);
  const Arg<Tensor> scale = number(c, "scale", dtype), zero_point = number(c, "zero_point", dtype);
  return {forms::mul(forms::sub(forms::cast_to(c.tensor("input"), dtype), zero_point), scale)};
}

std::vector<Tensor> dequantize_channels(const CallReader& c) {
  const DType dtype = result_dtype(c);
  Tensor steps = c.tensor("input");
  if (c.has("zero_points")) steps = forms::sub(steps, of_channels(c, "zero_points"));
  return {forms::cast_to(forms::mul(steps, of_channels(c, "scales")), dtype)};
}

}  // namespace

void add_decomposed_quantization_rows(Table& t) {
  constexpr std::pair<const char*, const char*> kForms[] = {
      {"", "float scale, int zero_point, int quant_min, int quant_max"},
      {".tensor", "Tensor scale, Tensor zero_point, int quant_min, int quant_max"},
      {".tensor2", "Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max"}};
  for (auto& [overload, numbers] : kForms) {
    t.composite(fmt::format("quantized_decomposed.quantize_per_tensor{}(Tensor input, {}, ScalarType dtype) -> Tensor", overload, numbers),
                quantize);
    t.composite(fmt::format("quantized_decomposed.dequantize_per_tensor{}(Tensor input, {}, ScalarType dtype, *, ScalarType? "
                            "out_dtype=None) -> Tensor",
                            overload, numbers),
                dequantize);
  }
  t.composite(
      "quantized_decomposed.quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, "
      "ScalarType dtype) -> Tensor",
      quantize_channels);
  t.composite(
      "quantized_decomposed.dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int "
      "quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
      dequantize_channels);
}

}  // namespace toroid::ops
