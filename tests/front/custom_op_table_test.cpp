// What registering custom operations and their variants refuses.
#include <gtest/gtest.h>

#include "errors.h"
#include "ops/custom.h"
#include "toroid/custom_op.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;

Tensor twice(const Tensor& x) { return x * 2.0; }

TEST(CustomOpRegistration, MakesARow) {
  auto op = custom_op("reg::first", twice);
  EXPECT_EQ(op.name(), "reg::first");
  EXPECT_EQ(ops::table().find("reg::first"), &op.op());
  EXPECT_EQ(op.op().schema.params.at(0).name, "arg0");
  auto writer = custom_op("reg::writer_", [](Tensor& x, const Tensor& y) { copy_(x, y); });
  EXPECT_EQ(ops::functional_form(writer.op()).name, "reg::writer_.functional");
  EXPECT_EQ(ops::functional_form(writer.op()).schema.returns.size(), 1u);
}

TEST(CustomOpRegistration, RefusesNamesAndSchemas) {
  custom_op("reg::taken", twice);
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::taken", twice); }), "already"));
  EXPECT_TRUE(contains(user_error([] { custom_op("no_namespace", twice); }), "namespace"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::a b", twice); }), "letters"));
  const std::string malformed = user_error([] { custom_op("reg::bad(Tensor x", twice); });
  EXPECT_TRUE(contains(malformed, "the schema \"reg::bad(Tensor x\" is malformed") && !contains(malformed, "internal")) << malformed;
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::count(Tensor x, Tensor y) -> Tensor", twice); }), "has 2 parameters"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::type(int x) -> Tensor", twice); }), "another type"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::writes(Tensor(a!) x) -> Tensor", twice); }), "another type"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::results(Tensor x) -> (Tensor, Tensor)", twice); }), "returns 2"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::none() -> Tensor", [] { return Tensor(); }); }), "no tensor"));
  EXPECT_TRUE(contains(user_error([] { custom_op("reg::list", [](const Tensor& x) { return std::vector<Tensor>{x}; }); }), "schema"));
}

TEST(CustomOpRegistration, RefusesVariants) {
  auto op = custom_op("reg::tuned(Tensor x, int split=1) -> Tensor", [](const Tensor& x, int64_t) { return x * 2.0; });
  auto refused = [&](CustomOpConfig c, CustomTuning t = {}) { return user_error([&] { register_custom_op_autotuning(op, {c}, t); }); };
  EXPECT_TRUE(contains(refused({.decomposition = twice}), "takes 1 arguments"));
  EXPECT_TRUE(contains(refused({.params = {{"split", "four"}}}), "\"split\" must be an integer"));
  EXPECT_TRUE(contains(refused({.params = {{"other", 4}}}), "takes 2 arguments"));
  EXPECT_TRUE(contains(refused({.options = {{"gem_backends", "template"}}}), "gemm_backends"));
  EXPECT_TRUE(contains(refused({.decomposition = [](Tensor& x, int64_t) { return x * 2.0; }}), "does not write"));
  EXPECT_TRUE(contains(refused({}, {.split_points = {4}}), "dispatch_on"));
  EXPECT_TRUE(contains(refused({.name = "a;b"}), "quotes and semicolons"));
  EXPECT_TRUE(contains(refused({.name = "reg::tuned"}), "as the operation itself is"));
  EXPECT_TRUE(contains(user_error([&] { register_custom_op_autotuning(op, {{.name = "a"}, {.name = "a"}}); }), "as one before it is"));
  EXPECT_TRUE(contains(refused({.params = {{"split", 4}, {"split", 8}}}), "given twice"));
  EXPECT_TRUE(contains(refused({}, {.dispatch_on = {{.tensor = "x"}}}), "split_points are empty"));
  EXPECT_TRUE(contains(refused({}, {.dispatch_on = {{.tensor = "y"}}, .split_points = {4}}), "\"y\""));
  EXPECT_TRUE(contains(refused({}, {.dispatch_on = {{.tensor = "x"}}, .split_points = {8, 4}}), "ascending"));
  EXPECT_TRUE(contains(refused({}, {.input_gen_fns = {{"z", nullptr}}}), "\"z\""));
  EXPECT_FALSE(ops::is_tuned(op.op()));
  register_custom_op_autotuning(op, std::vector<CustomOpConfig>{{.params = {{"split", 4}}}});
  EXPECT_TRUE(contains(refused({}), "already"));
}

TEST(CustomOpRegistration, OperandsForTimingComeFromGenerators) {
  auto op = custom_op("reg::generated(Tensor x, Tensor y) -> Tensor", [](const Tensor& x, const Tensor& y) { return x + y; });
  register_custom_op_autotuning(op, std::vector<CustomOpConfig>{},
                                {.input_gen_fns = {{"x", [](const CustomOperand& o) { return Tensor::full(o.sizes, 7, DType::F32); }}}});
  EXPECT_EQ(ops::generated_operand(op.op(), {"x", DType::F32, {2, 3}}).to_vector().at(5), 7);
  EXPECT_FALSE(ops::generated_operand(op.op(), {"y", DType::F32, {2, 3}}).defined());
  const std::string error = user_error([&] { ops::generated_operand(op.op(), {"x", DType::F64, {2}}); });
  EXPECT_TRUE(contains(error, "\"x\"") && contains(error, "f64[2]")) << error;
}

TEST(CustomOpRegistration, CallsCheckTheirArguments) {
  auto op = custom_op("reg::called(Tensor x, float by=2.0) -> Tensor", [](const Tensor& x, double by) { return x * by; });
  const Tensor x = Tensor::of({1, 2}, {2});
  EXPECT_TRUE(contains(user_error([&] { op(3.0); }), "\"x\" must be a tensor"));
  EXPECT_TRUE(contains(user_error([&] { op(x, "two"); }), "\"by\" must be a number"));
  EXPECT_TRUE(contains(user_error([&] { op(x, 2.0, 3.0); }), "at most 2"));
}

}  // namespace
}  // namespace toroid
