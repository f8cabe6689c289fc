// Derivatives of pointwise rows, against differences of the rows themselves in f64.
#include "ops/derivative.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "ops/reference.h"
#include "ops/table.h"
#include "toroid/error.h"

namespace toroid::ops {
namespace {

class Derivatives : public ::testing::Test {
 protected:
  static constexpr int64_t kPoints = 48;

  static bool is_optional_number(const Param& p) { return p.optional && p.type == ParamType::Float; }

  // Lists of arguments that a row takes, in f64: without what is optional, and with all of it. None for rows that take no floats.
  static std::vector<CallArgs> arguments(const Op& op, std::mt19937& random) {
    std::vector<CallArgs> out;
    for (bool all : {false, true}) {
      const auto& params = op.schema.params;
      if (all && std::none_of(params.begin(), params.end(), is_optional_number)) continue;
      if (auto args = arguments(op, all, random)) out.push_back(std::move(*args));
    }
    return out;
  }

  static std::optional<CallArgs> arguments(const Op& op, bool all, std::mt19937& random) {
    CallArgs args;
    uint32_t bit = 1;
    for (const Param& p : op.schema.params) {
      if (p.type == ParamType::Tensor) {
        std::vector<double> values(kPoints);
        std::uniform_real_distribution<double> draw(op.domain_lo, op.domain_hi);
        for (double& v : values) v = op.bool_operands & bit ? static_cast<double>(random() % 2) : draw(random);
        args.push_back(Tensor::of(values, std::vector<int64_t>{kPoints}, op.bool_operands & bit ? DType::Bool : DType::F64));
        bit <<= 1;
      } else if (all && is_optional_number(p)) {
        args.push_back(0.3);
      } else if (p.has_default && p.type != ParamType::Scalar) {
        args.push_back(p.default_value);
      } else if (p.type == ParamType::Scalar) {
        args.push_back(p.name == "max" || p.name == "max_val" ? 1.25 : p.name == "min" || p.name == "min_val" ? -1.5 : 1.75);
      } else if (p.type == ParamType::Str) {
        args.push_back(std::string("none"));
      } else if (p.type == ParamType::DType) {
        args.push_back(DType::F64);
      } else {
        args.push_back(Expr(2));
      }
    }
    try {
      if (evaluate(op, args)[0].dtype() != DType::F64) return std::nullopt;
    } catch (const UserError&) {
      return std::nullopt;
    }
    return args;
  }

  // Rows whose gradient is meant to be another than their slope: they round.
  static bool is_straight_through(const Op& op) { return op.name == "fake_quantize_per_tensor_affine" || op.name == "_fake_quantize"; }

  static std::vector<double> moved_by(const Op& op, CallArgs args, size_t param, double h) {
    std::vector<double> x = std::get<Tensor>(args[param]).to_vector();
    for (double& v : x) v += h;
    args[param] = Tensor::of(x, std::vector<int64_t>{kPoints}, DType::F64);
    return evaluate(op, args)[0].to_vector();
  }

