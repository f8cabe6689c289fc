// Conversions, copies and what does nothing to the elements; assertions.
#include "base/check.h"
#include "ops/rows/pointwise.h"

namespace toroid::ops {
namespace {

void converted_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  c.result(c.dtype("dtype").value_or(x.dtype), x.sizes);
}

Tensor converted(const CallReader& c, DType to) {
  Tensor x = c.tensor("self");
  bool copy = c.flag("copy");
  if (x.dtype() != to) return call1("_to_copy", {x, to});
  return copy ? call1("clone", {x}) : x;
}

void same_meta(MetaCall& c) {
  const TensorType& x = *c.tensor("self");
  c.result(x.dtype, x.sizes);
}

std::vector<Expr> same_index(const TypeReader&, size_t, const std::vector<Expr>& index) { return index; }
Tensor overwritten(const CallReader&, size_t, const Tensor& value) { return value; }

void add_cast_rows(Table& t) {
  Op& cast_row = t.pointwise(
      "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool "
      "non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
      Promote::KeepFirst, [](F f) { return f.dtype("dtype") ? cast(f[0], *f.dtype("dtype")) : f[0]; });
  cast_row.meta = converted_meta;
  cast_row.complex_formula = [](Z z) { return z[0]; };
  auto to_dtype = [](const CallReader& c) -> std::vector<Tensor> {
    return {converted(c, c.dtype("dtype").value_or(c.tensor("self").dtype()))};
  };
  t.composite(
      "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
      to_dtype);
  t.composite(
      "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool "
      "non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
      to_dtype);
  t.composite(
      "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? "
      "memory_format=None) -> Tensor(a)",
      to_dtype);
  t.composite(
      "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
      [](const CallReader& c) -> std::vector<Tensor> { return {converted(c, c.tensor("other").dtype())}; });
  t.composite("type_as(Tensor self, Tensor other) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
     Tensor x = c.tensor("self");
     DType to = c.tensor("other").dtype();
     return {x.dtype() == to ? x : call1("_to_copy", {x, to})};
   }).may_alias = true;
  t.composite("prims.convert_element_type(Tensor a, ScalarType dtype) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("_to_copy", {c.tensor("a"), *c.dtype("dtype")})};
  });
}

void add_copy_rows(Table& t) {
  for (const char* schema : {"clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", "lift_fresh_copy(Tensor self) -> Tensor"})
    t.pointwise(schema, Promote::KeepFirst, [](F f) { return f[0]; }).complex_formula = [](Z z) { return z[0]; };
  for (const char* schema :
       {"lift_fresh(Tensor(a) self) -> Tensor(a)", "contiguous(Tensor(a) self, *, MemoryFormat memory_format=None) -> Tensor(a)"})
    t.view(schema, same_meta, same_index, overwritten);
  t.pointwise("fill.Scalar(Tensor self, Scalar value) -> Tensor", Promote::KeepFirst, [](F f) { return f.constant("value"); });
  t.pointwise("fill.Tensor(Tensor self, Tensor value) -> Tensor", Promote::KeepFirst, [](F f) { return f[1]; }).complex_formula = [](Z z) {
    return z[1];
  };
  t.pointwise("zero(Tensor self) -> Tensor", Promote::KeepFirst, [](F f) { return f.constant(0.0); }).complex_formula = [](Z) {
    return C128(0);
  };
}

// Everything it asks is known when compiling.
std::vector<Tensor> check_metadata(const CallReader& c) {
  Tensor a = c.tensor("a");
  if (auto t = c.dtype("dtype"))
    TOROID_USER_CHECK(*t == a.dtype(), "the program asserts a tensor of dtype {}, it has {}", name_of(*t), name_of(a.dtype()));
  if (c.has("size")) {
    auto sizes = c.exprs("size");
    TOROID_USER_CHECK(static_cast<int64_t>(sizes.size()) == a.dim(), "the program asserts a tensor of {} dimensions, it has {}",
                      sizes.size(), a.dim());
    for (size_t d = 0; d < sizes.size(); ++d)
      TOROID_USER_CHECK(a.size(static_cast<int64_t>(d)) == SymInt(sizes[d]), "the program asserts the size {} in dimension {}, it is {}",
                        sym::to_string(sizes[d]), d, sym::to_string(a.size(static_cast<int64_t>(d)).expr()));
  }
  return {};
}

void no_results(MetaCall&) {}

void check_range(KernelCall& c) {
  Number size = c.number("size");
  if (auto lo = c.opt_number("min"))
    TOROID_USER_CHECK(size.as_double() >= lo->as_double(), "{}: the size {} is less than {}", c.op().name, size.i, lo->i);
  if (auto hi = c.opt_number("max"))
    TOROID_USER_CHECK(size.as_double() <= hi->as_double(), "{}: the size {} is more than {}", c.op().name, size.i, hi->i);
}

void check_tensor(KernelCall& c) {
  Tensor x = c.tensor("self");
  TOROID_USER_CHECK(x.numel() == 1, "{}: the condition must be one element, it has {}", c.op().name, x.numel());
  bool holds = load_number(x.raw_data(), x.dtype()).as_double() != 0;
  TOROID_USER_CHECK(holds, "an assertion of the program failed: {}",
                    c.op().schema.find("assert_msg") < 0 ? "no message" : c.text("assert_msg"));
}

}  // namespace

void add_conversion_rows(Table& t) {
  add_cast_rows(t);
  add_copy_rows(t);
}

void add_assertion_rows(Table& t) {
  t.composite(
      "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, Device? device=None, "
      "Layout? layout=None) -> ()",
      check_metadata);
  t.primitive("_assert_scalar(Scalar self, str assert_msg) -> ()", no_results, [](KernelCall& c) {
     TOROID_USER_CHECK(c.real("self") != 0, "an assertion of the program failed: {}", c.text("assert_msg"));
   }).effect = true;
  t.primitive("_assert_async(Tensor self) -> ()", no_results, check_tensor).effect = true;
  t.primitive("_assert_async.msg(Tensor self, str assert_msg) -> ()", no_results, check_tensor).effect = true;
  t.primitive("sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()", no_results, check_range).effect = true;
  t.primitive("sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()", no_results, check_range).effect = true;
}

}  // namespace toroid::ops
