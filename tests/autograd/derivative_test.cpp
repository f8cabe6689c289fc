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

  // AtCorners: at 0, at one distance from it on both sides, and at equal operands. WithOptions: rows with numbers that may be left out,
  // which are given.
  enum class Where { Anywhere, AtCorners, WithOptions };

  static bool is_option(const Param& p) { return p.optional && p.type == ParamType::Float; }

  static double drawn(const Op& op, Where where, std::mt19937& random) {
    constexpr double kCorners[] = {0, 1, -1, 0.5, -0.5, 2};
    const double corner = kCorners[random() % std::size(kCorners)];
    if (where == Where::AtCorners && corner >= op.domain_lo && corner <= op.domain_hi) return corner;
    return std::uniform_real_distribution<double>(op.domain_lo, op.domain_hi)(random);
  }

  // Arguments that a row takes, in f64; nullopt for rows that take no floats.
  static std::optional<CallArgs> arguments(const Op& op, std::mt19937& random, Where where = Where::Anywhere) {
    const auto& params = op.schema.params;
    if (where == Where::WithOptions && std::none_of(params.begin(), params.end(), is_option)) return std::nullopt;
    CallArgs args;
    uint32_t bit = 1;
    for (const Param& p : op.schema.params) {
      if (p.type == ParamType::Tensor) {
        std::vector<double> values(kPoints);
        for (double& v : values) v = op.bool_operands & bit ? static_cast<double>(random() % 2) : drawn(op, where, random);
        args.push_back(Tensor::of(values, std::vector<int64_t>{kPoints}, op.bool_operands & bit ? DType::Bool : DType::F64));
        bit <<= 1;
      } else if (where == Where::WithOptions && is_option(p)) {
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

  static bool is_moved(const Arg<Tensor>& a) {
    auto* t = std::get_if<Tensor>(&a);
    return t && t->defined() && t->dtype() == DType::F64;
  }

  // Where the derivative is PyTorch's, and the row has another one, or none that it tells: three equal limits, which pass a gradient on;
  // poles of logarithms with the factor 0; by orders of the gamma functions, whose slopes PyTorch lacks.
  static bool is_defined_otherwise(const std::string& row, size_t param, const std::vector<double>& point) {
    if (row == "clamp.Tensor" || row == "clip.Tensor") return point[0] == point[1] && point[0] == point[2];
    if (row == "special_xlog1py") return point[0] == 0 && point[1] == -1;
    return param == 2 && (row.starts_with("grad.igamma") || row.starts_with("grad.special_gammainc"));
  }

  // How many points were compared.
  static int compare(const Op& op, const CallArgs& args, size_t param, const std::vector<double>& got, double tolerance) {
    constexpr double kStep = 1e-5;
    const auto above = moved_by(op, args, param, kStep), below = moved_by(op, args, param, -kStep);
    const auto at = evaluate(op, args)[0].to_vector();
    int checked = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double slope = (above[i] - below[i]) / (2 * kStep);
      const double bend = std::abs(above[i] - 2 * at[i] + below[i]) / kStep;  // of the slopes on both sides
      if (!std::isfinite(slope) || std::abs(slope) > 1e3 || !(bend <= 0.1 * (1 + std::abs(slope)))) continue;
      if (is_defined_otherwise(op.name, param, point(args, i))) continue;
      EXPECT_NEAR(got[i], slope, tolerance * (1 + std::abs(slope) + std::abs(at[i])))
          << op.name << " by " << op.schema.params[param].name << " at " << ::testing::PrintToString(point(args, i));
      ++checked;
    }
    return checked;
  }

  static std::vector<double> point(const CallArgs& args, size_t i) {
    std::vector<double> out;
    for (auto& a : args)
      if (is_moved(a)) out.push_back(std::get<Tensor>(a).to_vector()[i]);
    return out;
  }

  // The derivatives of rows by their operands against differences of the rows; returns how many points were compared. Not looked at: jumps,
  // kinks, and what lies near a pole. `without` gets the rows that have no derivative.
  int compare_slopes(Where where, std::set<std::string>& without) {
    std::mt19937 random(1);
    int checked = 0;
    for (const Op& op : table().rows()) {
      if (!op.formula || op.inplace_of || is_straight_through(op)) continue;
      const auto args = arguments(op, random, where);
      if (!args) continue;
      for (size_t param = 0; param < args->size(); ++param) {
        if (!is_moved((*args)[param])) continue;
        try {
          checked += compare(op, *args, param, derivative(op, *args, param), 1e-4);
        } catch (const UserError&) {
          without.insert(op.name + "." + op.schema.params[param].name);
        }
      }
    }
    return checked;
  }

  // Second derivatives, also mixed ones: those of the rows of first derivatives.
  int compare_second_slopes(Where where, std::set<std::string>& without) {
    std::mt19937 random(2);
    int checked = 0;
    for (const Op& op : table().rows()) {
      if (!op.formula || op.inplace_of || is_straight_through(op)) continue;
      const auto args = arguments(op, random, where);
      if (!args) continue;
      const Tensor result = evaluate(op, *args)[0], one = Tensor::full(std::vector<int64_t>{kPoints}, 1, DType::F64);
      for (size_t param = 0; param < args->size(); ++param) {
        if (!is_moved((*args)[param])) continue;
        try {
          if (!derivative_arguments(CallReader(op, *args), param, result, one)) continue;  // 0 everywhere
          // The whole first derivative as a call with nothing left out, so that its operands can be moved.
          CallArgs first{one, std::monostate{}};
          first.insert(first.end(), args->begin(), args->end());
          const Op& row = derivative_row(op, param);
          for (size_t moved = 2; moved < first.size(); ++moved)
            if (is_moved(first[moved])) checked += compare(row, first, moved, derivative(row, first, moved), 1e-3);
        } catch (const UserError&) {
          without.insert(op.name + "." + op.schema.params[param].name);
        }
      }
    }
    return checked;
  }

  // Orders and degrees of special functions, and polynomials that PyTorch does not differentiate either.
  void expect_special(const std::set<std::string>& without) {
    for (const std::string& name : without)
      EXPECT_TRUE(name.starts_with("special_") || name.starts_with("igamma") || name.starts_with("hermite")) << name;
  }

  ReferenceDispatcher reference_;
  DispatchScope scope_{reference_};
};

TEST_F(Derivatives, AreTheSlopesOfTheirRows) {
  std::set<std::string> without;
  EXPECT_GT(compare_slopes(Where::Anywhere, without), 8000);
  expect_special(without);
}

// Where pieces of a formula meet (an abs in it, a maximum), and the function itself goes on smoothly.
TEST_F(Derivatives, AreTheSlopesOfTheirRowsAtCorners) {
  std::set<std::string> without;
  EXPECT_GT(compare_slopes(Where::AtCorners, without), 4000);
}

TEST_F(Derivatives, AreTheSlopesOfTheirRowsWithOptions) {
  std::set<std::string> without;
  EXPECT_GT(compare_slopes(Where::WithOptions, without), 100);
  EXPECT_GT(compare_second_slopes(Where::WithOptions, without), 50);
  expect_special(without);
}

// Second derivatives are derivatives of the rows of first ones.
TEST_F(Derivatives, HaveDerivatives) {
  std::set<std::string> without;
  EXPECT_GT(compare_second_slopes(Where::Anywhere, without), 6000);
  expect_special(without);
}
TEST_F(Derivatives, HaveDerivativesAtCorners) {
  std::set<std::string> without;
  EXPECT_GT(compare_second_slopes(Where::AtCorners, without), 3000);
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
