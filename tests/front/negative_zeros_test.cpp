// Zeros of both signs, and numbers that only their bits tell apart: in kernels as in the interpreter, in guards, in folded programs.
#include <gtest/gtest.h>

#include <cmath>

#include "front/harness.h"
#include "ops/reference.h"
#include "ops/table.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

// Arguments of a row whose operands are all floats; nullopt where it takes others.
std::optional<CallArgs> arguments(const ops::Op& op, const std::vector<Tensor>& operands) {
  CallArgs args;
  size_t next = 0;
  for (const ops::Param& p : op.schema.params) {
    if (p.type == ops::ParamType::Tensor && !p.optional && next < operands.size())
      args.push_back(operands[next++]);
    else if (p.has_default)
      args.push_back(p.default_value);
    else
      return std::nullopt;
  }
  return next == operands.size() ? std::optional(args) : std::nullopt;
}

std::string shown(const Tensor& t) {
  std::string out;
  for (double v : t.to_vector()) out += std::isnan(v) ? "n" : v != 0 ? "x" : std::signbit(v) ? "-" : "+";
  return out;
}

// All pointwise rows of that many operands, as one program: the signs of their zeros against those of the C library's functions.
void compare_signs(const std::vector<Tensor>& operands) {
  std::vector<const ops::Op*> rows;
  std::vector<std::string> expected;
  {
    ops::ReferenceDispatcher reference;
    DispatchScope scope(reference);
    for (const ops::Op& op : ops::table().rows()) {
      if (!op.formula || op.inplace_of || op.random || op.bool_operands || op.name.starts_with("grad.")) continue;
      const auto args = arguments(op, operands);
      if (!args) continue;
      try {
        const Tensor result = ops::evaluate(op, *args)[0];
        if (!is_float(result.dtype())) continue;
        rows.push_back(&op);
        expected.push_back(shown(result));
      } catch (const UserError&) {
      }
    }
  }
  ASSERT_GT(rows.size(), operands.size() == 1 ? 80u : 15u);
  const auto all = [&](const std::vector<Tensor>& in) {
    std::vector<Tensor> out;
    for (const ops::Op* op : rows) out.push_back(ops::call(*op, *arguments(*op, in))[0]);
    return out;
  };
  const auto check = [&](const std::vector<Tensor>& got, const char* way) {
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(shown(got[i]), expected[i]) << rows[i]->name << ", " << way;
  };
  check(all(operands), "eager");
  check(compile(all, {.fullgraph = true})(operands), "compiled");
  check(compile(all, {.fullgraph = true, .options = {{"isa", "scalar"}}})(operands), "compiled, scalar");
}

// Each of the values, then enough of the first one for whole vectors.
Tensor filled(std::vector<double> values, DType dtype) {
  values.resize(67, values[0]);
  return Tensor::of(values, std::vector<int64_t>{67}, dtype);
}

TEST(NegativeZeros, OfOneOperandAreThoseOfTheFunction) {
  for (DType dtype : {DType::F32, DType::F64, DType::BF16}) compare_signs({filled({-0., 0., -0.}, dtype)});
}
TEST(NegativeZeros, OfTwoOperandsAreThoseOfTheFunction) {
  for (DType dtype : {DType::F32, DType::F64})
    compare_signs({filled({-0., -0., 0., 0., -0., 0., -0., 1.}, dtype), filled({1., -1., 1., -1., 0., -0., -0., -1.}, dtype)});
}

// PyTorch 2.15.0 keeps -0 here. Of f16 docs/limits.md says when compiled kernels do not.
TEST(NegativeZeros, AreKept) {
  const auto all = [](const Tensor& x) {
    return std::vector<Tensor>{sin(x),         tan(x),          tanh(x),         expm1(x),          asinh(x),    relu(x),          relu6(x),
                               elu(x),         selu(x),         celu(x),         hardtanh(x),       sinh(x),     atan(x),          erf(x),
                               clamp(x, 0, 1), clamp_min(x, 0), clamp_max(x, 0), hardtanh(x, 0, 1), fmod(x, 2.), remainder(x, 2.), silu(x)};
  };
  for (DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    const Tensor x = filled({-0.}, dtype);
    const std::string minus(67, '-');
    const std::vector<Tensor> eager = all(x), compiled = compile(all)(x);
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(shown(eager[i]), minus) << "eager, number " << i << " of " << name_of(dtype);
      if (dtype == DType::F16) continue;
      EXPECT_EQ(shown(compiled[i]), minus) << "compiled, number " << i << " of " << name_of(dtype);
    }
  }
}