  static std::vector<double> derivative(const Op& op, const CallArgs& args, size_t param) {
    const Tensor result = evaluate(op, args)[0], one = Tensor::full(std::vector<int64_t>{kPoints}, 1, DType::F64);
    auto call = derivative_arguments(CallReader(op, args), param, result, one);
    if (!call) return std::vector<double>(kPoints, 0.0);
    return evaluate(derivative_row(op, param), std::move(*call))[0].to_vector();
  }

  ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

TEST_F(Derivatives, AreTheSlopesOfTheirRows) {
  std::mt19937 random(1);
  int checked = 0;
  std::set<std::string> without;
  for (const Op& op : table().rows()) {
    if (!op.formula || op.inplace_of || is_straight_through(op)) continue;
    for (const CallArgs& args : arguments(op, random))
      for (size_t param = 0; param < args.size(); ++param) {
        auto* x = std::get_if<Tensor>(&args[param]);
        if (!x || x->dtype() != DType::F64) continue;
        std::vector<double> got;
        try {
          got = derivative(op, args, param);
        } catch (const UserError&) {
          without.insert(op.name + "." + op.schema.params[param].name);
          continue;
        }
        constexpr double kStep = 1e-5;
        const auto above = moved_by(op, args, param, kStep), below = moved_by(op, args, param, -kStep);
        const auto at = evaluate(op, args)[0].to_vector();
        for (size_t i = 0; i < got.size(); ++i) {
          const double slope = (above[i] - below[i]) / (2 * kStep);
          const double bend = std::abs(above[i] - 2 * at[i] + below[i]) / kStep;  // of the slopes on both sides
          if (!std::isfinite(slope) || std::abs(slope) > 1e3 || bend > 0.1 * (1 + std::abs(slope))) continue;  // a jump, or near a pole
          EXPECT_NEAR(got[i], slope, 1e-4 * (1 + std::abs(slope) + std::abs(at[i])))
              << op.name << " by " << op.schema.params[param].name << " at " << x->to_vector()[i];
          ++checked;
        }
      }
  }
  EXPECT_GT(checked, 8000);
  // Orders and degrees of special functions, and polynomials that PyTorch does not differentiate either.
  for (const std::string& name : without)
    EXPECT_TRUE(name.starts_with("special_") || name.starts_with("igamma") || name.starts_with("hermite")) << name;
}

// Second derivatives are derivatives of the rows of first ones.
TEST_F(Derivatives, HaveDerivatives) {
  std::mt19937 random(2);
  int checked = 0;
  std::set<std::string> without;
  for (const Op& op : table().rows()) {
    if (!op.formula || op.inplace_of || is_straight_through(op)) continue;
    for (const CallArgs& args : arguments(op, random)) {
      const Tensor result = evaluate(op, args)[0], one = Tensor::full(std::vector<int64_t>{kPoints}, 1, DType::F64);
      for (size_t param = 0; param < args.size(); ++param) {
        auto* x = std::get_if<Tensor>(&args[param]);
        if (!x || x->dtype() != DType::F64) continue;
        const size_t moved = param + 2;
        try {
          if (!derivative_arguments(CallReader(op, args), param, result, one)) continue;  // 0 everywhere
          // The whole first derivative as a call with nothing left out, so that its operand can be moved.
          CallArgs first{one, std::monostate{}};
          first.insert(first.end(), args.begin(), args.end());
          const Op& row = derivative_row(op, param);
          const auto at = evaluate(row, first)[0].to_vector(), second = derivative(row, first, moved);
          const auto above = moved_by(row, first, moved, 1e-5), below = moved_by(row, first, moved, -1e-5);
          for (size_t i = 0; i < second.size(); ++i) {
            const double slope = (above[i] - below[i]) / 2e-5, bend = std::abs(above[i] - 2 * at[i] + below[i]) / 1e-5;
            if (!std::isfinite(slope) || std::abs(slope) > 1e3 || bend > 0.1 * (1 + std::abs(slope))) continue;
            EXPECT_NEAR(second[i], slope, 1e-3 * (1 + std::abs(slope) + std::abs(at[i]))) << row.name << " at " << x->to_vector()[i];
            ++checked;
          }
        } catch (const UserError&) {
          without.insert(op.name + "." + op.schema.params[param].name);
        }
      }
    }
  }
  EXPECT_GT(checked, 6000);
  for (const std::string& name : without)
    EXPECT_TRUE(name.starts_with("special_") || name.starts_with("igamma") || name.starts_with("hermite")) << name;
}

struct Point {
  const char* row;
  double x, y;  // y: the second operand, or unused
  const char* by;
  double slope;  // as PyTorch's
};

// Points at which a function has no derivative, or its formula another one.
TEST_F(Derivatives, AreThoseOfPyTorchAtCorners) {
  const double nan = std::nan("");
  const Point points[] = {
      {"abs", 0, 0, "self", 0},
      {"relu", 0, 0, "self", 0},
      {"relu6", 6, 0, "self", 0},
      {"hardsigmoid", 3, 0, "self", 0},
      {"sign", 0, 0, "self", 0},
      {"maximum", 1, 1, "self", 0.5},
      {"maximum", 1, 1, "other", 0.5},
      {"minimum", 1, 1, "self", 0.5},
      {"fmax", 1, 1, "self", 0.5},
      {"fmax", 1, 1, "other", 0.5},
      {"fmin", 1, nan, "self", 1},
      {"pow.Tensor_Tensor", 0, 2, "exponent", 0},
      {"pow.Tensor_Tensor", 0, 0, "self", 0},
      {"xlogy.Tensor", 0, 2, "self", std::log(2.0)},
      {"xlogy.Tensor", 0, 0, "self", 0},
      {"clamp_min.Tensor", 1, 1, "self", 0.5},
      {"clamp_min.Tensor", 1, 1, "min", 0.5},
      {"atan2", 0, 0, "self", 0},
      {"atan2", 0, 0, "other", 0},
      {"copysign.Tensor", 0, 1, "self", 0},
      {"sinc", 0, 0, "self", 0},
      {"special_i1", 0, 0, "self", 0.5},
  };
  for (const Point& p : points) {
    const Op& op = get(p.row);
    CallArgs args{Tensor::of({p.x}, {1}, DType::F64)};
    if (op.schema.params.size() > 1) args.push_back(Tensor::of({p.y}, {1}, DType::F64));
    const Tensor result = evaluate(op, args)[0], one = Tensor::of({1}, {1}, DType::F64);
    const auto param = static_cast<size_t>(op.schema.find(p.by));
    auto call = derivative_arguments(CallReader(op, args), param, result, one);
    const double got = call ? evaluate(derivative_row(op, param), std::move(*call))[0].item() : 0;
    EXPECT_DOUBLE_EQ(got, p.slope) << p.row << " by " << p.by << " at " << p.x << ", " << p.y;
  }
}

// Levels 0 to 3 are -0.5 to 1. Values and gradients are PyTorch's.
TEST_F(Derivatives, OfFakeQuantizationGoStraightThrough) {
  const double inf = HUGE_VAL;
  const std::vector<double> x = {-3, -1, -0.75, -0.25, 0, 0.24, 0.25, 0.75, 1.25, 1.26, 5, std::nan(""), inf, -inf};
  const std::vector<int64_t> sizes = {static_cast<int64_t>(x.size())};
  const std::vector<double> expected = {0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0};
  const auto slopes = [&](const char* name, CallArgs args, size_t param) {
    const Op& op = get(name);
    const Tensor one = Tensor::full(sizes, 1);
    auto call = derivative_arguments(CallReader(op, args), param, evaluate(op, args)[0], one);
    return call ? evaluate(derivative_row(op, param), std::move(*call))[0].to_vector() : std::vector<double>{};
  };
  const Tensor self = Tensor::of(x, sizes), scale = Tensor::of({0.5}, {}), zero = Tensor::of({1}, {}, DType::I32);
  EXPECT_EQ(slopes("fake_quantize_per_tensor_affine", {self, 0.5, Expr(1), Expr(0), Expr(3)}, 0), expected);
  EXPECT_EQ(slopes("_fake_quantize", {self, scale, zero, Expr(0), Expr(3)}, 0), expected);
  EXPECT_EQ(slopes("_fake_quantize", {self, scale, zero, Expr(0), Expr(3)}, 1), std::vector<double>{}) << "none goes to the scale";
}

// What a mask takes out has no part in a gradient, also where its slope is infinite.
TEST_F(Derivatives, OfWhatIsNotChosenAreNothing) {
  for (const char* name : {"log", "sqrt", "rsqrt", "reciprocal", "special_erfcx"}) {
    const Op& op = get(name);
    const double x = std::string_view(name) == "special_erfcx" ? -1e3 : 0;
    const CallArgs args{Tensor::of({x}, {1}, DType::F64)};
    auto call = derivative_arguments(CallReader(op, args), 0, evaluate(op, args)[0], Tensor::of({0}, {1}, DType::F64));
    EXPECT_EQ(evaluate(derivative_row(op, 0), std::move(*call))[0].item(), 0) << name;
  }
}

TEST_F(Derivatives, TakeOnlyWhatTheyDependOn) {
  const Tensor x = Tensor::of({1, 2}, {2}), y = Tensor::of({3, 4}, {2}), g = Tensor::of({1, 1}, {2});
  const auto given = [&](const char* name, CallArgs args, size_t param) {
    const Op& op = get(name);
    args = complete(op, std::move(args));
    const auto call = *derivative_arguments(CallReader(op, args), param, evaluate(op, args)[0], g);
    std::string out;
    for (auto& a : call) out += std::holds_alternative<Tensor>(a) && std::get<Tensor>(a).defined() ? "x" : "-";
    return out;
  };
  EXPECT_EQ(given("add.Tensor", {x, y}, 0), "x----");  // grad; result, self, other, alpha
  EXPECT_EQ(given("mul.Tensor", {x, y}, 0), "x--x");
  EXPECT_EQ(given("tanh", {x}, 0), "xx-");  // 1 - result^2
  EXPECT_EQ(given("exp", {x}, 0), "xx-");
  EXPECT_EQ(given("relu", {x}, 0), "xx-");
  EXPECT_EQ(given("sin", {x}, 0), "x-x");
  EXPECT_FALSE(derivative_arguments(CallReader(get("floor"), CallArgs{x}), 0, x, g));
}

TEST_F(Derivatives, AreFoundByName) {
  const Op* row = table().find("grad.mul.Tensor.other");
  ASSERT_TRUE(row);
  EXPECT_EQ(row, &derivative_row(get("mul.Tensor"), 1));
  const Op* second = table().find("grad.grad.mul.Tensor.other.self");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->primal, row);
  for (const char* name : {"grad.", "grad.mul.Tensor", "grad.mul.Tensor.alpha", "grad.add.Tensor.alpha", "grad.mm.self", "grad..x"})
    EXPECT_FALSE(table().find(name)) << name;
}

}  // namespace
}  // namespace toroid::ops