// x + 0. is +0 where x is -0.; the other neutral operands leave it.
TEST(NegativeZeros, SumsWithZerosAreNotFolded) {
  const auto all = [](const Tensor& x) {
    return std::vector<Tensor>{x + 0., x + 0, x - -0., 0. + x, x + -0., x - 0., x - 0, x * 1., x / 1.};
  };
  const Tensor x = filled({-0.}, DType::F32);
  const std::vector<Tensor> eager = all(x), compiled = compile(all)(x);
  for (size_t i = 0; i < eager.size(); ++i) {
    EXPECT_EQ(shown(eager[i]), std::string(67, i < 4 ? '+' : '-')) << i;
    EXPECT_EQ(shown(compiled[i]), shown(eager[i])) << i;
  }
}

TEST(NegativeZeros, AreOtherArguments) {
  auto f = compile([](const Tensor& x, double by) { return x / by; });
  const Tensor one = Tensor::of({1}, {1});
  EXPECT_EQ(f(one, 0.).item(), INFINITY);
  EXPECT_EQ(f(one, -0.).item(), -INFINITY);
  EXPECT_EQ(f(one, 0.).item(), INFINITY);
  EXPECT_TRUE(std::isnan(f(one, std::nan("")).item()));
  EXPECT_TRUE(std::isnan(f(one, std::nan("")).item()));
  EXPECT_EQ(f.report().compiles, 3);
}

// A sign that is set by a mask, of a value that another mask chooses: LLVM 19 makes one instruction of them, and made a wrong one where a
// kernel is one vector and its rest.
TEST(Signs, OfChosenValuesAreThoseOfTheFunction) {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> functions[] = {
      {"sin", [](const Tensor& x) { return sin(x); }},       {"tan", [](const Tensor& x) { return tan(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},     {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"asinh", [](const Tensor& x) { return asinh(x); }},   {"sinh", [](const Tensor& x) { return sinh(x); }},
      {"atan", [](const Tensor& x) { return atan(x); }},     {"erf", [](const Tensor& x) { return erf(x); }},
      {"asin", [](const Tensor& x) { return asin(x / 4); }}, {"copysign", [](const Tensor& x) { return copysign(exp(x), x); }},
      {"fmod", [](const Tensor& x) { return fmod(x, 2.); }}, {"atan2", [](const Tensor& x) { return atan2(x, exp(x)); }}};
  const std::pair<const char*, Tensor (*)(const Tensor&, const Tensor&)> choices[] = {
      {"where(x <= 0, f, x)", [](const Tensor& x, const Tensor& f) { return where(x <= 0, f, x); }},
      {"where(x > 0, x, f)", [](const Tensor& x, const Tensor& f) { return where(x > 0, x, f); }},
      {"where(x < 1, f, -x)", [](const Tensor& x, const Tensor& f) { return where(x < 1, f, -x); }}};
  for (const auto& [name, function] : functions)
    for (const auto& [choice, chosen] : choices)
      for (DType dtype : {DType::F32, DType::F64})
        for (int64_t n : {17, 40}) {
          const Tensor x = arange(n, dtype) / 16. - 1.25, f = function(x);
          const std::vector<double> got = compile([&](const Tensor& t) { return chosen(t, function(t)); })(x).to_vector();
          const std::vector<double> want = chosen(x, f).to_vector();
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_NEAR(got[i], want[i], 1e-6 * (1 + std::abs(want[i])))
                << name << ", " << choice << ", " << name_of(dtype) << "[" << n << "]";
        }
  // Rows that are such choices themselves, against f64.
  for (Function function : {Function([](const Tensor& x) { return elu(x); }), Function([](const Tensor& x) { return selu(x); }),
                            Function([](const Tensor& x) { return celu(x, 2); })})
    for (int64_t n : {1, 17, 23, 40}) {
      const Tensor x = arange(n, DType::F32) / 16. - 1.25;
      const std::vector<double> got = compile(function)(x).to_vector(), eager = function(x).to_vector();
      const std::vector<double> want = function(to(x, DType::F64)).to_vector();
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], 1e-6) << n;
        EXPECT_NEAR(eager[i], want[i], 1e-6) << n;
      }
    }
}

TEST(NegativeZeros, AreOtherWatchedNumbers) {
  Watched<double> by = 0.;
  auto f = compile([&](const Tensor& x) { return x / double(by); });
  const Tensor one = Tensor::of({1}, {1});
  EXPECT_EQ(f(one).item(), INFINITY);
  by = -0.;
  EXPECT_EQ(f(one).item(), -INFINITY);
  by = std::nan("");
  EXPECT_TRUE(std::isnan(f(one).item()));
  by = std::nan("");
  EXPECT_TRUE(std::isnan(f(one).item()));
  EXPECT_EQ(f.report().compiles, 3);
}

}  // namespace
}  // namespace toroid
